"""BLEU of a set of translations, by sacrebleu, with the tokenizer that fits the language."""

from collections.abc import Sequence
from typing import NamedTuple

from lexigraft.evaluation.pairs import check_pairs
from lexigraft.evaluation.unspaced_scripts import LANGUAGES


class Bleu(NamedTuple):
    """BLEU on the scale 0 to 100; `signature` is sacrebleu's, which names the tokenizer."""

    corpus: float
    signature: str


def bleu(predictions: Sequence[str], references: Sequence[str], language: str | None) -> Bleu:
    """Score translations against one reference each.

    Tokens are those of sacrebleu's `13a`, the default of the field; of Chinese those of its `zh`;
    of other languages that are written without spaces its characters, which needs no dictionary.

    Parameters
    ----------
    language
        ISO 639 code of the translations; None takes the default.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    from sacrebleu.metrics.bleu import BLEU

    check_pairs(predictions, references)
    metric = BLEU(tokenize=_tokenizer(language))
    score = metric.corpus_score(list(predictions), [list(references)]).score
    return Bleu(score, metric.get_signature().format())


def _tokenizer(language: str | None) -> str:
    if language == "zh":
        return "zh"
    # Of a script without spaces words would be whole clauses, so characters count.
    return "char" if language in LANGUAGES else "13a"
