"""Score texts against one reference each: chrF and BLEU of translations, ROUGE-L of summaries.

chrF and BLEU are sacrebleu's. A bootstrap needs thousands of their scores at once, so they are also
computed from sums of sentence statistics.
"""

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import regex

from lexigraft.errors import UserError, first_line

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerBase

# Languages and scripts without spaces between words, in which letters are compared.
UNSPACED_LANGUAGES = ("bo", "ja", "km", "lo", "my", "th", "zh")
# Three-letter codes of the same languages, which settings reject in favour of the short ones.
LONG_CODES = {
    "bod": "bo", "tib": "bo", "jpn": "ja", "khm": "km", "lao": "lo", "bur": "my", "mya": "my",
    "tha": "th", "chi": "zh", "cmn": "zh", "zho": "zh",
}  # fmt: skip
_SCRIPTS = "".join(
    rf"\p{{scx={script}}}"
    for script in ("Han", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr", "Tibt")
)
UNSPACED_LETTER = rf"(?=\p{{L}})[{_SCRIPTS}]\p{{M}}*"  # with its marks
_WORD = rf"(?:[\p{{M}}\p{{N}}]|(?![{_SCRIPTS}])\p{{L}})+"  # or a number, in any other script
_TOKEN = regex.compile(f"{UNSPACED_LETTER}|{_WORD}")
# Soft hyphens, joiners and direction marks, which may occur inside a word.
_INVISIBLE = regex.compile(r"\p{Cf}+")

_CHRF_BETA = 2
_BLEU_ORDER = 4  # n-grams of tokens up to this length


class Chrf(NamedTuple):
    """chrF of a set of translations, on the scale 0 to 100.

    `corpus` pools the n-gram counts of all sentences; `sentences` are the single scores;
    `signature` is sacrebleu's, which names the variant and the version.
    """

    corpus: float
    sentences: list[float]
    signature: str


def chrf(predictions: Sequence[str], references: Sequence[str], word_order: int = 0) -> Chrf:
    """Score translations by F-scores of character n-grams: character order 6, beta 2.

    `word_order` 0 is chrF; 2 is chrF++, in which words and word pairs also count (Popović 2017). An
    empty prediction scores 0. The published evaluation of Yamaguchi et al. averages the sentence
    scores; other work reports the corpus score, in which a two-word sentence does not weigh as much
    as a long one. Raises `ValueError` if there is nothing to score, or if the lengths differ.
    """
    from sacrebleu.metrics.chrf import CHRF

    _check_pairs(predictions, references)
    metric = CHRF(word_order=word_order, beta=_CHRF_BETA)
    corpus = metric.corpus_score(list(predictions), [list(references)]).score
    pairs = zip(predictions, references, strict=True)
    sentences = [metric.sentence_score(output, [reference]).score for output, reference in pairs]
    return Chrf(corpus, sentences, metric.get_signature().format())


def chrf_statistics(
    predictions: Sequence[str], references: Sequence[str], word_order: int = 0
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 18], or [sentences, 24] for chrF++.

    For each n-gram length, the numbers of n-grams in the prediction, in the reference, and in both.
    """
    from sacrebleu.metrics.chrf import CHRF

    # sacrebleu's paired tests also use this method; its public scores hold no counts.
    metric = CHRF(word_order=word_order, beta=_CHRF_BETA)
    return metric._extract_corpus_statistics(list(predictions), [list(references)])


def chrf_score(totals: "np.ndarray") -> "np.ndarray":
    """chrF or chrF++, 0 to 100, of summed statistics: [..., 18 or 24] -> [...].

    Precision and recall are averaged over the lengths that both texts have; recall weighs twice as
    much (Popović 2015, 2017).
    """
    import numpy as np

    ours, theirs, matches = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)
    usable = (ours > 0) & (theirs > 0)
    orders = np.maximum(usable.sum(axis=-1), 1)
    one = np.ones_like(ours)
    precision = (matches / np.where(usable, ours, one) * usable).sum(axis=-1) / orders
    recall = (matches / np.where(usable, theirs, one) * usable).sum(axis=-1) / orders
    below = _CHRF_BETA**2 * precision + recall
    return 100 * (1 + _CHRF_BETA**2) * precision * recall / np.where(below > 0, below, 1)


class Bleu(NamedTuple):
    """BLEU on the scale 0 to 100; `signature` is sacrebleu's, which names the tokenizer."""

    corpus: float
    signature: str


def bleu(predictions: Sequence[str], references: Sequence[str], language: str | None) -> Bleu:
    """Score translations into a language, an ISO 639 code, by BLEU.

    Tokenized with sacrebleu's `13a`, the field's default, also for `None`; Chinese with its `zh`;
    other languages written without spaces, where words would be whole clauses, with its `char`,
    which needs no dictionary. Raises `ValueError` like `chrf`.
    """
    from sacrebleu.metrics.bleu import BLEU

    _check_pairs(predictions, references)
    tokenizer = "char" if language in UNSPACED_LANGUAGES else "13a"
    metric = BLEU(tokenize="zh" if language == "zh" else tokenizer)
    score = metric.corpus_score(list(predictions), [list(references)]).score
    return Bleu(score, metric.get_signature().format())


def bleu_statistics(
    predictions: Sequence[str], references: Sequence[str], signature: str
) -> list[list[int]]:
    """Sufficient statistics of each sentence: [sentences, 10].

    The numbers of tokens in the prediction and in the reference; then of n-grams of length 1 to 4
    in both, and in the prediction. The `signature` of the score (`Bleu`) names the tokenizer.
    """
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize=dict(part.split(":") for part in signature.split("|"))["tok"])
    scores = (
        metric.corpus_score([output], [[reference]])
        for output, reference in zip(predictions, references, strict=True)
    )
    return [[one.sys_len, one.ref_len, *one.counts, *one.totals] for one in scores]


