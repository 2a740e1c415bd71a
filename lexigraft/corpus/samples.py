"""Training samples, prompts with answers, without any that contains a test."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import read_test_texts, size_of
from lexigraft.corpus.parallel import translations
from lexigraft.corpus.questions import questions
from lexigraft.corpus.readers import Pair
from lexigraft.corpus.sample_file import SAMPLES, read_samples, write_samples
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)


def prepare_samples(
    settings: Mapping[str, Any],
    corpus: str | Path,
    folder: str | Path,
    seed: tuple[str | int, ...],
    package: str | Path | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write one entry of a language's samples.

    Parameters
    ----------
    settings
        `language`, its English name, and the entry: `kind`, `parallel` or `questions`, and what
        `parallel.translations` or `questions.questions` take.
    corpus
        The language's corpus. No sample contains a text of its tests, or a held-out or English
        sentence that a model is scored on during training (compared as in `contamination`).
    folder
        Receives `samples.jsonl`, see `sample_file`.
    seed
        The names that seed the draw.
    package
        The folder of the unpacked package, for catalogues.

    Returns
    -------
    files, facts
        The names of the files written, and facts for the card.

    Raises
    ------
    UserError
        A text cannot be read, or has too few samples.
    """
    tests = Overlap(_tests(Path(corpus)))
    try:
        if settings["kind"] == "parallel":
            samples, facts = translations(settings, seed, tests, package)
        else:
            samples, facts = questions(settings, seed, tests)
    except UserError as error:
        raise UserError(f"samples of {settings['language']}: {error}") from None
    return _written(folder, samples, facts)


def mix_samples(
    samples: Mapping[str, str | Path],
    corpora: Mapping[str, str | Path],
    folder: str | Path,
) -> tuple[list[str], dict[str, Any]]:
    """Write one entry of a group's samples: all members' samples, without the tests of any member.

    Parameters
    ----------
    samples
        Language -> the folder of its samples, for the members that have such an entry.
    corpora
        Language -> the folder of its corpus, for all members.
    folder
        As in `prepare_samples`.

    Returns
    -------
    files, facts
        As in `prepare_samples`.

    Raises
    ------
    UserError
        No sample is left.
    """
    tests = Overlap(test for corpus in corpora.values() for test in _tests(Path(corpus)))
    mixed: list[Pair] = []
    counts = {}
    for language, place in samples.items():
        every = read_samples(Path(place) / SAMPLES)
        kept = [pair for pair in every if not any(side in tests for side in pair)]
        counts[language] = {"samples": len(kept), "like_tests": len(every) - len(kept)}
        mixed += kept
    return _written(folder, mixed, {"members": counts})


def _written(
    folder: str | Path, samples: list[Pair], facts: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    files = write_samples(folder, samples)
    logger.info("%s: %d samples", folder, len(samples))
    sizes = {"prompts": size_of([prompt for prompt, _ in samples])}
    sizes["answers"] = size_of([answer for _, answer in samples])
    return files, {**facts, "sizes": sizes}


def _tests(corpus: Path) -> Iterator[str]:
    """Both sides of translations, summaries, and the sentences that training is scored on."""
    yield from read_test_texts(corpus, sources=True)
    for part in ("heldout", "english"):
        lines = (corpus / f"{part}.txt").read_text(encoding="utf-8").split("\n")
        yield from filter(None, lines)
