"""Read and validate the BPE model of a fast tokenizer."""

import json
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.source.tokenizer import is_byte_level

logger = logging.getLogger(__name__)

Pair = tuple[str, str]


@dataclass(frozen=True)
class Bpe:
    """The BPE model of a fast tokenizer."""

    vocab: dict[str, int]  # every token, added ones included, to its id; some ids may be unused
    merges: list[Pair]  # in order of priority
    byte_level: bool  # tokens are written in the alphabet of byte-level BPE ("Ġ" is a space)
    byte_fallback: bool  # characters without a token fall back to <0x00> … <0xFF> (SentencePiece)
    added: frozenset[str]  # matched in the text before the model runs: special, user-defined
    ignore_merges: bool
    unk_token: str | None
    fuse_unk: bool
    # tokenizer.json without the tokens and merges of the model.
    state: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def spelling(self) -> str:
        """How tokens are written: `byte-level` or `sentencepiece`."""
        return "byte-level" if self.byte_level else "sentencepiece"

    @property
    def boundary(self) -> str:
        """The spelling of a space, which begins a word, in tokens."""
        return "Ġ" if self.byte_level else "▁"

    @property
    def mergeable(self) -> frozenset[str]:
        """Tokens that may be merged: neither added tokens nor byte-fallback tokens."""
        return frozenset(self.vocab) - self.added - (BYTE_TOKENS if self.byte_fallback else set())

    @cached_property
    def model(self) -> BPE:
        """The model alone, without dropout, so that segmentation is deterministic."""
        return BPE(
            vocab=self.vocab,
            merges=self.merges,
            unk_token=self.unk_token,
            fuse_unk=self.fuse_unk,
            byte_fallback=self.byte_fallback,
            ignore_merges=self.ignore_merges,
        )

    def with_missing_bytes(self, words: Iterable[str]) -> "tuple[Bpe, list[str]]":
        """The model with a token for each byte of these words that it lacks, and these tokens.

        The `tokenizers` library drops bytes without a token from texts.
        """
        letters = set(chain.from_iterable(words)) - self.vocab.keys()
        if not self.byte_level:
            letters = {f"<0x{byte:02X}>" for letter in letters for byte in letter.encode()}
        missing = sorted(letters - self.vocab.keys())
        if not missing:
            return self, []
        first_id = max(self.vocab.values()) + 1
        ids = range(first_id, first_id + len(missing))
        logger.warning(
            "the tokenizer has no tokens for %d of the byte values in the text and drops them; "
            "they are added as the first new tokens",
            len(missing),
        )
        return replace(self, vocab=self.vocab | dict(zip(missing, ids, strict=True))), missing

    def extended(self, new_tokens: Sequence[str], merges: Sequence[Pair]) -> dict[str, Any]:
        """`tokenizer.json` with `new_tokens` after the last id, and `merges` instead of its own."""
        first_id = max(self.vocab.values()) + 1
        # Loading would renumber added tokens after the model's last id, since the model now extends
        # past them; `vocab` also contains them, so they keep their ids.
        return self._tokenizer_json(
            self.vocab | {token: first_id + index for index, token in enumerate(new_tokens)}, merges
        )

    def without(self, removed: Collection[str]) -> dict[str, Any]:
        """`tokenizer.json` without these tokens, none of them added, and without their merges.

        The remaining tokens keep their order and are renumbered from 0.
        """
        kept = [token for token in self.vocab if token not in removed]
        vocab = {
            token: new_id for new_id, token in enumerate(sorted(kept, key=self.vocab.__getitem__))
        }
        merges = [pair for pair in self.merges if {*pair, "".join(pair)} <= vocab.keys()]
        return self._tokenizer_json(vocab, merges) | {
            "added_tokens": [
                token | {"id": vocab[token["content"]]} for token in self.state["added_tokens"]
            ],
            "post_processor": _renumber(self.state["post_processor"], vocab),
        }

    def _tokenizer_json(self, vocab: Mapping[str, int], merges: Sequence[Pair]) -> dict[str, Any]:
        model = self.state["model"] | {"vocab": vocab, "merges": merges}
        # Truncation and padding are left over from the last call, not properties of the tokenizer.
        return self.state | {"model": model, "truncation": None, "padding": None}


