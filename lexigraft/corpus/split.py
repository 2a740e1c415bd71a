"""Split of a corpus into training text, held-out text, and tests that are not in either."""

from collections.abc import Iterable
from dataclasses import dataclass

from lexigraft.corpus.cleaning import fingerprint
from lexigraft.corpus.contamination import CONTAINED, Overlap, Tests, letters
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError
from lexigraft.randomness import generator

Pair = tuple[str, str]
Seed = tuple[str | int, ...]


@dataclass(frozen=True)
class Sizes:
    """Sizes of the parts; None takes all there are, or all the remaining training sentences."""

    train_sentences: int | None = None
    heldout_sentences: int = 100
    english_sentences: int = 100
    translation_pairs: int | None = 100
    minimum_english_words: int = 4
    summarization_pairs: int | None = None


@dataclass(frozen=True)
class Split:
    """The parts, and how many sentences were kept out of training because of the other parts.

    `kept_out` has `like_translation_test`, `like_summarization_test`, `like_heldout` and
    `like_other_tests`. If `train_sentences` limits the training text, these counts refer to a
    sample of the text of twice that size.
    """

    train: list[str]
    heldout: list[str]
    english: list[str]
    translation: list[Pair]
    summarization: list[Pair]
    kept_out: dict[str, int]


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
    draws. Raises `UserError` if there are too few sentences or pairs for a part (with the key and
    both numbers).

    Parameters
    ----------
    sentences
        Sentences of the target language; repeated ones count once. Streamed: twice `sizes` are held
        in memory, or all of them if `train_sentences` is None.
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
    translation = _draw_pairs(pairs, "translation_pairs", sizes.translation_pairs, seed, words)
    summarization = _draw_pairs(articles, "summarization_pairs", sizes.summarization_pairs, seed)
    wanted = None
    if sizes.train_sentences is not None:
        # Twice as many as needed, since those that contain a test or equal a held-out sentence are
        # removed afterwards.
        wanted = 2 * (sizes.train_sentences + sizes.heldout_sentences)
    sample = StreamSample[str](wanted, (*seed, "sentences"))
    for sentence in sentences:
        sample.add(sentence, sentence)
    candidates = sample.ordered()
    tests: dict[str, Tests] = {
        "like_translation_test": Overlap(target for _, target in translation),
        "like_summarization_test": Overlap(summary for _, summary in summarization),
        "like_heldout": (),  # counted below
        "like_other_tests": other_tests,
    }
    kept_out = {}
    for name, contained in tests.items():
        before = len(candidates)
        candidates = [sentence for sentence in candidates if sentence not in contained]
        kept_out[name] = before - len(candidates)
    train, heldout, kept_out["like_heldout"] = _divide(candidates, sizes, seed)
    check = StreamSample[str](sizes.english_sentences, (*seed, "english"))
    for sentence in english:
        check.add(sentence, sentence)
    _require("english_sentences", sizes.english_sentences, len(check), "English sentences")
    return Split(train, heldout, check.shuffled(), translation, summarization, kept_out)


def _draw_pairs(
    pairs: Iterable[Pair], key: str, size: int | None, seed: Seed, minimum_words: int = 0
) -> list[Pair]:
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
    if any_pairs:
        words = f" with at least {minimum_words} English words" if minimum_words else ""
        needed = 1 if size is None else size
        _require(key, needed, len(sample), f"distinct pairs{words}")
    return sample.shuffled()


def _divide(candidates: list[str], sizes: Sizes, seed: Seed) -> tuple[list[str], list[str], int]:
    """Train, heldout, and the number of candidates excluded for being like a held-out sentence."""
    heldout: dict[str, str] = {}  # letters -> sentence
    order = generator(*seed, "heldout").permutation(len(candidates))
    for sentence in sorted((candidates[place] for place in order), key=_is_short):
        if len(heldout) == sizes.heldout_sentences:
            break
        heldout.setdefault(letters(sentence), sentence)
    every = len(candidates)
    _require(
        "heldout_sentences", sizes.heldout_sentences, len(heldout), "distinct sentences", every
    )
    held_out = Overlap(heldout.values())
    train = [sentence for sentence in candidates if sentence not in held_out]
    like_heldout = every - len(train) - len(heldout)
    needed = sizes.train_sentences or 1
    _require("train_sentences", needed, len(train), "sentences after the held-out ones", every)
    if sizes.train_sentences is not None:
        chosen = generator(*seed, "train").choice(len(train), sizes.train_sentences, replace=False)
        train = [train[place] for place in sorted(chosen)]
    return train, list(heldout.values()), like_heldout


def _is_short(sentence: str) -> bool:
    """Whether a sentence may stand inside a training sentence although it is a test."""
    return len(letters(sentence)) < CONTAINED


def _require(key: str, wanted: int, found: int, kind: str, total: int | None = None) -> None:
    if found < wanted:
        of = "" if total is None else f" (of {total} in all)"
        raise UserError(
            f"{key}: asks for {wanted}, but the text has only {found} {kind}{of}; lower {key} or "
            "give more text"
        )
