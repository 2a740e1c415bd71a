"""How a tokenizer segments a language, and how much new tokens would save, before any training."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.evaluation.fragmentation import measure_tokenizer
from lexigraft.inference.text_encoding import tokenize
from lexigraft.randomness import generator
from lexigraft.source.document_start import document_start, start_ids
from lexigraft.vocabulary.expand import expanded_sizes

SIZES = (250, 500, 1000, 2000, 4000)  # default numbers of new tokens
# A tenth of the sentences, at most so many, measures what tokens that are learned from the others
# save.
_MEASURED_SENTENCES = 1000


@dataclass(frozen=True)
class CurvePoint:
    """Segmentation of unseen sentences with `new_tokens` more tokens, learned from the text."""

    new_tokens: int
    tokens_per_sentence: float
    tokens_per_word: float
    characters_per_token: float


@dataclass(frozen=True)
class Inspection:
    """How a tokenizer segments a text.

    `metrics` are those of `fragmentation.measure_tokenizer`, `english` the same for English text.
    `curve` begins with the unchanged tokenizer and is measured on `measured` sentences from which
    no token was learned; it is empty for tokenizers that cannot be expanded, for the reason
    `no_curve`. Texts begin with `document_start` (empty: with no special token), which `adds_start`
    says the tokenizer adds.
    """

    metrics: dict[str, float | int]
    english: dict[str, float | int]
    curve: list[CurvePoint]
    measured: int
    no_curve: str = ""
    document_start: str = ""
    adds_start: bool = False


def inspect_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    texts: Iterable[str],
    english: Iterable[str] = (),
    sizes: Sequence[int] = SIZES,
) -> Inspection:
    """Measure how a tokenizer segments a language, and how much new tokens would save.

    Parameters
    ----------
    tokenizer
        A fast tokenizer of any family; only BPE has a curve.
    texts
        Sentences of the language, at least two; a tenth of them measures the curve.
    english
        English sentences for comparison; they need not be translations.
    sizes
        Numbers of new tokens. The curve ends at the largest number that the text yields.

    Raises
    ------
    UserError
        The texts have no words, or there are fewer than two texts.

    Examples
    --------
    >>> import lexigraft
    >>> english = ["the rice and the river", "the river and the rain"] * 5
    >>> source = lexigraft.train_tokenizer(english, "byte-level-bpe", size=270)
    >>> swahili = ["mto na mvua", "mto na maji"] * 10
    >>> inspection = lexigraft.inspect_tokenizer(source, swahili, english, sizes=(4, 8))
    >>> [(point.new_tokens, point.tokens_per_sentence) for point in inspection.curve]
    [(0, 11.0), (4, 7.5), (8, 4.5)]
    >>> round(inspection.metrics["fertility"], 1), round(inspection.english["fertility"], 1)
    (3.7, 1.3)
    """
    texts, english = list(texts), list(english)
    if len(texts) < 2:
        raise UserError(f"text: {len(texts)} sentences are too few to inspect a tokenizer")
    metrics = measure_tokenizer(tokenizer, texts=texts, train=texts).metrics
    of_english = measure_tokenizer(tokenizer, texts=english).metrics if english else {}
    order = generator("inspection").permutation(len(texts)).tolist()
    count = min(max(1, len(texts) // 10), _MEASURED_SENTENCES)
    measured = [texts[index] for index in order[:count]]
    curve = [_point(tokenizer, measured, 0)]
    try:
        training_texts = [texts[index] for index in sorted(order[count:])]
        for size, expanded in expanded_sizes(tokenizer, training_texts, sizes):
            curve.append(_point(expanded, measured, size))
        no_curve = ""
    except UserError as error:
        curve, no_curve = [], str(error)
    start, adds = document_start(tokenizer), not start_ids(tokenizer)
    return Inspection(metrics, of_english, curve, count, no_curve, start, adds and bool(start))


def _point(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], new_tokens: int) -> CurvePoint:
    tokens = sum(map(len, tokenize(tokenizer, texts)))
    words = sum(len(text.split()) for text in texts)
    characters = sum(map(len, texts))
    return CurvePoint(new_tokens, tokens / len(texts), tokens / max(words, 1), characters / tokens)
