"""Rows of a table as prompts with answers, by two templates over its columns."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lexigraft.corpus.cleaning import Counts, repair
from lexigraft.corpus.loaders import read_rows
from lexigraft.corpus.overlap import Overlap
from lexigraft.corpus.readers import Pair
from lexigraft.corpus.sampling import Sample
from lexigraft.errors import UserError


@dataclass
class Rows:
    """What became of the rows: `blank` have no prompt or no answer, `like_tests` hold a test."""

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
        Jinja templates over the columns; `questions`, how many, or None for all.
    seed
        The names that seed the draw.
    tests
        Texts that neither prompt nor answer may hold.

    Returns
    -------
    samples, facts
        White space between prompt and answer is the answer's.

    Raises
    ------
    UserError
        A template is wrong, the table cannot be read, or has fewer rows than asked for.
    """
    prompt, answer = (_template(settings[key], key) for key in ("prompt", "answer"))
    wanted, counts, repaired = settings["questions"], Rows(), Counts()
    # Twice as many as needed: those that give a test away are taken out afterwards.
    sample = Sample[Pair](None if wanted is None else 2 * wanted, (*seed, "questions"))
    for row, where in read_rows(settings["text"]):
        counts.read += 1
        pair = joined(prompt(row, where), answer(row, where), repaired)
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


def joined(prompt: str, answer: str, counts: Counts) -> Pair | None:
    """A prompt without white space at its end, and what stood between the two before the answer.

    A prompt that ends in a space, as in "Answer: ", would make a tokenizer cut there, and the
    answer's first word would lack the space that it has in all other text. Debris is repaired in
    each line, and white space at its ends dropped. None if either is blank.
    """
    asked, answered = prompt.rstrip(), answer.strip()
    between = prompt[len(asked) :] + answer[: len(answer) - len(answer.lstrip())]
    asked, answered = (
        "\n".join(repair(line, counts) for line in text.split("\n")) for text in (asked, answered)
    )
    return (asked, between + answered) if asked.strip() and answered else None


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
