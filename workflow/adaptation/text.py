"""The properties of a text on which choices are based: its size and script."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from tqdm import tqdm

from lexigraft.corpus.cleaning import CleaningCounts, cleaned
from lexigraft.corpus.identification import (
    LANGUAGE_OF_SCRIPT,
    is_english,
    is_in_language,
    script_of,
)
from lexigraft.corpus.markup import has_markup
from lexigraft.corpus.readers import read_sentences
from lexigraft.errors import UserError

MINIMUM_CHARACTERS = 10  # of a sentence; the default of languages
# Fewer cannot be split into training text and held-out text.
LEAST_SENTENCES = 110
LEAST_HELDOUT, _MOST_HELDOUT = 10, 1000  # sentences
MOST_READ = 200_000  # maximum number of sentences read
_SAMPLE = 5_000  # maximum number of these in which tokens are counted
_PARAGRAPH = 500  # characters; longer lines are not one sentence
UNDETERMINED = "und"  # ISO 639-2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextFacts:
    """A text: the number of `lines` read, and of distinct `sentences` among them.

    `is_whole` says whether all of it was read. `characters` and `bytes` are those of the sentences,
    `share` is the fraction of letters in the most frequent `script`. `sample` are sentences from
    all parts of the text. `reading` are the keys of a language with which it is read like this.
    """

    lines: int
    sentences: int
    is_whole: bool
    characters: int
    bytes: int
    script: str
    share: float
    duplicates: int
    lost: int
    sample: list[str]
    reading: dict[str, Any]


def measure_text(
    settings: Mapping[str, Any],
    option: str = "--text",
    least: int = LEAST_SENTENCES,
    language: str | None = None,
    reading: Mapping[str, Any] | None = None,
) -> TextFacts:
    """Read a text, up to `MOST_READ` sentences, and warn of what is wrong with it.

    `settings` is the `text` of a language, `language` its code, and `reading` are keys of a
    language that change what is read. Paragraphs are split. Raises a `UserError` if the text cannot
    be read, is English, or has fewer than `least` sentences.
    """
    reading = dict(reading or {})
    sentences, counts = _read(settings, reading)
    long = [sentence for sentence in sentences if len(sentence) > _PARAGRAPH]
    if 2 * sum(map(len, long)) > sum(map(len, sentences)) and "split_sentences" not in reading:
        logger.warning("%s: the lines are paragraphs; they are split into sentences", option)
        reading["split_sentences"] = True
        sentences, counts = _read(settings, reading)
    sample = _sample(sentences)
    script = next((key for key, code in LANGUAGE_OF_SCRIPT.items() if code == language), None)
    script = script or script_of(sample)[0]
    belongs = partial(is_in_language, script=script, code=language or UNDETERMINED)
    if reading.get("only_language"):
        sentences = list(filter(belongs, sentences))
        sample = _sample(sentences)
    elif sample:
        english = sum(map(is_english, sample)) / len(sample)
        if english > 0.4 and language != "en":
            raise UserError(
                f"{option}: the text is English; give a text in the language, or --language en"
            )
        share = sum(map(belongs, sample)) / len(sample)
        if share < 0.9:
            logger.warning(
                "%s: %.0f%% of the lines look like %s, %.0f%% like English; keep only the former "
                "with --keep-language (in a study, `only_language: true`)",
                option, 100 * share, script_name(script), 100 * english,
            )  # fmt: skip
    if sum(map(has_markup, sample)) > len(sample) / 10 and "markup" not in reading:
        logger.warning(
            "%s: lines contain HTML or Markdown, which the model will learn; remove it with "
            "--strip-markup (in a study, `markup: strip`)", option,
        )  # fmt: skip
    if len(sentences) < least:
        raise UserError(
            f"{option}: too little text: {len(sentences)} distinct sentences of "
            f"{MINIMUM_CHARACTERS} letters or more (lines: {counts.read:,}); at least {least} are "
            "needed, several thousand are better"
        )
    script, share = script_of(sample)
    return TextFacts(
        lines=counts.read,
        sentences=len(sentences),
        is_whole=len(sentences) < MOST_READ,
        characters=sum(map(len, sentences)),
        bytes=sum(len(sentence.encode()) for sentence in sentences),
        script=script,
        share=share,
        duplicates=counts.duplicate,
        lost=counts.lost_characters,
        sample=sample,
        reading=reading,
    )


def _read(settings: Mapping[str, Any], reading: Mapping[str, Any]) -> tuple[list[str], Any]:
    """The first distinct sentences of a text, and the counts of its cleaning."""
    counts = CleaningCounts()
    lines = tqdm(
        read_sentences(settings), desc="reading", unit="line", unit_scale=True, disable=None,
        leave=False,
    )  # fmt: skip
    # A data set is not looked up a second time unless that is needed.
    beginning = read_sentences(settings) if reading.get("split_sentences") else ()
    # Imports numpy, which `lexigraft --help` would load as well.
    from lexigraft.corpus.reading import sentence_splitter

    split = sentence_splitter(reading, beginning)
    parts = chain.from_iterable(map(split, lines))
    return list(islice(cleaned(parts, counts, MINIMUM_CHARACTERS), MOST_READ)), counts


def _sample(sentences: list[str]) -> list[str]:
    return sentences[:: max(1, -(-len(sentences) // _SAMPLE))]


def heldout_sentences(sentences: int) -> int:
    """The number of a text's sentences that are held out: a tenth, from 10 to 1,000."""
    return max(LEAST_HELDOUT, min(_MOST_HELDOUT, sentences // 10))


def language_of(facts: TextFacts) -> str:
    """The ISO 639 code of the language that uses a text's script, or `und`."""
    return LANGUAGE_OF_SCRIPT.get(facts.script, UNDETERMINED)


def script_name(script: str) -> str:
    """The English name of a script, such as Telugu for Telu."""
    from fontTools import unicodedata

    name: str = unicodedata.script_name(script, script)
    return name.replace("_", " ")