def bleu_score(totals: "np.ndarray") -> "np.ndarray":
    """BLEU, 0 to 100, of summed statistics: [..., 10] -> [...] (Papineni et al. 2002).

    As in sacrebleu, n-gram lengths without a match count as 1/2, 1/4, … matches (smoothing `exp`).
    """
    import numpy as np

    ours, theirs = totals[..., 0], totals[..., 1]
    correct, every = totals[..., 2 : 2 + _BLEU_ORDER], totals[..., 2 + _BLEU_ORDER :]
    logarithms, halves = np.zeros(ours.shape), np.ones(ours.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for at in range(_BLEU_ORDER):
            matches, grams = correct[..., at], every[..., at]
            halves = np.where((matches == 0) & (grams > 0), 2 * halves, halves)
            logarithms += np.log(np.where(matches > 0, matches, 1 / halves) / grams)
        brevity = np.where(ours < theirs, np.exp(1 - theirs / ours), 1.0)
        score = 100 * brevity * np.exp(logarithms / _BLEU_ORDER)
    # The score is 0 without any match, or if a length has no n-grams.
    counted = (correct > 0).any(axis=-1) & (every > 0).all(axis=-1)
    return np.where(counted, score, 0.0)


class ScriptTokenizer:
    """Splits text into words or, in scripts without spaces, into letters with their marks.

    The default of the rouge-score package keeps only the letters a to z and digits, so that two
    equal Burmese texts score 0. Word segmentation of Thai, Burmese or Japanese needs a dictionary
    or a model for each language, on which the score then depends. A letter with its marks is about
    a syllable of Burmese and a character of Japanese, so scores are comparable within a language
    but not across languages. Case, width (NFKC), punctuation and invisible characters are ignored.
    """

    name = "words, or letters with their marks in scripts without spaces"

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text, in order."""
        plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
        return _TOKEN.findall(unicodedata.normalize("NFKC", plain))


class PieceTokenizer:
    """Splits text into the pieces of a subword tokenizer: Yamaguchi et al. use that of mT5."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", name: str):
        self.name = f"pieces of {name}"
        self.tokenize = tokenizer.tokenize


def rouge_tokenizer(
    name: str | None, revision: str | None = None
) -> ScriptTokenizer | PieceTokenizer:
    """The tokenizer of a hub name or folder; `ScriptTokenizer` if `name` is None.

    `revision` is a commit, tag or branch of a hub name. Raises `UserError` if it cannot be loaded.
    """
    if name is None:
        return ScriptTokenizer()
    from transformers import AutoTokenizer

    try:
        pieces = AutoTokenizer.from_pretrained(
            name, revision=revision or "main", trust_remote_code=False
        )
        return PieceTokenizer(pieces, name)
    except (OSError, ValueError, ImportError) as error:
        raise UserError(
            f"config/tasks.yaml: rouge_tokenizer: '{name}' cannot be loaded ({first_line(error)}); "
            "specify a folder that contains the tokenizer, or null"
        ) from None


def rouge_l(
    predictions: Sequence[str],
    references: Sequence[str],
    tokenizer: ScriptTokenizer | PieceTokenizer,
) -> list[float]:
    """ROUGE-L of each text, 0 to 100: F-measure of precision and recall, beta 1.

    With `m` tokens in the longest common subsequence, precision is `m` over the prediction's tokens
    and recall `m` over the reference's. A prediction without tokens scores 0. Raises `ValueError`
    like `chrf`.
    """
    from rouge_score.rouge_scorer import RougeScorer

    _check_pairs(predictions, references)
    scorer = RougeScorer(["rougeL"], tokenizer=tokenizer)
    pairs = zip(references, predictions, strict=True)
    return [100 * scorer.score(*pair)["rougeL"].fmeasure for pair in pairs]


def _check_pairs(predictions: Sequence[str], references: Sequence[str]) -> None:
    if not references or len(predictions) != len(references):
        raise ValueError(f"{len(predictions)} predictions for {len(references)} references")
