"""The title of each metric in a record, its direction, and its number of decimals."""

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Metric:
    """How one metric is shown."""

    title: str  # its usual name, with its unit
    lower_is_better: bool
    decimals: int  # digits after the point in tables and sentences
    # Scores up to this value are noise: they are not compared.
    noise: float | None = None
    # Another metric of the same outputs, which the CSV file of a table also contains, and the note
    # on it.
    beside: str | None = None
    beside_note: str = ""


ENGLISH_BITS_PER_BYTE = "english_bits_per_byte"
# The unit of speeds that are comparable across vocabularies, see `lexigraft.report.speed_up`.
SAME_TEXT = "same_text_characters"

_KNOWN = {
    "bits_per_byte": Metric("bits per byte", True, 3),
    "english_bits_per_byte": Metric("English bits per byte", True, 3),
    "perplexity": Metric("perplexity", True, 1),
    "english_perplexity": Metric("English perplexity", True, 1),
    "nats_per_token": Metric("nats per token", True, 3),
    # Repetitions of a language's frequent syllables score up to about 10.
    "chrf": Metric(
        "chrF",
        False,
        1,
        noise=10.0,
        beside="chrf_sentence_mean",
        beside_note="chrF is computed over all sentences, as sacrebleu does. The CSV file also has "
        "the mean of the chrF of each sentence (chrf_sentence_mean), which lighteval reports.",
    ),
    "chrf_sentence_mean": Metric("chrF, mean over sentences", False, 1, noise=10.0),
    "chrf_plus_plus": Metric("chrF++", False, 1, noise=10.0),
    # So do a few syllables or words that occur in most texts of a language.
    "rouge_l": Metric("ROUGE-L", False, 1, noise=10.0),
    "bleurt": Metric("BLEURT", False, 3),
    "comet": Metric("COMET", False, 3),
    "xcomet": Metric("xCOMET", False, 3),
    "bleu": Metric("BLEU", False, 1),
    "bleu_1": Metric("BLEU-1", False, 1),
    "semantic_similarity": Metric("similarity", False, 3),
    "vocabulary_coverage": Metric("vocabulary coverage", False, 3),
    "text_coverage": Metric("text coverage", False, 3),
    "first_loss": Metric("loss of the first step", True, 2),
    "bits_per_byte_before": Metric("bits per byte before training", True, 3),
    "greedy_agreement": Metric("greedy output unchanged", False, 3),
    "f1": Metric("F1", False, 1),
    "exact_match": Metric("exact match", False, 1),
    "accuracy": Metric("accuracy", False, 3),
    "acc": Metric("accuracy, plain", False, 3),
    "acc_norm": Metric("accuracy by length", False, 3),
    "english_f1": Metric("English F1", False, 1),
    "english_exact_match": Metric("English exact match", False, 1),
    "english_accuracy": Metric("English accuracy", False, 3),
    "fertility": Metric("tokens per word", True, 2),
    "tokens_per_sentence": Metric("tokens per sentence", True, 1),
    "train_tokens_per_sentence": Metric("tokens per training sentence", True, 2),
    "steps_per_sentence": Metric("decoding steps per sentence", True, 1),
    "bytes_per_token": Metric("bytes per token", False, 2),
    "characters_per_token": Metric("characters per token", False, 2),
    "english_parity": Metric("tokens per token of English", True, 2),
}

# Prefixes of the metrics of a single language in a group.
_PREFIXES = tuple(f"{name}_" for name in ("accuracy", "f1", "exact_match"))

# The main metric of a kind of task; for other kinds, it is their first metric.
_PRIMARY = {
    "perplexity": "bits_per_byte",
    "translation": "chrf",
    "summarization": "rouge_l",
    "question_answering": "f1",
    "multiple_choice": "accuracy",
    "classification": "accuracy",
    "tagging": "f1",
    "extractive_qa": "f1",
}

# Kinds of tasks that do not measure the quality of a model.
_NO_QUALITY = ("speed", "greedy_agreement")

_SPEED = re.compile(
    r"(?P<unit>tokens|(same_text_)?(characters|bytes))_per_second_batch_(?P<batch>\d+)"
)


def metric(name: str) -> Metric:
    """How the metric `name` is shown; the title of an unknown metric is its name.

    `<metric>_<language>`, for groups of languages, is shown like its metric.
    """
    if name in _KNOWN:
        return _KNOWN[name]
    if (of := max(filter(name.startswith, _PREFIXES), key=len, default=None)) is not None:
        known, language = _KNOWN[of.removesuffix("_")], name.removeprefix(of)
        return replace(known, title=f"{known.title} ({language})")
    if match := _SPEED.fullmatch(name):
        unit = match["unit"].replace("_", " ")
        return Metric(f"{unit} per second, batch {match['batch']}", False, 1)
    return Metric(name.replace("_", " "), "perplexity" in name or "loss" in name, 3)


def primary_metric(kind: str, names: list[str]) -> str | None:
    """The main metric of a kind of task; None for tasks that do not measure quality."""
    if kind in _NO_QUALITY or not names:
        return None
    wanted = _PRIMARY.get(kind)
    return wanted if wanted in names else names[0]


def speed_of(name: str) -> tuple[str, int] | None:
    """`("characters", 16)` for `characters_per_second_batch_16`; None for any other metric."""
    match = _SPEED.fullmatch(name)
    return (match["unit"], int(match["batch"])) if match else None