BYTE_TOKENS = frozenset(f"<0x{byte:02X}>" for byte in range(256))


def read_bpe(tokenizer: PreTrainedTokenizerFast) -> Bpe:
    """Read and validate the BPE model of a fast tokenizer, see `read_bpe_pipeline`."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(
            f"{type(tokenizer).__name__} is not a fast tokenizer (it has no tokenizer.json); "
            "convert it first (a tokenizer.model with lexigraft.source.sentencepiece_to_fast)"
        )
    return read_bpe_pipeline(backend)


def read_bpe_pipeline(backend: Tokenizer) -> Bpe:
    """Read and validate the BPE model of a pipeline.

    A UserError is raised if it is not byte-level or byte-fallback BPE, or is corrupt: the library
    loads two tokens with one id, duplicate merges and merges without their tokens silently.
    """
    vocab = backend.get_vocab(with_added_tokens=True)
    token_id, count = Counter(vocab.values()).most_common(1)[0] if vocab else (0, 1)
    if count > 1:  # checked before serialization, at which the library would panic
        first, second, *_ = (token for token, number in vocab.items() if number == token_id)
        raise UserError(f"corrupt tokenizer: {first!r} and {second!r} share id {token_id}")
    state = json.loads(backend.to_str())
    model = state["model"]
    byte_level, kind = is_byte_level(state), model.get("type")
    affixes = ("continuing_subword_prefix", "end_of_word_suffix")
    if kind == "BPE" and any(map(model.get, affixes)):
        kind = "BPE with a subword prefix or a word suffix"
    elif kind == "BPE" and not byte_level and not model.get("byte_fallback"):
        kind = "BPE over characters without byte fallback"
    if kind != "BPE":
        raise UserError(
            f"the tokenizer is {kind}; only byte-level BPE and byte-fallback BPE (SentencePiece) "
            "tokenizers have merges to read and extend"
        )
    merges = [(left, right) for left, right in model["merges"]]
    if len(set(merges)) < len(merges):
        pair, count = Counter(merges).most_common(1)[0]
        raise UserError(f"corrupt tokenizer: the merge {pair} is listed {count} times")
    if missing := {*chain.from_iterable(merges), *map("".join, merges)} - vocab.keys():
        pair = next(pair for pair in merges if missing & {*pair, "".join(pair)})
        part = next(part for part in (*pair, "".join(pair)) if part in missing)
        raise UserError(f"corrupt tokenizer: the merge {pair} needs {part!r}, which is not a token")
    del model["vocab"], model["merges"]
    bpe = Bpe(
        vocab=vocab,
        merges=merges,
        byte_level=byte_level,
        byte_fallback=bool(model.get("byte_fallback")),
        added=frozenset(token["content"] for token in state["added_tokens"]),
        ignore_merges=bool(model.get("ignore_merges")),
        unk_token=model.get("unk_token"),
        fuse_unk=bool(model.get("fuse_unk")),
        state=state,
    )
    if model.get("dropout") is None:
        # Set the cached property: rebuilding the model takes seconds for large vocabularies.
        bpe.__dict__["model"] = backend.model
    return bpe


def _renumber(step: dict[str, Any] | None, vocab: Mapping[str, int]) -> dict[str, Any] | None:
    """A post-processor, as in `tokenizer.json`, with the ids that its tokens have in `vocab`."""
    if step is None:
        return None
    renumbered = dict(step)
    if "processors" in step:
        renumbered["processors"] = [_renumber(part, vocab) for part in step["processors"]]
    for role in {"sep", "cls"} & step.keys():  # of BERT and RoBERTa
        renumbered[role] = [step[role][0], vocab[step[role][0]]]
    if "special_tokens" in step:  # of templates
        renumbered["special_tokens"] = {
            name: token | {"ids": [vocab[token_string] for token_string in token["tokens"]]}
            for name, token in step["special_tokens"].items()
        }
    return renumbered
