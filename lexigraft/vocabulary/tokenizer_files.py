"""The files of a vocabulary: its tokenizer, and its description for `vocabulary.json`.

`tokenizer.json` and `tokenizer.model` segment identically.
"""

import logging
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import TEMPORARY_PREFIX, write_json
from lexigraft.corpus.mixture import MEASURED
from lexigraft.errors import UserError
from lexigraft.source.encoding import count_tokens, encoded_batches
from lexigraft.source.saving import write_tokenizer
from lexigraft.source.sentencepiece import (
    CONTROL,
    NORMAL,
    UNUSED,
    USER_DEFINED,
    read_model,
    sentencepiece_to_fast,
)
from lexigraft.source.tokenizer import tokenizer_family
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.marks import cuts_at_marks
from lexigraft.vocabulary.token_bytes import lost_text, special_ids, token_bytes

logger = logging.getLogger(__name__)

_MODEL = "tokenizer.model"


def store_vocabulary(
    source: PreTrainedTokenizerFast,
    tokenizer: PreTrainedTokenizerFast,
    lines: Sequence[str],
    description: dict[str, Any],
    folder: str,
    source_folder: str | Path | None = None,
    model: bytes | None = None,
    english: Sequence[str] = (),
) -> tuple[list[str], dict[str, Any]]:
    """Write a tokenizer based on `source` and its description; returns file names and card facts.

    `lines` are the training text, of which the first `MEASURED` are measured; `english` are
    sentences in the language of the source; for `source_folder` and `model` see `save_tokenizer`.
    """
    lines = lines[:MEASURED]
    files = save_tokenizer(tokenizer, folder, source_folder, lines[:1000], model)
    write_json(Path(folder, "vocabulary.json"), description)
    new_ids = {token["id"] for token in description["new_tokens"]}
    facts: dict[str, Any] = {"new_tokens": len(new_ids)}
    if description["mode"] != "replace":
        names = {"new_merges", "marks", "rows_saved"} & description.keys()
        facts |= {name: description[name] for name in sorted(names)}
        if english:
            segmentations = (
                map(each.convert_ids_to_tokens, chain.from_iterable(encoded_batches(each, english)))
                for each in (source, tokenizer)
            )
            changed = sum(before != after for before, after in zip(*segmentations, strict=True))
            facts["english_sentences_changed"] = changed / len(english)
    else:
        facts["shared_tokens"] = description["shared"]
        facts["superwords"] = description["superwords"]
    facts["lost_text"] = lost_text(tokenizer, lines)
    if facts["lost_text"] > 0:
        logger.warning(
            "the tokenizer has no tokens for %.2f %% of the training text; a model never sees this "
            "text",
            100 * facts["lost_text"],
        )
    before, after = (count_tokens(each, lines) for each in (source, tokenizer))
    words = max(sum(len(text.split()) for text in lines), 1)
    facts["unused_new_tokens"] = len(new_ids - after.keys())
    facts["train_fertility_before"] = before.total() / words
    facts["train_fertility_after"] = after.total() / words
    return [*files, "vocabulary.json"], facts


