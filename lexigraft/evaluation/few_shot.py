"""Build the prompts of a run: examples before each question, and texts shortened to fit."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import (
    BETWEEN,
    INSTRUCTION,
    between_examples,
    question_frame,
    summarization_frame,
)
from lexigraft.evaluation.task_kinds import CorpusTests
from lexigraft.evaluation.texts import draw, task_rows
from lexigraft.source.document_start import start_ids
from lexigraft.source.positions import positions_of

Row = dict[str, Any]


# ---- examples ----------------------------------------------------------------------------------


def read_test_set(job: dict[str, Any], part: str, language: str | None = None) -> list[Row] | None:
    """The rows of a task's own `tests` or `shots`; None if it uses those of the corpus.

    `language` selects a language if the task has several.
    """
    folders = job["inputs"].get("test_sets", {}).get(part)
    if not folders:
        return None
    folder = folders[language] if language else next(iter(folders.values()))
    return [json.loads(line) for line in read_lines(Path(folder) / TEST_SET)]


def read_own_or_corpus_tests(job: dict[str, Any], corpus_tests: CorpusTests) -> list[Row]:
    """The rows of a task's own `tests`, or those of the corpus if it has none.

    Raises `UserError` if there are no rows.
    """
    corpus = job["inputs"]["corpus"]
    rows = read_test_set(job, "tests") or task_rows(corpus, corpus_tests)
    if not rows:
        raise UserError(
            f"{corpus}/tasks/{corpus_tests.file}.jsonl: no {corpus_tests.rows}; give the language "
            f"a {corpus_tests.key} source in config/languages.yaml or remove {corpus_tests.file} "
            "from the study"
        )
    return rows


def examples_and_tests(
    job: dict[str, Any],
    tests: list[Row],
    shots: int,
    texts: tuple[str, ...],
    language: str = "",
    first: bool = False,
) -> tuple[list[Row], list[Row]]:
    """Draw the examples of a run, and drop tests that share a text with an example.

    All prompts of a run, for all cells, begin with the same examples: differences between cells are
    then paired, and a model processes them once. Each run draws new examples; with `first`, every
    run takes the first ones. Examples come from the task's own `shots` (`read_test_set`), or from
    the tests. `texts` are the keys of the texts by which rows are compared, ignoring case, digits
    and punctuation. `language` names the draw if a run has several languages. Raises `UserError` if
    there are fewer examples than requested, or if no tests are left.
    """
    if not shots:
        return [], tests
    where = f"config/tasks.yaml: task '{job['task']}': shots"
    pool = read_test_set(job, "shots", language or None)
    pool = tests if pool is None else pool
    if len(pool) < shots:
        raise UserError(f"{where} is {shots}, but there are only {len(pool)} examples; lower it")
    examples = pool[:shots] if first else draw(pool, shots, job, f"shots {language}".strip())
    example_letters = {letters(row[key]) for row in examples for key in texts}
    remaining = [
        row for row in tests if example_letters.isdisjoint(letters(row[key]) for key in texts)
    ]
    if not remaining:
        raise UserError(
            f"{where}: {shots} examples leave none of {len(tests)} tests; lower it, or take the "
            "examples from a separate text (examples.shots)"
        )
    return examples, remaining


class FewShotPrompts(NamedTuple):
    """Prompts that begin with examples."""

    texts: list[str]  # the complete prompts
    shots: list[int]  # number of examples in each prompt: the last ones of `examples`
    examples: list[str]  # as they appear in a prompt, including the line feeds after them
    prompt_start: str = ""  # the text before all examples

    def details(self, ids: list[str]) -> dict[str, Any]:
        """Details of a record: the examples, which complete the `prompt` of its predictions."""
        start = {"before_examples": self.prompt_start} if self.prompt_start else {}
        if not self.examples:
            return start
        return start | {
            "examples": [
                {"id": name, "text": text} for name, text in zip(ids, self.examples, strict=True)
            ],
            "prompts_with_fewer_shots": sum(count < len(self.examples) for count in self.shots),
            "shots_per_prompt": sum(self.shots) / len(self.shots),
        }


def few_shot_prompts(
    tokenizer: PreTrainedTokenizerFast,
    queries: list[str],
    answered: Sequence[tuple[str, str]],
    limit: int | None,
    prompt_start: str = "",
    between: str = BETWEEN,
) -> FewShotPrompts:
    """Prompts that begin with examples; the first examples are dropped if they do not fit.

    Examples are `answered` prompts, whose answers are put on one line, after a space, and followed
    by `between`. A prompt that exceeds the token limit (including special tokens) even without
    examples is not changed. `prompt_start` is the beginning of each prompt.
    """
    examples = [
        f"{query.removesuffix(' ')} {' '.join(answer.split())}{between}"
        for query, answer in answered
    ]
    shots = [len(examples)] * len(queries)
    texts = ["".join([prompt_start, *examples, query]) for query in queries]
    if examples and limit is not None:
        limit -= len(start_ids(tokenizer))
        for index, ids in enumerate(tokenizer(texts, verbose=False)["input_ids"]):
            length = len(ids)
            while length > limit and shots[index]:
                shots[index] -= 1
                last = examples[len(examples) - shots[index] :]
                texts[index] = "".join([prompt_start, *last, queries[index]])
                length = len(tokenizer(texts[index], verbose=False)["input_ids"])
    return FewShotPrompts(texts, shots, examples, prompt_start)


# ---- texts shortened to fit --------------------------------------------------------------------


def prompt_limit(
    model: PreTrainedModel, max_new_tokens: int, max_prompt_tokens: int | None = None
) -> int | None:
    """Maximum tokens of a prompt, so that it fits with its new tokens; None: no limit."""
    positions = positions_of(model)
    limits = [max_prompt_tokens, None if positions is None else positions - max_new_tokens]
    return min((limit for limit in limits if limit is not None), default=None)


class NoRoomError(Exception):
    """The prompt of the text with this `index` is too long even without the text."""

    def __init__(self, index: int):
        self.index = index


def fit_texts(
    tokenizer: PreTrainedTokenizerFast,
    texts: Sequence[str],
    frames: Sequence[tuple[str, str]],
    limit: int,
) -> list[str]:
    """Truncate each text so that its prompt, between the parts of its frame, has `limit` tokens.

    A text is truncated at its end, before a token. Raises `NoRoomError` if nothing of a text fits.
    """
    prompts = [text.join(frame) for text, frame in zip(texts, frames, strict=True)]
    limit -= len(start_ids(tokenizer))
    lengths = [len(ids) for ids in tokenizer(prompts, verbose=False)["input_ids"]]
    fitting: list[str] = []
    for text, frame, length in zip(texts, frames, lengths, strict=True):
        # Truncation changes tokens at the end, so tokens are counted again until the text fits.
        while length > limit:
            encoded = tokenizer(text.join(frame), return_offsets_mapping=True, verbose=False)
            begin, end = len(frame[0]), len(frame[0]) + len(text)
            starts = [start for start, _ in encoded["offset_mapping"] if begin < start < end]
            excess = length - limit
            text = text[: starts[-excess] - begin].rstrip() if excess <= len(starts) else ""
            if not text:
                raise NoRoomError(len(fitting))
            length = len(tokenizer(text.join(frame), verbose=False)["input_ids"])
        fitting.append(text)
    return fitting


class ArticlePrompts(NamedTuple):
    """Prompts to summarize articles."""

    texts: list[str]
    articles: list[str]  # as they appear in the prompts
    prompt_start: str  # the text before all examples, which is not in `texts`
    frame: tuple[str, str]  # the texts before and after each article
    limit: int  # maximum number of tokens of a prompt
    truncated: int  # number of truncated articles


def article_prompts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    job: dict[str, Any],
    articles: list[str],
    *,
    max_prompt_tokens: int,
    max_new_tokens: int,
    prompt: str = INSTRUCTION,
) -> ArticlePrompts:
    """Prompts of at most `max_prompt_tokens`, including special tokens (Yamaguchi et al., C.2).

    If the model's context is shorter than `max_prompt_tokens` + `max_new_tokens`, prompts are
    shortened accordingly: Llama 2 has 4,096 positions for both. A vocabulary that needs fewer
    tokens sees more of an article. For `prompt`, see `summarization_frame`. Raises `UserError` if
    the limit leaves no room for an article.
    """
    limit = prompt_limit(model, max_new_tokens, max_prompt_tokens)
    assert limit is not None
    prompt_start, frame = summarization_frame(job["inputs"]["prompts"], job["language"], prompt)
    frames = [(prompt_start + frame[0], frame[1])] * len(articles)
    try:
        fitting = fit_texts(tokenizer, articles, frames, limit)
    except NoRoomError:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"an article (max_prompt_tokens {max_prompt_tokens}; the model's context is "
            f"{positions_of(model)} tokens, {max_new_tokens} of them new); change these or remove "
            "the task"
        ) from None
    truncated = sum(text != fitted for text, fitted in zip(articles, fitting, strict=True))
    texts = [text.join(frame) for text in fitting]
    return ArticlePrompts(texts, fitting, prompt_start, frame, limit, truncated)


class QuestionPrompts(NamedTuple):
    """The questions of one language with their prompts."""

    rows: list[Row]
    prompts: list[str]
    truncated: int  # number of truncated contexts
    details: dict[str, Any]


def question_prompts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    job: dict[str, Any],
    test: str,
    language: str,
    *,
    samples: int | None,
    shots: int,
    max_prompt_tokens: int,
    max_new_tokens: int,
    prompt: str,
) -> QuestionPrompts:
    """The prompts of the questions of one test; `language` is the ISO 639 code of the questions.

    If a prompt is longer than `max_prompt_tokens`, examples are left out first; then the context is
    truncated. For `prompt`, see `prompts.question_frame`. Raises `UserError` if there are too few
    questions, or a prompt has no room for a context.
    """
    questions = read_test_set(job, "tests", test) or []
    examples, drawn = examples_and_tests(job, questions, shots, ("question", "context"), test)
    drawn = draw(drawn, samples, job, f"questions {test}")
    files = job["inputs"]["prompts"]
    prompt_start, frame = question_frame(files, language, prompt)

    def around_context(row: Row) -> tuple[str, str]:
        return frame[0], f"{frame[1]}{row['question']}{frame[2]}"

    limit = prompt_limit(model, max_new_tokens, max_prompt_tokens)
    assert limit is not None
    contexts, frames = [row["context"] for row in drawn], [around_context(row) for row in drawn]
    try:
        fitting = fit_texts(
            tokenizer, contexts, [(prompt_start + start, end) for start, end in frames], limit
        )
    except NoRoomError as error:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"question {drawn[error.index]['id']} ({test}); raise max_prompt_tokens (at most to "
            "the model's context), lower max_new_tokens, or remove the task"
        ) from None
    queries = [context.join(around) for context, around in zip(fitting, frames, strict=True)]
    prompts = few_shot_prompts(
        tokenizer,
        queries,
        [(row["context"].join(around_context(row)), row["answers"][0]) for row in examples],
        limit,
        prompt_start,
        between_examples(files, "question_answering", prompt),
    )
    rows = [
        {
            "id": f"{test}-{row['id']}",
            "source": row["question"],
            "reference": row["answers"][0],
            "test": test,
            "prompt": query,
            "shots": row_shots,
            "answers": row["answers"],
        }
        for row, query, row_shots in zip(drawn, queries, prompts.shots, strict=True)
    ]
    details = {"drawn_from": len(questions), "questions": len(rows)}
    details |= prompts.details([row["id"] for row in examples])
    truncated = sum(text != fitted for text, fitted in zip(contexts, fitting, strict=True))
    return QuestionPrompts(rows, prompts.texts, truncated, details)
