"""ROUGE-L, the summarization metric: the longest common subsequence of two texts' tokens.

What counts as a token is ours to say: the default of the rouge-score package keeps the letters a
to z and the digits and deletes all other writing, so that two equal Burmese texts score 0.
"""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import regex

from lexigraft.errors import UserError
from lexigraft.evaluation.pairs import check_pairs
from lexigraft.evaluation.unspaced_scripts import LETTER, SCRIPTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_TOKEN = regex.compile(
    LETTER  # of a script without spaces, with the marks on it
    + rf"|(?:[\p{{M}}\p{{N}}]|(?![{SCRIPTS}])\p{{L}})+"  # a word or a number of any other
)
# Soft hyphens, joiners and direction marks, which may stand inside a word.
_INVISIBLE = regex.compile(r"\p{Cf}+")


class Tokenizer(Protocol):
    """What rouge-score asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, in order."""


class ScriptTokenizer:
    """Words where a script puts spaces between them, letters with their marks where it does not.

    Finding words in Thai, Burmese or Japanese takes a dictionary or a model for each language,
    and then the score depends on it. A letter with its marks is about a syllable of Burmese and a
    character of Japanese. So scores compare within a language and not across languages. Case,
    width (NFKC), punctuation and invisible characters do not matter.
    """

    name = "words, or letters with their marks in scripts without spaces"

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
        return _TOKEN.findall(unicodedata.normalize("NFKC", plain))


class PieceTokenizer:
    """The pieces of a subword tokenizer, as they are: Yamaguchi et al. use those of mT5."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", name: str):
        self.name = f"pieces of {name}"
        self._tokenizer = tokenizer

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        return self._tokenizer.tokenize(text)


def rouge_tokenizer(name: str | None) -> ScriptTokenizer | PieceTokenizer:
    """The tokenizer of this hub name or folder; without one the tokenizer by script.

    Raises
    ------
    UserError
        It cannot be loaded.
    """
    if name is None:
        return ScriptTokenizer()
    from transformers import AutoTokenizer

    try:
        return PieceTokenizer(AutoTokenizer.from_pretrained(name, trust_remote_code=False), name)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"config/tasks.yaml: rouge_tokenizer: '{name}' cannot be loaded ({reason}); name a "
            "folder that holds the tokenizer, or null"
        ) from None


def rouge_l(
    predictions: Sequence[str], references: Sequence[str], tokenizer: Tokenizer
) -> list[float]:
    """ROUGE-L of each text on the scale 0 to 100: F-measure of precision and recall, beta 1.

    With `m` tokens in common, in order but not necessarily side by side, precision is `m` over the
    prediction's tokens and recall `m` over the reference's. A prediction without tokens scores 0.

    Raises
    ------
    ValueError
        There is nothing to score, or the lengths differ.
    """
    from rouge_score.rouge_scorer import RougeScorer

    check_pairs(predictions, references)
    scorer = RougeScorer(["rougeL"], tokenizer=tokenizer)
    pairs = zip(references, predictions, strict=True)
    return [100 * scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]
