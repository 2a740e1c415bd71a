"""The properties of a text on which choices are based: its size and script."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tqdm import tqdm

from lexigraft.corpus.cleaning import CleaningCounts, cleaned
from lexigraft.corpus.readers import read_sentences
from lexigraft.errors import UserError

MINIMUM_CHARACTERS = 10  # of a sentence; the default of languages
# Fewer cannot be split into training text and held-out text.
LEAST_SENTENCES = 110
LEAST_HELDOUT, _MOST_HELDOUT = 10, 1000  # sentences
MOST_READ = 200_000  # maximum number of sentences read
_SAMPLE = 5_000  # maximum number of these in which tokens are counted
# Scripts that are used by (almost) only one language.
_LANGUAGES = {
    "Armn": "hy", "Ethi": "am", "Geor": "ka", "Grek": "el", "Gujr": "gu", "Guru": "pa",
    "Hang": "ko", "Hebr": "he", "Hira": "ja", "Khmr": "km", "Knda": "kn", "Laoo": "lo",
    "Mlym": "ml", "Mymr": "my", "Orya": "or", "Sinh": "si", "Taml": "ta", "Telu": "te",
    "Thai": "th", "Tibt": "bo",
}  # fmt: skip
UNDETERMINED = "und"  # ISO 639-2


@dataclass(frozen=True)
class TextFacts:
    """A text: the number of `lines` read, and of distinct `sentences` among them.

    `is_whole` says whether all of it was read. `characters` and `bytes` are those of the sentences,
    `share` is the fraction of letters in the most frequent `script`. `sample` are sentences from
    all parts of the text.
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


def measure_text(
    settings: Mapping[str, Any], option: str = "--text", least: int = LEAST_SENTENCES
) -> TextFacts:
    """Read a text, up to `MOST_READ` sentences.

    `settings` is the `text` of a language. Raises a `UserError` if it cannot be read or has fewer
    than `least` sentences.
    """
    counts = CleaningCounts()
    lines = tqdm(
        read_sentences(settings), desc="reading", unit="line", unit_scale=True, disable=None,
        leave=False,
    )  # fmt: skip
    stream = cleaned(lines, counts, MINIMUM_CHARACTERS)
    sentences = list(islice(stream, MOST_READ))
    if len(sentences) < least:
        raise UserError(
            f"{option}: too little text: {len(sentences)} distinct sentences of "
            f"{MINIMUM_CHARACTERS} letters or more (lines: {counts.read:,}); at least {least} are "
            "needed, several thousand are better"
        )
    sample = sentences[:: -(-len(sentences) // _SAMPLE)]
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
    )


def heldout_sentences(sentences: int) -> int:
    """The number of a text's sentences that are held out: a tenth, from 10 to 1,000."""
    return max(LEAST_HELDOUT, min(_MOST_HELDOUT, sentences // 10))


def script_of(texts: Iterable[str]) -> tuple[str, float]:
    """The most frequent script (ISO 15924) of the letters of some texts, and its share.

    Without letters, `Zyyy` (undetermined) and 0.
    """
    from fontTools import unicodedata

    scripts: Counter[str] = Counter()
    for letter, count in Counter(filter(str.isalpha, "".join(texts))).items():
        scripts[unicodedata.script(letter)] += count
    script, count = scripts.most_common(1)[0] if scripts else ("Zyyy", 0)
    return script, count / max(1, scripts.total())


def language_of(facts: TextFacts) -> str:
    """The ISO 639 code of the language that uses a text's script, or `und`."""
    return _LANGUAGES.get(facts.script, UNDETERMINED)


def script_name(script: str) -> str:
    """The English name of a script, such as Telugu for Telu."""
    from fontTools import unicodedata

    name: str = unicodedata.script_name(script, script)
    return name.replace("_", " ")
