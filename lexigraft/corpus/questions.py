"""Training samples from the rows of a table, by templates for prompt and answer."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lexigraft.corpus.cleaning import CleaningCounts, repair
from lexigraft.corpus.contamination import Overlap
from lexigraft.corpus.readers import Pair, read_rows
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError


@dataclass
class QuestionCounts:
    """Counts of rows: `blank` lack a prompt or an answer, `like_tests` contain a test."""

    read: int = 0
    blank: int = 0
    like_tests: int = 0


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

    Raises
    ------
    UserError
        A template is invalid, or the table cannot be read or has too few rows.
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
