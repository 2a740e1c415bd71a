"""ROUGE-L by rouge-score, with tokens that suit the script."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import regex

from lexigraft.errors import UserError, first_line
from lexigraft.evaluation.metric_kinds import MetricKind, Scorer, TextScores, check_pairs
from lexigraft.evaluation.unspaced_scripts import UNSPACED_LETTER, UNSPACED_SCRIPTS

# A word or a number, in any script with spaces between words.
_WORD = rf"(?:[\p{{M}}\p{{N}}]|(?![{UNSPACED_SCRIPTS}])\p{{L}})+"
_TOKEN = regex.compile(f"{UNSPACED_LETTER}|{_WORD}")
# Soft hyphens, joiners and direction marks, which may occur inside a word.
_INVISIBLE = regex.compile(r"\p{Cf}+")


class ScriptTokenizer:
    """Splits text into words or, in scripts without spaces, into letters with their marks.

    The default of the rouge-score package keeps only the letters a to z and digits, so that two
    equal Burmese texts score 0; word segmentation would need a dictionary or a model for each
    language. Scores are comparable within a language but not across languages. Case, width (NFKC),
    punctuation and invisible characters are ignored.
    """

    name = "words, or letters with their marks in scripts without spaces"

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
        return _TOKEN.findall(unicodedata.normalize("NFKC", plain))


class PieceTokenizer:
    """Splits text into the pieces of a subword tokenizer: Yamaguchi et al. use that of mT5.

    `revision` is a commit, tag or branch of a hub name. Raises `UserError` if it cannot be loaded.
    """

    def __init__(self, name: str, revision: str | None = None):
        from transformers import AutoTokenizer

        try:
            pieces = AutoTokenizer.from_pretrained(
                name, revision=revision or "main", trust_remote_code=False
            )
        except (OSError, ValueError, ImportError) as error:
            raise UserError(
                f"config/tasks.yaml: rouge_tokenizer: '{name}' cannot be loaded "
                f"({first_line(error)}); specify a folder that contains the tokenizer, or null"
            ) from None
        self.name = f"pieces of {name}"
        self.tokenize = pieces.tokenize


def rouge_l(
    predictions: Sequence[str],
    references: Sequence[str],
    tokenizer: ScriptTokenizer | PieceTokenizer,
) -> list[float]:
    """ROUGE-L of each text, 0 to 100: F-measure of precision and recall, beta 1.

    With `m` tokens in the longest common subsequence, precision is `m` over the prediction's tokens
    and recall `m` over the reference's. A prediction without tokens scores 0. Raises `ValueError`
    if there is nothing to score, or if the lengths differ.
    """
    from rouge_score.rouge_scorer import RougeScorer

    check_pairs(predictions, references)
    scorer = RougeScorer(["rougeL"], tokenizer=tokenizer)
    pairs = zip(references, predictions, strict=True)
    return [100 * scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]


def _scorer(settings: Any, language: str | None) -> Scorer:
    name = getattr(settings, "rouge_tokenizer", None)
    revision = getattr(settings, "rouge_revision", None)
    tokenizer = ScriptTokenizer() if name is None else PieceTokenizer(name, revision)

    def score(outputs: Sequence[str], references: Sequence[str]) -> TextScores:
        scores = rouge_l(outputs, references, tokenizer)
        signature = f"ROUGE-L F1 of rouge-score, tokens: {tokenizer.name}"
        return TextScores(sum(scores) / len(scores), signature, scores)

    return score


# A few syllables or words that occur in most texts of a language score up to about 10.
METRIC = MetricKind("rouge_l", "ROUGE-L", noise=10.0, scorer=_scorer)
