"""How well a recipe aligns two vocabularies: text of one, mapped token by token to the other.

UnifyVocab, sections 2.2 and B.4.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lexigraft.errors import UserError
from lexigraft.evaluation.texts import draw, sentences, tokenize_plain
from lexigraft.inference.generation import decode
from lexigraft.initialization.dense_rows import DenseRows
from lexigraft.initialization.storage import load_initialization
from lexigraft.provenance import versions
from lexigraft.source.hub import resolve
from lexigraft.source.model import load_tokenizer, open_source

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from lexigraft.initialization.recipe import Recipe


_ORDER = 4  # BLEU's longest n-gram


def alignment_record(job: dict[str, Any]) -> dict[str, Any]:
    """The record of a fitted initializer, measured on held-out text.

    Parameters
    ----------
    job
        `settings`: the study's `alignment`; `inputs`: folders `source`, `tokenizer`,
        `initialization` and `corpus`, and `encoder` (see `SentenceEncoder`) or None; `cell`: the
        names of the initializer; `seed`: a list.
    """
    inputs, settings = job["inputs"], job["settings"]
    fitted = load_initialization(inputs["initialization"])
    metrics: dict[str, float | int] = {}
    details: dict[str, Any] = {}
    if isinstance(fitted, DenseRows):
        details["not_measured"] = "its rows are drawn: no source token stands for a new one"
    else:
        target = load_tokenizer(inputs["tokenizer"])
        ids = target.get_vocab()
        fallbacks = json.loads(Path(inputs["initialization"], "fallbacks.json").read_text("utf-8"))
        texts = draw(sentences(inputs["corpus"], "heldout"), settings["sentences"], job, "heldout")
        encoder = SentenceEncoder(inputs["encoder"]) if inputs.get("encoder") else None
        metrics = alignment(
            load_tokenizer(open_source(inputs["source"]).folder),
            target,
            fitted.recipe("input"),
            texts,
            fallbacks=[ids[token] for token in fallbacks],
            encoder=encoder,
        )
        details = {"sentences": len(texts), "fallbacks": len(fallbacks)}
        details["encoder"] = encoder and encoder.described()
    return {
        **job["cell"],
        "metrics": metrics,
        "details": details,
        "settings": settings,
        "seed": job["seed"],
        "versions": versions(),
    }


def alignment(
    source: "PreTrainedTokenizerFast",
    target: "PreTrainedTokenizerFast",
    recipe: "Recipe",
    texts: Sequence[str],
    *,
    fallbacks: Collection[int] = (),
    encoder: "SentenceEncoder | None" = None,
) -> dict[str, float | int]:
    """Measure how much of a text survives when the recipe renames its tokens.

    The text is cut by both tokenizers. Each target token is then replaced by the source token that
    its row leans on most, and what comes out is compared with the source's own tokens. The paper's
    text describes the mapping from source to target, its published code this one, which is the
    direction in which rows are made: every target token has a source token, and not every source
    token has a target token.

    Parameters
    ----------
    source, target
        The tokenizers that the recipe was made for.
    texts
        Sentences that nothing was fitted on.
    fallbacks
        Ids of target tokens that no rule of the method covers.
    encoder
        Turns texts into vectors; without one there is no `semantic_similarity`.

    Returns
    -------
    dict
        On the scale 0 to 100: `bleu` and `bleu_1` over the token ids of the whole text (n-grams up
        to 4, and single tokens; counts pooled, brevity penalty, no smoothing), and
        `bleu_sentence_mean`, the mean over texts that the paper's code reports, where a text with
        no four tokens in a row in common scores 0. From 0 to 1: `vocabulary_coverage`, the share
        of target tokens that copy a source token or that a rule of the method makes;
        `text_coverage`, the same of the text's tokens; `semantic_similarity`, the mean cosine of
        the vectors of each text and of its renamed tokens as text.

    Raises
    ------
    UserError
        There are no texts.
    """
    if not texts:
        raise UserError("heldout.txt: empty; alignment is measured on text, so give it more")
    references = list(tokenize_plain(source, texts))
    cut = list(tokenize_plain(target, texts))
    used = np.unique(np.fromiter((token for ids in cut for token in ids), dtype=np.int64))
    renamed = dict(zip(used.tolist(), heaviest(recipe, used).tolist(), strict=True))
    mapped = [[renamed[token] for token in ids] for ids in cut]
    lost = set(fallbacks)
    tokens = sum(map(len, cut))
    metrics: dict[str, float | int] = {
        "bleu": bleu(mapped, references),
        "bleu_1": bleu(mapped, references, order=1),
        "bleu_sentence_mean": bleu_sentence_mean(mapped, references),
        "vocabulary_coverage": 1 - len(lost) / len(target.get_vocab()),
        "text_coverage": 1 - sum(token in lost for ids in cut for token in ids) / max(tokens, 1),
    }
    if encoder is not None:
        metrics["semantic_similarity"] = encoder.similarity(texts, decode(source, mapped))
    return metrics


def heaviest(recipe: "Recipe", ids: np.ndarray) -> np.ndarray:
    """The source token that each target token's row leans on most; of equals the lowest id.

    Parameters
    ----------
    ids
        Target ids [n].

    Returns
    -------
    ndarray
        Source ids [n], int64.
    """
    found = recipe.copied[ids]
    mixed = np.flatnonzero(found < 0)
    for block in recipe.row_blocks(ids[mixed]):
        rows = recipe.rows(ids[mixed[block]])
        for place, at, end in zip(mixed[block], rows.indptr, rows.indptr[1:], strict=False):
            found[place] = rows.indices[at + rows.data[at:end].argmax()]
    return found


def bleu(
    outputs: Iterable[Sequence[int]], references: Iterable[Sequence[int]], order: int = _ORDER
) -> float:
    """BLEU of token ids, 0 to 100: n-gram counts of all texts pooled, no smoothing."""
    return _metric(order).corpus_score(_spelled(outputs), [_spelled(references)]).score


def bleu_sentence_mean(
    outputs: Iterable[Sequence[int]], references: Iterable[Sequence[int]]
) -> float:
    """Mean of BLEU of each text by itself, 0 to 100, no smoothing."""
    metric = _metric(_ORDER)
    pairs = zip(_spelled(outputs), _spelled(references), strict=True)
    # As corpora of one text: for sentences sacrebleu asks to be told to count shorter n-grams only.
    return float(np.mean([metric.corpus_score([one], [[other]]).score for one, other in pairs]))


def _metric(order: int):
    from sacrebleu.metrics.bleu import BLEU

    # Ids are words here, and there is nothing to tokenize; `force` silences a warning about that.
    return BLEU(tokenize="none", smooth_method="none", max_ngram_order=order, force=True)


def _spelled(texts: Iterable[Sequence[int]]) -> list[str]:
    return [" ".join(map(str, ids)) for ids in texts]


_BATCH = 32
_LONGEST = 256  # tokens of a text; sentence encoders are trained on no more


class SentenceEncoder:
    """A sentence encoder of the kind of all-mpnet-base-v2, as UnifyVocab uses (section B.4).

    A text's vector is the mean of the last hidden states of its tokens, special ones included,
    scaled to length one; of a text of more than 256 tokens the rest is left out.

    Parameters
    ----------
    spec
        `{"hub": "org/name", "revision": …}` or `{"folder": path}`: a model in Hugging Face layout.

    Raises
    ------
    UserError
        There is no such model, or it cannot be loaded.
    """

    def __init__(self, spec: Mapping[str, str]):
        from transformers import AutoModel, AutoTokenizer

        folder, self.revision = resolve(spec)
        self.name = spec.get("hub") or str(folder)
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            model = AutoModel.from_pretrained(
                folder, use_safetensors=True, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"alignment.encoder: '{self.name}' cannot be loaded ({reason}); name a sentence "
                "encoder with *.safetensors, or null"
            ) from None
        self._model = model.float().eval()

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length one [len(texts), h], float32."""
        import torch

        found = []
        for first in range(0, len(texts), _BATCH):
            # Some tokenizers refuse an empty batch entry; a space is as empty.
            batch = self._tokenizer(
                [text or " " for text in texts[first : first + _BATCH]],
                padding=True,
                truncation=True,
                max_length=_LONGEST,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = self._model(**batch).last_hidden_state
            mask = batch["attention_mask"][:, :, None].to(states.dtype)
            mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            found.append(torch.nn.functional.normalize(mean, dim=1).numpy())
        return np.concatenate(found)

    def similarity(self, texts: Sequence[str], others: Sequence[str]) -> float:
        """Mean cosine of each text's vector and the other's in its place."""
        return float((self.vectors(texts) * self.vectors(others)).sum(axis=1).mean())

    def described(self) -> dict[str, Any]:
        """Name and revision, for records."""
        return {"name": self.name, "revision": self.revision}
