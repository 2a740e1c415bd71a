"""Split a corpus into training text, held-out text, and tests that are in neither.

The sizes of the parts are upper bounds. A text that is large enough is split into exactly these
sizes. A smaller text is divided by one rule (`divide`): held-out text and tests take at most a
tenth of it each, and the rest is training text. A part that is smaller than requested must have a
minimum size (`MINIMUM`), below which numbers are noise.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lexigraft.corpus.cleaning import fingerprint
from lexigraft.corpus.contamination import CONTAINED, Overlap, Tests, letters
from lexigraft.corpus.loader import Pair
from lexigraft.corpus.near_duplicates import without_near_duplicates
from lexigraft.corpus.sampling import StoredSample, StreamSample
from lexigraft.corpus.stored_lines import StoredLines
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)

Seed = tuple[str | int, ...]
Draw = Callable[[int | None, int | None], StoredLines]
# Size of the text that was requested, and its actual size, by key of `Sizes`.
Reductions = dict[str, dict[str, int]]

# The minimum size of a part that is smaller than requested.
MINIMUM = {
    "heldout_sentences": 10,
    "train_sentences": 100,
    "english_sentences": 10,
    "translation_pairs": 10,
    "summarization_pairs": 10,
    "train_characters": 1,
}
# Held-out text and tests take at most 1/10 each of a text that is smaller than requested.
_PART = 10
# Characters per held-out document that are added to a sample limited by characters.
_LONG_DOCUMENT = 10_000


@dataclass(frozen=True)
class Sizes:
    """Maximum sizes of the parts; None: all pairs, or all remaining training sentences.

    `train_characters` limits the total length of the training sentences. `near_duplicates` is the
    Jaccard similarity from which sentences count as the same (see `near_duplicates`); with None,
    they are not compared. `heldout_from` is `anywhere`, or `end`: held-out sentences are drawn from
    the last tenth of the text, and none of it is used for training.
    """

    train_sentences: int | None = None
    heldout_sentences: int = 100
    english_sentences: int = 100
    translation_pairs: int | None = 100
    minimum_english_words: int = 4
    summarization_pairs: int | None = None
    near_duplicates: float | None = None
    heldout_from: str = "anywhere"
    train_characters: int | None = None

    @property
    def limits_training(self) -> bool:
        """Whether a size limits the training text."""
        return self.train_sentences is not None or self.train_characters is not None


@dataclass(frozen=True)
class Split:
    """The parts, and counts of the sentences that are in none of them.

    `kept_out` counts sentences that are excluded from training because of the other parts:
    `like_translation_test`, `like_summarization_test`, `like_heldout`, `like_other_tests`; and
    `near_duplicate`, if these were removed. If a size limits the training text, these counts refer
    to a sample of the text of twice that size. `train` is on disk. `reduced` has the sizes that the
    text does not reach: key of `Sizes` -> the sizes `wanted` and `taken`.
    """

    train: StoredLines
    heldout: list[str]
    english: list[str]
    translation: list[Pair]
    summarization: list[Pair]
    kept_out: dict[str, int]
    reduced: Reductions


def split_corpus(
    sentences: Iterable[str] | Draw,
    pairs: Iterable[Pair],
    english: Iterable[str],
    sizes: Sizes,
    seed: Seed,
    articles: Iterable[Pair] = (),
    other_tests: Tests = (),
) -> Split:
    """Draw the parts, at random and disjoint.

    No sentence of `train` has the same letters as a sentence of `heldout`, a test translation or a
    summary, or contains them if they are twelve or more; the same holds for `heldout` with respect
    to test translations and summaries. Tests and held-out sentences with fewer letters are drawn
    only if there are too few longer ones. `train` is in the order of `sentences`; the other parts
    are in random order, so that any prefix of them is also a random sample. `seed` are the names
    that seed the draws. Raises one `UserError` with all parts for which there is too little text,
    see `MINIMUM`.

    Parameters
    ----------
    sentences
        Sentences of the target language; repeated ones count once. They are streamed: candidates
        (twice `sizes`, or as many more as there are tests) are stored on disk, with a few bytes
        each in memory. Or a function that draws at most a number of them and of their characters
        (None: no limit), like `reading.draw_text`.
    pairs
        (English, translation). Test pairs have at least `minimum_english_words` words in English
        and differ from each other on both sides. Without pairs there is no translation test.
    english
        English sentences to measure how much English is forgotten; they may be training text.
    articles
        (article, summary). Test pairs differ from each other on both sides. The articles may be
        training text, their summaries not.
    other_tests
        Sentences in these are neither training text nor held out.
    """
    words = sizes.minimum_english_words
    translation, has_pairs = _draw_pairs(
        pairs, "translation_pairs", sizes.translation_pairs, seed, words
    )
    summarization, has_articles = _draw_pairs(
        articles, "summarization_pairs", sizes.summarization_pairs, seed
    )
    # More than needed, since those that contain a test or a held-out sentence are removed
    # afterwards: twice as many, or more where there are that many tests.
    lines = characters = None
    if sizes.train_characters is not None:
        characters = 2 * sizes.train_characters + sizes.heldout_sentences * _LONG_DOCUMENT
    if sizes.train_sentences is not None:
        lines = sizes.train_sentences + sizes.heldout_sentences
        lines += max(lines, len(translation) + len(summarization))
    if callable(sentences):
        candidates = sentences(lines, characters)
    else:
        candidates = sample_of(sentences, (*seed, "sentences"), lines, characters)
    kept_out = {}
    if sizes.near_duplicates is not None:
        indices = without_near_duplicates(candidates, sizes.near_duplicates)
        kept_out["near_duplicate"] = len(candidates) - len(indices)
        candidates = candidates.select(np.array(indices, dtype=np.int64))
    parts = divide(candidates, sizes, seed, translation, summarization, other_tests)
    english_sample = StreamSample[str](sizes.english_sentences, (*seed, "english"))
    for sentence in english:
        english_sample.add(sentence, sentence)
    actual_sizes = {
        "heldout_sentences": len(parts.heldout),
        "train_sentences": len(parts.train),
        "english_sentences": len(english_sample),
        **({"translation_pairs": len(parts.translation)} if has_pairs else {}),
        **({"summarization_pairs": len(parts.summarization)} if has_articles else {}),
    }
    if sizes.train_characters is not None:
        actual_sizes["train_characters"] = parts.train_characters
    return Split(
        parts.train,
        parts.heldout,
        english_sample.shuffled(),
        parts.translation,
        parts.summarization,
        kept_out | parts.kept_out,
        _check_sizes(actual_sizes, sizes),
    )


def sample_of(
    sentences: Iterable[str], seed: Seed, lines: int | None, characters: int | None
) -> StoredLines:
    """A uniform sample of distinct sentences, in their order."""
    sample = StoredSample(seed, lines, characters)
    for sentence in sentences:
        sample.add(sentence)
    return sample.ordered()


@dataclass(frozen=True)
class Parts:
    """The parts of candidates for training text.

    `train_characters` are those requested if the text has as many.
    """

    train: StoredLines
    train_characters: int
    heldout: list[str]
    translation: list[Pair]
    summarization: list[Pair]
    kept_out: dict[str, int]


def divide(
    candidates: StoredLines,
    sizes: Sizes,
    seed: Seed,
    translation: list[Pair],
    summarization: list[Pair],
    other_tests: Tests,
) -> Parts:
    """Divide candidates into training text, held-out text and the tests that are in neither.

    If the text is large enough for the training size and `heldout_sentences` in addition to all
    tests, these are the sizes. Otherwise the tests that occur in the text are reduced until they
    take a tenth of it, and held-out text is what `train_sentences` leaves, or a tenth of the text
    if that is more. If the training text has no limit, or one of characters, held-out text is a
    tenth at most.
    """
    matches = _find_tests(candidates, translation, summarization, other_tests)
    at_end, is_enough = sizes.heldout_from == "end", False
    if sizes.limits_training:  # without a limit, held-out text always reduces training text
        untested, kept_out = matches.remove(candidates, len(translation), len(summarization))
        train, heldout = _hold_out(untested, sizes.heldout_sentences, seed, at_end)
        is_enough = len(heldout) == sizes.heldout_sentences and _is_enough(train, sizes)
    if not is_enough:
        tenth = max(len(candidates) // _PART, MINIMUM["heldout_sentences"])
        translation = translation[: _affordable(matches.translation, tenth)]
        summarization = summarization[: _affordable(matches.summarization, tenth)]
        untested, kept_out = matches.remove(candidates, len(translation), len(summarization))
        unused = len(untested) - sizes.train_sentences if sizes.train_sentences is not None else 0
        heldout_size = min(sizes.heldout_sentences, max(tenth, unused))
        train, heldout = _hold_out(untested, heldout_size, seed, at_end)
    # The last tenth is not in `train` anyway: its sentences do not count as like held-out ones.
    reserved = len(untested) // _PART if at_end else len(heldout)
    kept_out["like_heldout"] = len(untested) - len(train) - reserved
    train, characters = _limit(train, sizes, seed)
    return Parts(train, characters, heldout, translation, summarization, kept_out)


def log_reduced(name: str, reduced: Mapping[str, Mapping[str, int]]) -> None:
    """Warn about the sizes that a text does not reach, see `Split.reduced`."""
    if reduced:
        sizes = (f"{key} {size['taken']:,} of {size['wanted']:,}" for key, size in reduced.items())
        logger.warning(
            "%s: the text is smaller than the requested sizes: %s", name, ", ".join(sizes)
        )


def _draw_pairs(
    pairs: Iterable[Pair], key: str, size: int | None, seed: Seed, minimum_words: int = 0
) -> tuple[list[Pair], bool]:
    """At most `size` test pairs, and whether there were any pairs to draw from."""
    sample = StreamSample[Pair](size, (*seed, key))
    seen: set[bytes] = set()
    any_pairs = False
    for source, target in pairs:
        any_pairs = True
        keys = {fingerprint("source", letters(source)), fingerprint("target", letters(target))}
        long_enough = len(source.split()) >= minimum_words
        if long_enough and any(map(str.isalpha, target)) and not keys & seen:
            seen |= keys
            sample.add((source, target), source, score=not _is_short(target))
    return sample.shuffled(), any_pairs


@dataclass(frozen=True)
class _Matches:
    """The tests that each candidate contains.

    `translation` and `summarization` are the index of the first such test, int32 [candidates], -1
    for none; `others` is whether there is any other test, bool [candidates].
    """

    translation: np.ndarray
    summarization: np.ndarray
    others: np.ndarray

    def remove(
        self, candidates: StoredLines, translation: int, summarization: int
    ) -> tuple[StoredLines, dict[str, int]]:
        """The candidates that contain no test, and how many each set of tests removes.

        Only the first `translation` and `summarization` tests count.
        """
        remaining = np.ones(len(candidates), dtype=bool)
        kept_out = {}
        for name, matching in (
            ("like_translation_test", (self.translation >= 0) & (self.translation < translation)),
            (
                "like_summarization_test",
                (self.summarization >= 0) & (self.summarization < summarization),
            ),
            ("like_heldout", np.zeros_like(remaining)),  # counted later
            ("like_other_tests", self.others),
        ):
            kept_out[name] = int((remaining & matching).sum())
            remaining &= ~matching
        return candidates.select(remaining), kept_out


def _find_tests(
    candidates: StoredLines, translation: list[Pair], summarization: list[Pair], other_tests: Tests
) -> _Matches:
    """Find the tests that each candidate contains; all candidates are read once."""
    test_sets = [
        {letters(target): number for number, (_, target) in enumerate(tests)}
        for tests in (translation, summarization)
    ]
    overlap = Overlap(target for _, target in (*translation, *summarization))
    firsts = [np.full(len(candidates), -1, dtype=np.int32) for _ in test_sets]
    others = np.zeros(len(candidates), dtype=bool)
    if any(test_sets) or other_tests != ():
        for index, sentence in enumerate(candidates):
            contained = set(overlap.matches(letters(sentence)))
            for numbers, first in zip(test_sets, firsts, strict=True):
                if matches := contained & numbers.keys():
                    first[index] = min(numbers[match] for match in matches)
            others[index] = sentence in other_tests
    return _Matches(firsts[0], firsts[1], others)


def _affordable(firsts: np.ndarray, limit: int) -> int:
    """How many of the first tests can be used if they exclude at most `limit` candidates."""
    matched = np.sort(firsts[firsts >= 0])
    return int(matched[limit]) if len(matched) > limit else np.iinfo(firsts.dtype).max


def _hold_out(
    candidates: StoredLines, size: int, seed: Seed, at_end: bool
) -> tuple[StoredLines, list[str]]:
    """Training and held-out text; other sentences with the letters of a held-out one are dropped.

    With `at_end`, held-out sentences are drawn from the last tenth, which is not training text.
    """
    heldout: dict[str, str] = {}  # letters -> sentence
    pool = candidates
    if at_end:
        begin = len(candidates) - len(candidates) // _PART
        candidates, pool = candidates[:begin], candidates[begin:]
    order = generator(*seed, "heldout").permutation(len(pool))
    short = []
    for index in map(int, order):  # mostly the first few
        if len(heldout) == size:
            break
        sentence = pool[index]
        if _is_short(sentence):
            short.append(sentence)
        else:
            heldout.setdefault(letters(sentence), sentence)
    for sentence in short:
        if len(heldout) == size:
            break
        heldout.setdefault(letters(sentence), sentence)
    if not heldout:
        return candidates, []
    return candidates.without(Overlap(heldout.values()).__contains__), list(heldout.values())


def _is_enough(train: StoredLines, sizes: Sizes) -> bool:
    """Whether the training text reaches the requested size."""
    sentences, characters = sizes.train_sentences, sizes.train_characters
    return (sentences is None or len(train) >= sentences) and (
        characters is None or train.sizes.sum() >= characters
    )


def _limit(train: StoredLines, sizes: Sizes, seed: Seed) -> tuple[StoredLines, int]:
    """Limit the training text to its maximum size; also returns its number of characters.

    A text that is less than one sentence below the limit of characters counts as the limit.
    """
    sentences, limit = sizes.train_sentences, sizes.train_characters
    if sentences is not None and len(train) > sentences:
        indices = generator(*seed, "train").choice(len(train), sentences, replace=False)
        train = train.select(np.sort(indices))
    characters = int(train.sizes.sum())
    if limit is not None and characters > limit:
        order = generator(*seed, "train", "characters").permutation(len(train))
        count = np.searchsorted(np.cumsum(train.sizes[order]), limit, "right")
        train, characters = train.select(np.sort(order[:count])), limit
    return train, characters


def _is_short(sentence: str) -> bool:
    """Whether a sentence may occur inside a training sentence although it is a test."""
    return len(letters(sentence)) < CONTAINED


def _check_sizes(actual_sizes: Mapping[str, int], sizes: Sizes) -> Reductions:
    """The sizes that are smaller than requested, see `Split.reduced`."""
    too_small: list[str] = []
    reduced: Reductions = {}
    for key, actual in actual_sizes.items():
        requested = getattr(sizes, key)
        if requested is None:
            # No minimum without a requested size, except for training text if held-out is reduced.
            is_whole = key != "train_sentences" or "heldout_sentences" not in reduced
            minimum = 1 if is_whole else MINIMUM[key]
        elif actual < requested:
            reduced[key] = {"wanted": requested, "taken": actual}
            minimum = min(MINIMUM[key], requested)
        else:
            continue
        if actual < minimum:
            too_small.append(f"{key} {actual} (at least {minimum})")
    if too_small:
        raise UserError(
            f"the text is too small: {', '.join(too_small)}; give more text. Only distinct "
            "sentences that are in no other part, and pairs with at least "
            f"{sizes.minimum_english_words} English words, are counted"
        )
    return reduced
