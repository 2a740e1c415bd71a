"""Split a corpus into training text, held-out text, and tests that are in neither.

A text that is large enough is split into exactly the requested sizes. A smaller one is divided by a
rule: held-out text and tests take at most a tenth of it each, and the rest is training text.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lexigraft.corpus.cleaning import fingerprint
from lexigraft.corpus.contamination import CONTAINED, Overlap, letters
from lexigraft.corpus.loader import Pair
from lexigraft.corpus.sampling import StoredLines, StoredSample, StreamSample
from lexigraft.errors import UserError
from lexigraft.randomness import generator

logger = logging.getLogger(__name__)

Seed = tuple[str | int, ...]
Draw = Callable[[int | None, int | None], StoredLines]
# Size of the text that was requested, and its actual size, by key of `Sizes`.
Reductions = dict[str, dict[str, int]]

# The minimum size of a part that is smaller than requested; below it, numbers are noise.
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
# What keeps sentences out of training, in the order in which they are counted.
_KEPT_OUT = ("like_translation_test", "like_summarization_test", "like_heldout")


@dataclass(frozen=True)
class Sizes:
    """Maximum sizes of the parts; None: all pairs, or all remaining training sentences.

    `train_characters` limits the total length of the training sentences. `heldout_from` is
    `anywhere`, or `end`: held-out sentences are drawn from the last tenth of the text, and none of
    it is used for training.
    """

    train_sentences: int | None = None
    heldout_sentences: int = 100
    english_sentences: int = 100
    translation_pairs: int | None = 100
    minimum_english_words: int = 4
    summarization_pairs: int | None = None
    heldout_from: str = "anywhere"
    train_characters: int | None = None


@dataclass(frozen=True)
class Split:
    """The parts; `kept_out` counts sentences that the other parts exclude from training.

    If a size limits the training text, it refers to a sample of twice that size.
    """

    train: StoredLines
    heldout: list[str]
    english: list[str]
    translation: list[Pair]
    summarization: list[Pair]
    kept_out: dict[str, int]
    reduced: Reductions  # the sizes that the text does not reach


def split_corpus(
    sentences: Iterable[str] | Draw,
    pairs: Iterable[Pair],
    english: Iterable[str],
    sizes: Sizes,
    seed: Seed,
    articles: Iterable[Pair] = (),
) -> Split:
    """Draw the parts, at random and disjoint.

    No sentence of `train` has the same letters as a sentence of `heldout`, a test translation or a
    summary, or contains them if they are twelve or more; the same holds for `heldout` with respect
    to test translations and summaries. Tests and held-out sentences with fewer letters are drawn
    only if there are too few longer ones. Test pairs differ from each other on both sides. `train`
    is in the order of `sentences`; any prefix of the other parts is a random sample too. Raises one
    `UserError` with all parts for which there is too little text, see `MINIMUM`.

    `sentences` are streamed, or drawn by a function like `reading.draw_text`; `pairs` are (English,
    translation), `articles` (article, summary); `english` may be training text. `seed` are the
    names that seed the draws.
    """
    translation, has_pairs = _draw_pairs(
        pairs, "translation_pairs", sizes.translation_pairs, seed, sizes.minimum_english_words
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
        sample = StoredSample((*seed, "sentences"), lines, characters)
        for sentence in sentences:
            sample.add(sentence)
        candidates = sample.ordered()
    counts = [len(translation), len(summarization)]  # of the tests that are used
    firsts = _find_tests(candidates, [translation, summarization])
    is_enough = False
    if sizes.train_sentences is not None or sizes.train_characters is not None:
        untested, kept_out = _without_tests(candidates, firsts, counts)
        train, heldout = _hold_out(untested, sizes.heldout_sentences, sizes, seed)
        is_enough = (
            len(heldout) == sizes.heldout_sentences
            and len(train) >= (sizes.train_sentences or 0)
            and train.sizes.sum() >= (sizes.train_characters or 0)
        )
    if not is_enough:  # or no limit: then held-out text always reduces training text
        tenth = max(len(candidates) // _PART, MINIMUM["heldout_sentences"])
        for index, first in enumerate(firsts):
            # As many of the first tests as exclude at most a tenth of the candidates.
            matched = np.sort(first[first >= 0])
            if len(matched) > tenth:
                counts[index] = min(counts[index], int(matched[tenth]))
        untested, kept_out = _without_tests(candidates, firsts, counts)
        unused = len(untested) - sizes.train_sentences if sizes.train_sentences is not None else 0
        heldout_size = min(sizes.heldout_sentences, max(tenth, unused))
        train, heldout = _hold_out(untested, heldout_size, sizes, seed)
    # The last tenth is not in `train` anyway: its sentences do not count as like held-out ones.
    reserved = len(untested) // _PART if sizes.heldout_from == "end" else len(heldout)
    kept_out["like_heldout"] = len(untested) - len(train) - reserved
    train, train_characters = _limit(train, sizes, seed)
    translation, summarization = translation[: counts[0]], summarization[: counts[1]]
    english_sample = StreamSample[str](sizes.english_sentences, (*seed, "english"))
    for sentence in english:
        english_sample.add(sentence, sentence)
    actual_sizes = {
        "heldout_sentences": len(heldout),
        "train_sentences": len(train),
        "english_sentences": len(english_sample),
    }
    if has_pairs:
        actual_sizes["translation_pairs"] = len(translation)
    if has_articles:
        actual_sizes["summarization_pairs"] = len(summarization)
    if sizes.train_characters is not None:
        actual_sizes["train_characters"] = train_characters
    reduced = _check_sizes(actual_sizes, sizes)
    english_texts = english_sample.shuffled()
    return Split(train, heldout, english_texts, translation, summarization, kept_out, reduced)


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


def _find_tests(candidates: StoredLines, test_sets: Sequence[list[Pair]]) -> np.ndarray:
    """The first test of each set that each candidate contains, int32 [sets, candidates].

    It is the index of the test, or -1.
    """
    numbers = [
        {letters(target): number for number, (_, target) in enumerate(tests)} for tests in test_sets
    ]
    overlap = Overlap(target for tests in test_sets for _, target in tests)
    firsts = np.full((len(test_sets), len(candidates)), -1, dtype=np.int32)
    if any(test_sets):
        for index, sentence in enumerate(candidates):
            contained = set(overlap.matches(letters(sentence)))
            for row, number in enumerate(numbers):
                if matches := contained & number.keys():
                    firsts[row, index] = min(number[match] for match in matches)
    return firsts


def _without_tests(
    candidates: StoredLines, firsts: np.ndarray, counts: list[int]
) -> tuple[StoredLines, dict[str, int]]:
    """The candidates without the first `counts` tests of each set, and how many each removes."""
    remaining, kept_out = np.ones(len(candidates), dtype=bool), dict.fromkeys(_KEPT_OUT, 0)
    for name, first, count in zip(_KEPT_OUT, firsts, counts, strict=False):
        matching = (first >= 0) & (first < count)
        kept_out[name] = int((remaining & matching).sum())
        remaining &= ~matching
    return candidates.select(remaining), kept_out


def _hold_out(
    candidates: StoredLines, size: int, sizes: Sizes, seed: Seed
) -> tuple[StoredLines, list[str]]:
    """Training and held-out text; training sentences like or with a held-out one are dropped."""
    pool = candidates
    if sizes.heldout_from == "end":
        begin = len(candidates) - len(candidates) // _PART
        candidates, pool = candidates[:begin], candidates[begin:]

    def long_first() -> Iterator[str]:  # mostly, only the first few are read
        short = []
        for index in generator(*seed, "heldout").permutation(len(pool)):
            if _is_short(sentence := pool[int(index)]):
                short.append(sentence)
            else:
                yield sentence
        yield from short

    heldout: dict[str, str] = {}  # letters -> sentence
    for sentence in long_first() if size else ():
        heldout.setdefault(letters(sentence), sentence)
        if len(heldout) == size:
            break
    if not heldout:
        return candidates, []
    return candidates.without(Overlap(heldout.values()).__contains__), list(heldout.values())


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
