"""Training samples: prompts with answers, without samples that contain a test.

They are rows of a table, or parallel text: ALMA (Xu et al. 2024) trains a model on both directions
at once. VocADT (Han et al. 2025, §3.4 and §5.3) does so with the 15,000 pairs per language that
have the highest LASER3 scores.
"""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tqdm import tqdm

from lexigraft.corpus.cleaning import CleaningCounts, cleaned_pairs, repair
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import read_test_texts, size_of
from lexigraft.corpus.loader import Pair
from lexigraft.corpus.readers import read_rows, read_scored_pairs
from lexigraft.corpus.sample_file import (
    ENGLISH,
    SAMPLES,
    read_samples,
    translation_prompt,
    write_samples,
)
from lexigraft.corpus.sampling import StreamSample
from lexigraft.corpus.split import Reductions, log_reduced
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)


def prepare_samples(
    settings: Mapping[str, Any],
    corpus: str | Path,
    folder: str | Path,
    seed: tuple[str | int, ...],
    package: str | Path | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write `samples.jsonl` for one entry of a language's samples; see `corpus.sample_file`.

    Returns the names of the written files, and facts for the card. `settings` has the `kind`
    (`parallel` or `questions`), and the settings of `translations` or `questions`. No sample
    contains a test of the language's `corpus`, or a held-out or English sentence. `seed` are the
    names that seed the draw; `package` is the folder of the unpacked package, for texts in
    packages.
    """
    tests, name = Overlap(_tests(Path(corpus))), f"samples of {settings['language']}"
    try:
        if settings["kind"] == "parallel":
            samples, facts = translations(settings, seed, tests, package)
        else:
            samples, facts = questions(settings, seed, tests)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    log_reduced(name, facts["reduced"])
    return _write(folder, samples, facts)


def mix_samples(
    samples: Mapping[str, str | Path],
    corpora: Mapping[str, str | Path],
    folder: str | Path,
) -> tuple[list[str], dict[str, Any]]:
    """Write one entry of a group's samples: those of all members, without tests of any member.

    `samples` and `corpora` map members to folders. Returns the same as `prepare_samples`.
    """
    tests = Overlap(test for corpus in corpora.values() for test in _tests(Path(corpus)))
    mixed: list[Pair] = []
    counts = {}
    for language, sample_folder in samples.items():
        pairs = read_samples(Path(sample_folder) / SAMPLES)
        untested = _untested(pairs, tests)
        counts[language] = {"samples": len(untested), "like_tests": len(pairs) - len(untested)}
        mixed += untested
    return _write(folder, mixed, {"members": counts})


def translations(
    settings: Mapping[str, Any],
    seed: tuple[str | int, ...],
    tests: Overlap,
    package: str | Path | None = None,
) -> tuple[list[Pair], dict[str, Any]]:
    """(prompt, answer) of each selected pair, from English and into English, and facts.

    `settings` has `language`, its English name; `text`, see `readers.read_scored_pairs`;
    `minimum_quality`, below which a pair is dropped, or None; `pairs`, the maximum number of pairs,
    or None for all: the best ones if the text has qualities, a random sample otherwise; optionally
    `repair`.
    """
    limit, language, minimum = settings["pairs"], settings["language"], settings["minimum_quality"]
    scored = any(key.startswith("quality") for key in settings["text"])
    cleaning = CleaningCounts()
    selection = {"without_quality": 0, "below_minimum": 0, "like_tests": 0}
    # Twice as many as needed, since those that contain a test are removed afterwards.
    sample = StreamSample[tuple[float, Pair]](limit and 2 * limit, (*seed, "pairs"))
    title, scored_pairs = f"read {language}", read_scored_pairs(settings["text"], package)
    bar = tqdm(scored_pairs, desc=title, unit="pair", unit_scale=True, disable=None)
    for raw_pair, score in bar:
        try:
            quality = float(score) if scored else 0.0
        except (TypeError, ValueError):
            quality = math.nan
        if math.isnan(quality):
            selection["without_quality"] += 1
        elif minimum is not None and quality < minimum:
            selection["below_minimum"] += 1
        else:
            for pair in cleaned_pairs([raw_pair], cleaning, repairs=settings.get("repair", ())):
                sample.add((quality, pair), "\n".join(pair), score=quality)
    best_first = sorted(sample.shuffled(), key=lambda scored_pair: -scored_pair[0])
    pairs = _untested([pair for _, pair in best_first], tests)
    selection["like_tests"] = len(best_first) - len(pairs)
    if not pairs:
        dropped = ", ".join(f"{key} {count}" for key, count in selection.items())
        raise UserError(
            f"pairs: none is of sufficient quality and free of test texts ({dropped}); lower "
            "minimum_quality or give more text"
        )
    samples: list[Pair] = []
    for english, translation in pairs[:limit]:
        samples += [
            (translation_prompt(ENGLISH, language, english), f" {translation}"),
            (translation_prompt(language, ENGLISH, translation), f" {english}"),
        ]
    taken = len(samples) // 2
    facts = {"pairs": taken, "cleaning": asdict(cleaning), "selection": selection}
    return samples, facts | {"reduced": _reduced("pairs", limit, taken)}


def questions(
    settings: Mapping[str, Any],
    seed: tuple[str | int, ...],
    tests: Overlap,
) -> tuple[list[Pair], dict[str, Any]]:
    """(prompt, answer) of each row, or of a random sample of the rows, and facts.

    `settings` has `text`, see `readers.read_rows`; `prompt` and `answer`, Jinja templates over the
    columns; `questions`, the maximum number of samples, or None for all; optionally `repair`, and
    `more` tables with these three keys.
    """
    limit = settings["questions"]
    counts = {"read": 0, "blank": 0, "like_tests": 0}
    sample = StreamSample[Pair](limit and 2 * limit, (*seed, "questions"))
    for table in (settings, *settings.get("more", ())):
        prompt, answer = (_template(table[key], key) for key in ("prompt", "answer"))
        for row, where in read_rows(table["text"]):
            counts["read"] += 1
            pair = joined(prompt(row, where), answer(row, where), settings.get("repair", ()))
            if pair is None:
                counts["blank"] += 1
            else:
                sample.add(pair, "\n".join(pair))
    samples = _untested(sample.shuffled(), tests)
    counts["like_tests"] = len(sample) - len(samples)
    if not samples:
        raise UserError(
            f"questions: none of {counts['read']} rows has a prompt and an answer and is free of "
            "test texts; correct the templates or give more text"
        )
    samples = samples[:limit]
    return samples, {"rows": counts, "reduced": _reduced("questions", limit, len(samples))}


def joined(prompt: str, answer: str, repairs: Collection[str] = ()) -> Pair | None:
    """A prompt without trailing white space, and the answer preceded by that white space.

    A prompt that ends in a space would be tokenized with that space, so that the answer's first
    word would lack the space that it has in all other text. None if either is blank.
    """
    question, reply = prompt.rstrip(), answer.strip()
    between = prompt[len(question) :] + answer[: len(answer) - len(answer.lstrip())]
    counts = CleaningCounts()
    question, reply = (
        "\n".join(repair(line, counts, repairs) for line in text.split("\n"))
        for text in (question, reply)
    )
    return (question, between + reply) if question.strip() and reply else None


def _untested(pairs: list[Pair], tests: Overlap) -> list[Pair]:
    return [pair for pair in pairs if not any(side in tests for side in pair)]


def _write(
    folder: str | Path, samples: list[Pair], facts: dict[str, Any]
) -> tuple[list[str], dict[str, Any]]:
    files = write_samples(folder, samples)
    logger.info("%s: %d samples", folder, len(samples))
    prompts, answers = ([pair[side] for pair in samples] for side in (0, 1))
    return files, {**facts, "sizes": {"prompts": size_of(prompts), "answers": size_of(answers)}}


def _reduced(key: str, limit: int | None, taken: int) -> Reductions:
    return {} if limit is None or taken >= limit else {key: {"wanted": limit, "taken": taken}}


def _tests(corpus: Path) -> Iterator[str]:
    """Both sides of translations, summaries, and the sentences that are scored during training."""
    yield from read_test_texts(corpus, sources=True)
    for part in ("heldout", "english"):
        yield from filter(None, (corpus / f"{part}.txt").read_text(encoding="utf-8").split("\n"))


def _template(source: str, key: str) -> Callable[[Mapping[str, Any], str], str]:
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    try:
        template = environment.from_string(source)
    except TemplateError as error:
        raise UserError(f"{key}: not a Jinja template ({error})") from None

    def fill(row: Mapping[str, Any], where: str) -> str:
        try:
            return template.render(row)
        except (TemplateError, LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{where}: the template '{key}' cannot be filled ({error}); the columns are "
                f"{', '.join(map(str, row))}"
            ) from None

    return fill
