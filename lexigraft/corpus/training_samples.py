"""Training samples, prompts with answers, without any that contains a test."""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lexigraft.corpus.cleaning import CleaningCounts, repair
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.language import read_test_texts, size_of
from lexigraft.corpus.parallel import translations
from lexigraft.corpus.readers import Pair, read_rows
from lexigraft.corpus.sample_file import SAMPLES, read_samples, write_samples
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError

logger = logging.getLogger(__name__)


@dataclass
class QuestionCounts:
    """Counts of rows: `blank` lack a prompt or an answer, `like_tests` contain a test."""

    read: int = 0
    blank: int = 0
    like_tests: int = 0


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
        `parallel.translations` or `questions` take.
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


def questions(
    settings: Mapping[str, Any],
    seed: tuple[str | int, ...],
    tests: Overlap,
) -> tuple[list[Pair], dict[str, Any]]:
    """(prompt, answer) of each row, or of a random sample of the rows.

    Parameters
    ----------
    settings
        `text`: `{"loader": "jsonl", "path"}`, `{"loader": "parquet", "path"}` or `{"loader":
        "datasets", "name", "split", "config", "revision", "data_files"}`; `prompt` and `answer`,
        Jinja templates over the columns; `questions`, the number of samples, or None for all.
    seed
        The names that seed the draw.
    tests
        Texts that neither prompt nor answer may contain.

    Returns
    -------
    samples, facts
        White space between prompt and answer belongs to the answer.
    """
    prompt, answer = (_template(settings[key], key) for key in ("prompt", "answer"))
    wanted, counts, cleaning = settings["questions"], QuestionCounts(), CleaningCounts()
    # Twice as many as needed, since those that contain a test are removed afterwards.
    sample = StreamSample[Pair](None if wanted is None else 2 * wanted, (*seed, "questions"))
    for row, where in read_rows(settings["text"]):
        counts.read += 1
        pair = joined(prompt(row, where), answer(row, where), cleaning)
        if pair is None:
            counts.blank += 1
        else:
            sample.add(pair, "\n".join(pair))
    drawn = sample.shuffled()
    samples = [pair for pair in drawn if not any(side in tests for side in pair)]
    counts.like_tests = len(drawn) - len(samples)
    if len(samples) < (wanted or 1):
        raise UserError(
            f"questions: asks for {wanted or 'all'}, but the text has only {len(samples)} (of "
            f"{counts.read} rows); lower questions or give more text"
        )
    return samples[:wanted], {"rows": asdict(counts)}


def joined(prompt: str, answer: str, counts: CleaningCounts) -> Pair | None:
    """A prompt without trailing white space, and the answer preceded by that white space.

    A prompt that ends in a space, as in "Answer: ", would be tokenized with that space, so that
    the answer's first word would lack the space that it has in all other text. Each line is
    repaired and stripped. None if either is blank.
    """
    question, reply = prompt.rstrip(), answer.strip()
    between = prompt[len(question) :] + answer[: len(answer) - len(answer.lstrip())]
    question, reply = (
        "\n".join(repair(line, counts) for line in text.split("\n")) for text in (question, reply)
    )
    return (question, between + reply) if question.strip() and reply else None


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


def _template(source: str, key: str) -> Callable[[Mapping[str, Any], str], str]:
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

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
                f"{where}: the template '{key}' does not fit ({error}); the columns are "
                f"{', '.join(map(str, row))}"
            ) from None

    return fill