def save_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    folder: str | Path,
    source_folder: str | Path | None = None,
    samples: Sequence[str] = (),
    model: bytes | None = None,
) -> list[str]:
    """Write the tokenizer to `folder`, with its `tokenizer.model` if it has one.

    Returns the files written, relative to `folder`. A UserError is raised if the source's
    `tokenizer.model` belongs to another tokenizer, or disagrees on a sample.

    Parameters
    ----------
    source_folder
        Folder of the tokenizer that was expanded or pruned. Its `tokenizer.model`, if any, is
        changed too: a copy would give SentencePiece users the old vocabulary without any warning.
    samples
        Texts on which `tokenizer.model` must give the ids of `tokenizer`, unless the two files of
        the source differ already.
    model
        The content of `tokenizer.model` for a SentencePiece tokenizer that was trained.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=TEMPORARY_PREFIX) as name:
        temporary = Path(name)
        config = Path(source_folder) / "config.json" if source_folder else None
        write_tokenizer(tokenizer, temporary, config if config and config.is_file() else None)
        if source_folder is not None and (source_file := Path(source_folder) / _MODEL).is_file():
            (temporary / _MODEL).write_bytes(extended_model(source_file, tokenizer))
            _check_extended(tokenizer, temporary / _MODEL, source_file, samples)
        elif model is not None:
            (temporary / _MODEL).write_bytes(model)
            if differing := _different_texts(tokenizer, temporary / _MODEL, samples):
                raise RuntimeError(
                    f"the SentencePiece library segments {len(differing)} of {len(samples)} "
                    f"samples differently from the fast tokenizer, first {differing[0]!r}"
                )
        # A tokenizer with several chat templates has a folder of them.
        paths = (path for path in temporary.rglob("*") if path.is_file())
        files = sorted(str(path.relative_to(temporary)) for path in paths)
        if _MODEL not in files:
            (folder / _MODEL).unlink(missing_ok=True)
        for file in files:
            (folder / file).parent.mkdir(exist_ok=True)
            (temporary / file).replace(folder / file)
    return files


def extended_model(source_file: str | Path, tokenizer: PreTrainedTokenizerFast) -> bytes:
    """The SentencePiece model of `source_file` with the tokens of `tokenizer`, and no others.

    If all new merges come after the old ones, new pieces score below the lowest old score, in the
    order of their ids. Otherwise (`auxiliary-first`), every piece is scored by the position of its
    first merge, since the library merges in order of scores. A UserError is raised if `tokenizer`
    was not derived from that of `source_file`.
    """
    model = read_model(source_file)
    bpe = read_bpe(tokenizer)
    tokens = {token_id: token for token, token_id in bpe.vocab.items()}
    kept_pieces = [
        piece for piece in model.pieces if piece.type != NORMAL or piece.piece in bpe.vocab
    ]
    source_pieces = [piece.piece for piece in kept_pieces]
    for token_id, piece in enumerate(source_pieces):
        if tokens.get(token_id) != piece:
            raise UserError(
                f"{source_file}: id {token_id} is {piece!r} here but another token in the "
                "tokenizer; the file belongs to another tokenizer"
            )
    if len(kept_pieces) < len(model.pieces):
        del model.pieces[:]
        model.pieces.extend(kept_pieces)
        for role in ("unk", "bos", "eos", "pad"):
            if getattr(model.trainer_spec, f"{role}_id") >= 0:
                piece = getattr(model.trainer_spec, f"{role}_piece")
                setattr(model.trainer_spec, f"{role}_id", bpe.vocab.get(piece, -1))
    rank_of_piece: dict[str, int] = {}
    for left, right in bpe.merges:
        rank_of_piece.setdefault(left + right, len(rank_of_piece))
    lowest = min(piece.score for piece in model.pieces)
    # Scores are 32-bit floats: far from zero, a step of one would be lost.
    step = max(1.0, abs(lowest) * 2.0**-22)
    special = special_ids(tokenizer)
    for token_id in range(len(source_pieces), max(tokens) + 1):
        # A piece has no id of its own, so an id without a token needs one as well.
        token, piece_type = tokens.get(token_id, f"<unused_{token_id}>"), NORMAL
        if token_id not in tokens:
            piece_type = UNUSED
        elif token in bpe.added:
            piece_type = CONTROL if token_id in special else USER_DEFINED
        model.pieces.add(
            piece=token, score=lowest - (token_id - len(source_pieces) + 1) * step, type=piece_type
        )
    ranks: dict[bool, list[int]] = {True: [], False: []}  # by whether a piece is new
    for piece, rank in rank_of_piece.items():
        ranks[bpe.vocab[piece] >= len(source_pieces)].append(rank)
    if ranks[True] and ranks[True][0] < max(ranks[False], default=-1):
        for piece in model.pieces:
            if piece.type == NORMAL:
                piece.score = -float(rank_of_piece.get(piece.piece, len(rank_of_piece)))
    model.trainer_spec.vocab_size = len(model.pieces)
    return model.SerializeToString()


def describe_vocabulary(
    mode: str,
    source_tokenizer: PreTrainedTokenizerFast,
    target_tokenizer: PreTrainedTokenizerFast,
    new_ids: Sequence[int] = (),
    merges: str = "",
) -> dict[str, Any]:
    """Describe an expanded, pruned or replaced vocabulary: sizes, and new tokens with their texts.

    `mode` is `expand`, `prune` or `replace`, `new_ids` are the target's tokens that the source
    lacks. `marks` is `apart` if the pre-tokenizer splits letters from their combining marks,
    `superwords` the number of tokens that span several words.
    """
    bytes_of_ids, size = token_bytes(target_tokenizer), len(target_tokenizer.get_vocab())
    tokens = target_tokenizer.convert_ids_to_tokens(list(new_ids))
    sizes = {"source_size": len(source_tokenizer.get_vocab()), "size": size}
    facts: dict[str, Any] = {"mode": mode, "family": tokenizer_family(target_tokenizer)}
    if mode == "expand":
        n_before, n_after = (
            len(read_bpe(tokenizer).merges) for tokenizer in (source_tokenizer, target_tokenizer)
        )
        is_apart = cuts_at_marks(target_tokenizer.backend_tokenizer)
        facts |= {"merges": merges, "marks": "apart" if is_apart else "joined", **sizes}
        facts["new_merges"] = n_after - n_before
    elif mode == "prune":
        facts["source_size"] = sizes["source_size"]
    else:
        facts |= {**sizes, "shared": size - len(new_ids)}
        facts["superwords"] = sum(len(data.split()) > 1 for data in bytes_of_ids)
    texts = (
        bytes_of_ids[token_id].decode("utf-8", errors="backslashreplace") for token_id in new_ids
    )
    facts["new_tokens"] = [
        {"id": token_id, "token": token, "text": text}
        for token_id, token, text in zip(new_ids, tokens, texts, strict=True)
    ]
    return facts


def _check_extended(
    tokenizer: PreTrainedTokenizerFast, model: Path, source: Path, samples: Sequence[str]
) -> None:
    """Compare the extended `tokenizer.model` with the fast tokenizer on the samples."""
    if not (differing := _different_texts(tokenizer, model, samples)):
        return
    if (source.parent / "tokenizer.json").is_file():
        source_tokenizer = PreTrainedTokenizerFast.from_pretrained(source.parent)
    else:
        source_tokenizer = sentencepiece_to_fast(source)
    different_before = _different_texts(source_tokenizer, source, differing)
    if newly_different := [text for text in differing if text not in different_before]:
        raise UserError(
            f"{source}: after the extension it segments {len(newly_different)} of {len(samples)} "
            f"samples differently from the extended tokenizer.json, first {newly_different[0]!r}"
        )
    logger.warning(
        "%s and the tokenizer.json next to it differ on %d of %d samples, as before the expansion",
        source,
        len(differing),
        len(samples),
    )


def _different_texts(
    tokenizer: PreTrainedTokenizerFast, model: Path, samples: Sequence[str]
) -> list[str]:
    """The samples that a `tokenizer.model` segments differently from a fast tokenizer."""
    library = SentencePieceProcessor(model_file=str(model)).encode
    return [
        text
        for text in samples
        if library(text) != tokenizer.encode(text, add_special_tokens=False)
    ]
