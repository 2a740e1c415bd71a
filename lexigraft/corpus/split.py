"""Split of a corpus into training text, held-out text, and tests that are not in either.

The sizes of the parts are upper bounds. A text that has them all is split exactly so. One that is
smaller is divided by one rule (`divide`): held-out text and tests take at most a tenth of it each,
and what remains is trained on. A part that is smaller than asked for must still have some
sentences (`MINIMUM`); below that, numbers are noise.
"""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass

from lexigraft.corpus.cleaning import fingerprint
from lexigraft.corpus.contamination import CONTAINED, Overlap, Tests, letters
from lexigraft.corpus.near_duplicates import without_near_duplicates
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError
from lexigraft.randomness import generator

Pair = tuple[str, str]
Seed = tuple[str | int, ...]

# The fewest sentences or pairs of a part that does not have the size asked for.
MINIMUM = {
    "heldout_sentences": 10,
    "train_sentences": 100,
    "english_sentences": 10,
    "translation_pairs": 10,
    "summarization_pairs": 10,
}
# Held-out text and tests are at most this part of a text that does not have the sizes asked for.
_PART = 10


@dataclass(frozen=True)
class Sizes:
    """The most that the parts have; None is all there are, or all the remaining training sentences.

    `near_duplicates` is the Jaccard similarity from which sentences count as the same (see
    `near_duplicates`); None compares none. `heldout_from` is `anywhere`, or `end`: held-out
    sentences are drawn from the last tenth of the text, and none of it is trained on.
    """

    train_sentences: int | None = None
    heldout_sentences: int = 100
    english_sentences: int = 100
    translation_pairs: int | None = 100
    minimum_english_words: int = 4
    summarization_pairs: int | None = None
    near_duplicates: float | None = None
    heldout_from: str = "anywhere"


@dataclass(frozen=True)
class Split:
    """The parts, and what became of the sentences that are in none.

    `kept_out` counts sentences that are not trained on because of the other parts:
    `like_translation_test`, `like_summarization_test`, `like_heldout`, `like_other_tests`; and
    `near_duplicate`, where they were looked for. If `train_sentences` limits the training text,
    these counts refer to a sample of the text of twice that size. `reduced` has the sizes that the
    text does not have: key of `Sizes` -> the sizes `wanted` and `taken`.
    """

    train: list[str]
    heldout: list[str]
    english: list[str]
    translation: list[Pair]
    summarization: list[Pair]
    kept_out: dict[str, int]
    reduced: dict[str, dict[str, int]]


def split_corpus(
    sentences: Iterable[str],
    pairs: Iterable[Pair],
    english: Iterable[str],
    sizes: Sizes,
    seed: Seed,
    articles: Iterable[Pair] = (),
    other_tests: Tests = (),
) -> Split:
    """Draw the parts, at random and disjoint.

    No sentence of `train` has the letters of a sentence of `heldout`, of a test translation or of a
    summary, or contains them if they are twelve or more; no sentence of `heldout` does so with a
    test translation or a summary. Tests and held-out sentences with fewer letters are drawn only if
    there are too few others. `train` is in the order of `sentences`; the other parts are in random
    order, so that any prefix of them is a random sample too. `seed` are the names that seed the
    draws. Raises one `UserError` with all the parts for which there is too little text, see
    `MINIMUM`.

    Parameters
    ----------
    sentences
        Sentences of the target language; repeated ones count once. Streamed: twice `sizes`, or as
        many more as there are tests, are in memory, or all of them if `train_sentences` is None.
    pairs
        (English, translation). Test pairs have at least `minimum_english_words` words in English
        and differ from each other on both sides. Without pairs there is no translation test.
    english
        English sentences to measure how much English is forgotten; they may be trained on.
    articles
        (article, summary). Test pairs differ from each other on both sides. The articles may be
        trained on, their summaries not.
    other_tests
        Sentences that it contains are neither trained on nor held out.
    """
    words = sizes.minimum_english_words
    translation, has_pairs = _draw_pairs(
        pairs, "translation_pairs", sizes.translation_pairs, seed, words
    )
    summarization, has_articles = _draw_pairs(
        articles, "summarization_pairs", sizes.summarization_pairs, seed
    )
    wanted = None
    if sizes.train_sentences is not None:
        # More than needed, since those that contain a test or a held-out sentence are removed
        # afterwards: twice as many, or more where there are that many tests.
        wanted = sizes.train_sentences + sizes.heldout_sentences
        wanted += max(wanted, len(translation) + len(summarization))
    sample = StreamSample[str](wanted, (*seed, "sentences"))
    for sentence in sentences:
        sample.add(sentence, sentence)
    candidates = sample.ordered()
    kept_out = {}
    if sizes.near_duplicates is not None:
        every = len(candidates)
        candidates = without_near_duplicates(candidates, sizes.near_duplicates)
        kept_out["near_duplicate"] = every - len(candidates)
    train, heldout, translation, summarization, divided = divide(
        candidates, sizes, seed, translation, summarization, other_tests
    )
    check = StreamSample[str](sizes.english_sentences, (*seed, "english"))
    for sentence in english:
        check.add(sentence, sentence)
    parts: dict[str, Sized] = {
        "heldout_sentences": heldout,
        "train_sentences": train,
        "english_sentences": check,
        **({"translation_pairs": translation} if has_pairs else {}),
        **({"summarization_pairs": summarization} if has_articles else {}),
    }
    reduced = _check_sizes({key: len(part) for key, part in parts.items()}, sizes)
    english_test = check.shuffled()
    kept_out |= divided
    return Split(train, heldout, english_test, translation, summarization, kept_out, reduced)


def divide(
    candidates: list[str],
    sizes: Sizes,
    seed: Seed,
    translation: list[Pair],
    summarization: list[Pair],
    other_tests: Tests,
) -> tuple[list[str], list[str], list[Pair], list[Pair], dict[str, int]]:
    """Training and held-out text, the tests of those drawn that are taken, and what is kept out.

    Where the text has `train_sentences` and `heldout_sentences` beside all the tests, these are the
    sizes. Otherwise the tests that are in the text themselves are reduced until they take a tenth
    of it, and held-out text is what `train_sentences` leaves, or a tenth of the text if that is
    more. If all that is left is trained on (`train_sentences` None), it is a tenth at most.
    """
    rest, kept_out = _without_tests(candidates, translation, summarization, other_tests)
    at_end = sizes.heldout_from == "end"
    train, heldout = _hold_out(rest, sizes.heldout_sentences, seed, at_end)
    limit = sizes.train_sentences
    if limit is None or len(heldout) < sizes.heldout_sentences or len(train) < limit:
        tenth = max(len(candidates) // _PART, MINIMUM["heldout_sentences"])
        translation = _fewer(translation, candidates, tenth)
        summarization = _fewer(summarization, candidates, tenth)
        rest, kept_out = _without_tests(candidates, translation, summarization, other_tests)
        left = 0 if limit is None else len(rest) - limit
        most = min(sizes.heldout_sentences, max(tenth, left))
        train, heldout = _hold_out(rest, most, seed, at_end)
    kept_out["like_heldout"] = len(rest) - len(train) - len(heldout)
    if limit is not None and len(train) > limit:
        chosen = generator(*seed, "train").choice(len(train), limit, replace=False)
        train = [train[place] for place in sorted(chosen)]
    return train, heldout, translation, summarization, kept_out


def describe_reduced(reduced: Mapping[str, Mapping[str, int]]) -> str:
    """`Split.reduced` as text: "train_sentences 810 of 30,000, heldout_sentences 90 of 1,000"."""
    return ", ".join(
        f"{key} {size['taken']:,} of {size['wanted']:,}" for key, size in reduced.items()
    )


def _draw_pairs(
    pairs: Iterable[Pair], key: str, size: int | None, seed: Seed, minimum_words: int = 0
) -> tuple[list[Pair], bool]:
    """Test pairs, `size` at most, and whether there were any pairs to draw from."""
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


def _fewer(tests: list[Pair], candidates: list[str], most: int) -> list[Pair]:
    """As many of the first tests as keep at most so many candidates out."""
    numbers = {letters(target): number for number, (_, target) in enumerate(tests)}
    contained = Overlap(target for _, target in tests)
    # Of each candidate that a test keeps out, the first such test.
    firsts = sorted(
        min(numbers[match] for match in matches)
        for sentence in candidates
        if (matches := list(contained.matches(letters(sentence))))
    )
    return tests if len(firsts) <= most else tests[: firsts[most]]


def _without_tests(
    candidates: list[str], translation: list[Pair], summarization: list[Pair], other_tests: Tests
) -> tuple[list[str], dict[str, int]]:
    """The candidates without those that contain a test, and how many each set of tests removes."""
    tests: dict[str, Tests] = {
        "like_translation_test": Overlap(target for _, target in translation),
        "like_summarization_test": Overlap(summary for _, summary in summarization),
        "like_heldout": (),  # counted later
        "like_other_tests": other_tests,
    }
    kept_out = {}
    for name, contained in tests.items():
        before = len(candidates)
        candidates = [sentence for sentence in candidates if sentence not in contained]
        kept_out[name] = before - len(candidates)
    return candidates, kept_out


def _hold_out(
    candidates: list[str], size: int, seed: Seed, at_end: bool
) -> tuple[list[str], list[str]]:
    """Train and heldout; what has or contains the letters of a held-out sentence is in neither.

    With `at_end` all but the last tenth is trained on, and held-out sentences are drawn from that.
    """
    heldout: dict[str, str] = {}  # letters -> sentence
    pool = candidates
    if at_end:
        begin = len(candidates) - len(candidates) // _PART
        candidates, pool = candidates[:begin], candidates[begin:]
    order = generator(*seed, "heldout").permutation(len(pool))
    for sentence in sorted((pool[place] for place in order), key=_is_short):
        if len(heldout) == size:
            break
        heldout.setdefault(letters(sentence), sentence)
    held_out = Overlap(heldout.values())
    train = [sentence for sentence in candidates if sentence not in held_out]
    return train, list(heldout.values())


def _is_short(sentence: str) -> bool:
    """Whether a sentence may stand inside a training sentence although it is a test."""
    return len(letters(sentence)) < CONTAINED


def _check_sizes(found: Mapping[str, int], sizes: Sizes) -> dict[str, dict[str, int]]:
    """The sizes that are smaller than wanted, see `Split.reduced`."""
    lacking, reduced = [], {}
    for key, taken in found.items():
        wanted = getattr(sizes, key)
        if wanted is None:
            # All that there is will do; to train on, all that held-out text of the size leaves.
            whole = key != "train_sentences" or "heldout_sentences" not in reduced
            least = 1 if whole else MINIMUM[key]
        elif taken < wanted:
            reduced[key] = {"wanted": wanted, "taken": taken}
            least = min(MINIMUM[key], wanted)
        else:
            continue
        if taken < least:
            lacking.append(f"{key} {taken} (at least {least})")
    if lacking:
        raise UserError(
            f"the text is too small: {', '.join(lacking)}; give more text. Counted are distinct "
            f"sentences that are in no other part, and pairs with at least "
            f"{sizes.minimum_english_words} English words"
        )
    return reduced
