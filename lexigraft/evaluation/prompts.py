"""Build prompts from config/prompts: add examples, and shorten texts to fit the model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.texts import draw
from lexigraft.source.document_start import start_ids
from lexigraft.source.positions import positions_of
from lexigraft.yaml_files import read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The folder of prompts, or the files in it that a task reads, by name.
Files = str | Path | Mapping[str, str]
Row = dict[str, Any]

# What ends an example unless a named prompt has `between`; a model's output ends at its first line
# feed.
BETWEEN = "\n\n"
# The prompts that exist in each language; all others are entries of `named`.
INSTRUCTION = "instruction"
LABELS = "labels"


def translation_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """One zero-shot prompt per English sentence, as in Yamaguchi et al., Table 8.

    Reads `translation.yaml` (`template`, `instructions` by ISO 639 code and `default_instruction`
    for other languages) and `names.yaml` (their English names). Raises `UserError` if the language
    has neither an instruction nor a name.
    """
    prompts = _read(files, "translation")
    instruction = prompts["instructions"].get(language)
    if instruction is None:
        instruction = _in_english(prompts["default_instruction"], files, language)
    return _fill(prompts["template"], sources, instruction=instruction)


def into_english_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """One English zero-shot prompt per sentence to translate it into English, from `language`.

    `language` is an English name.
    """
    prompts = _read(files, "translation")
    instruction = prompts["into_english"].replace("{language}", language)
    return _fill(prompts["template"], sources, instruction=instruction)


def named_translation_prompts(
    files: Files, name: str, language: str, into: str, sources: list[str]
) -> tuple[str, list[str]]:
    """The text before all examples, and one prompt per sentence, from an entry of `named`.

    `language` and `into` are the English names of both languages. Raises `UserError` if
    `translation.yaml` has no such entry.
    """
    words = {"source_language": language, "target_language": into}
    before, template = _named(files, "translation", name, words)
    return before, _fill(template, sources)


def summarization_frame(
    files: Files, language: str, prompt: str = INSTRUCTION
) -> tuple[str, tuple[str, str]]:
    """The text before all examples, and the texts before and after each article.

    Reads `summarization.yaml` and `names.yaml`. `prompt` is `instruction`, a zero-shot prompt in
    the language (Yamaguchi et al., Table 8) built from `template` and `languages` (ISO 639 code ->
    `instruction`, `article_label` and `summary_label`; `default` for other languages); or an entry
    of `named`. Raises `UserError` if there is no such entry, or if the language has neither an
    entry nor a name.
    """
    prompts = _read(files, "summarization")
    if prompt != INSTRUCTION:
        words = {"language": _in_english("{language}", files, language)}
        first, template = _named(files, "summarization", prompt, words)
    else:
        words = prompts["languages"].get(language)
        if words is None:
            words = dict(prompts["default"])
            words["instruction"] = _in_english(words["instruction"], files, language)
        first, template = "", _replaced(prompts["template"], words)
    before, after = template.split("{article}")
    return first, (before, after)


def question_frame(
    files: Files, language: str, prompt: str = LABELS
) -> tuple[str, tuple[str, str, str]]:
    """The text before all examples, and those before a context, before its question, and after it.

    Reads `question_answering.yaml`. `prompt` is `labels`, built from `template` and `languages`:
    ISO 639 code -> `context_label`, `question_label` and `answer_label`, with English labels for
    other languages; or an entry of `named`. Raises `UserError` if there is no such entry.
    """
    prompts = _read(files, "question_answering")
    if prompt != LABELS:
        first, template = _named(files, "question_answering", prompt, {})
    else:
        words = prompts["languages"].get(language, prompts["languages"]["en"])
        first, template = "", _replaced(prompts["template"], words)
    before, rest = template.split("{context}")
    between, after = rest.split("{question}")
    return first, (before, between, after)


def between_examples(files: Files, file: str, prompt: str) -> str:
    """The text after each example: `between` of an entry of `named`, by default an empty line."""
    named: Mapping[str, Mapping[str, str]] = _read(files, file)["named"]
    return named.get(prompt, {}).get("between", BETWEEN)


def _named(files: Files, file: str, name: str, words: Mapping[str, str]) -> tuple[str, str]:
    """`before` and `template` of an entry of `named`, with `words` filled in."""
    named = _read(files, file)["named"]
    if name not in named:
        where = f"config/tasks.yaml: prompt of a task, in config/prompts/{file}.yaml"
        raise unknown(where, name, named)
    entry = named[name]
    return _replaced(entry.get("before", ""), words), _replaced(entry["template"], words)


def _replaced(template: str, words: Mapping[str, str]) -> str:
    # Not str.format: sentences may contain braces, as in texts of user interfaces.
    for key, word in words.items():
        template = template.replace(f"{{{key}}}", word)
    return template


def _fill(template: str, sources: list[str], **words: str) -> list[str]:
    frame = _replaced(template, words).split("{source}")
    return [source.join(frame) for source in sources]


def _read(files: Files, name: str) -> Any:
    file = files[name] if isinstance(files, Mapping) else Path(files, f"{name}.yaml")
    return read_yaml(file)


def _in_english(instruction: str, files: Files, language: str) -> str:
    names = _read(files, "names")["names"]
    if language not in names:
        raise UserError(
            f"config/prompts: language '{language}' has neither an instruction of its own nor an "
            "English name; add its name to names.yaml"
        )
    return instruction.replace("{language}", names[language])


def prompt_limit(
    model: "PreTrainedModel", max_new_tokens: int, most: int | None = None
) -> int | None:
    """Maximum tokens of a prompt, given the new tokens and the limit `most`; None: no limit."""
    positions = positions_of(model)
    limits = [most] if positions is None else [most, positions - max_new_tokens]
    return min((limit for limit in limits if limit is not None), default=None)


class NoRoomError(Exception):
    """The prompt of the text with index `at` is too long even without the text."""

    def __init__(self, at: int):
        self.at = at


def fit_texts(
    tokenizer: "PreTrainedTokenizerFast",
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
            places = [start for start, _ in encoded["offset_mapping"] if begin < start < end]
            excess = length - limit
            text = text[: places[-excess] - begin].rstrip() if excess <= len(places) else ""
            if not text:
                raise NoRoomError(len(fitting))
            length = len(tokenizer(text.join(frame), verbose=False)["input_ids"])
        fitting.append(text)
    return fitting


class ArticlePrompts(NamedTuple):
    """Prompts to summarize articles."""

    texts: list[str]
    articles: list[str]  # as they appear in the prompts
    before: str  # the text before all examples, which is not in `texts`
    frame: tuple[str, str]  # the texts before and after each article
    limit: int  # maximum number of tokens of a prompt
    cut: int  # number of truncated articles


def article_prompts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
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
    before, frame = summarization_frame(job["inputs"]["prompts"], job["language"], prompt)
    whole = (before + frame[0], frame[1])
    try:
        fitting = fit_texts(tokenizer, articles, [whole] * len(articles), limit)
    except NoRoomError:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"an article (max_prompt_tokens {max_prompt_tokens}; the model's context is "
            f"{positions_of(model)} tokens, {max_new_tokens} of them new); change these or remove "
            "the task"
        ) from None
    cut = sum(one != other for one, other in zip(articles, fitting, strict=True))
    texts = [text.join(frame) for text in fitting]
    return ArticlePrompts(texts, fitting, before, frame, limit, cut)


def read_test_set(job: dict[str, Any], part: str, language: str | None = None) -> list[Row] | None:
    """The rows of a task's own `tests` or `shots`; None if it uses those of the corpus.

    `language` selects a language if the task has several.
    """
    folders = job["inputs"].get("test_sets", {}).get(part)
    if not folders:
        return None
    folder = folders[language] if language else next(iter(folders.values()))
    return [json.loads(line) for line in read_lines(Path(folder) / TEST_SET)]


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
    every = tests if pool is None else pool
    if len(every) < shots:
        raise UserError(f"{where} is {shots}, but there are only {len(every)} examples; lower it")
    drawn = every[:shots] if first else draw(every, shots, job, f"shots {language}".strip())
    taken = {letters(row[key]) for row in drawn for key in texts}
    left = [row for row in tests if taken.isdisjoint(letters(row[key]) for key in texts)]
    if not left:
        raise UserError(
            f"{where}: {shots} examples leave none of {len(tests)} tests; lower it, or take the "
            "examples from a separate text (examples.shots)"
        )
    return drawn, left


class FewShotPrompts(NamedTuple):
    """Prompts that begin with examples."""

    texts: list[str]  # the complete prompts
    shots: list[int]  # number of examples in each prompt: the last ones of `examples`
    examples: list[str]  # as they appear in a prompt, including the line feeds after them
    before: str = ""  # the text before all examples

    def details(self, ids: list[str]) -> dict[str, Any]:
        """Details of a record: the examples, which complete the `prompt` of its predictions."""
        before = {"before_examples": self.before} if self.before else {}
        if not self.examples:
            return before
        return before | {
            "examples": [
                {"id": name, "text": text} for name, text in zip(ids, self.examples, strict=True)
            ],
            "prompts_with_fewer_shots": sum(count < len(self.examples) for count in self.shots),
            "shots_per_prompt": sum(self.shots) / len(self.shots),
        }


def few_shot_prompts(
    tokenizer: "PreTrainedTokenizerFast",
    queries: list[str],
    answered: Sequence[tuple[str, str]],
    limit: int | None,
    before: str = "",
    between: str = BETWEEN,
) -> FewShotPrompts:
    """Prompts that begin with examples; the first examples are dropped if they do not fit.

    Examples are `answered` prompts, whose answers are put on one line, after a space, and followed
    by `between`. A prompt that exceeds the token limit (including special tokens) even without
    examples is not changed. `before` is the beginning of each prompt.
    """
    examples = [
        f"{query.removesuffix(' ')} {' '.join(answer.split())}{between}"
        for query, answer in answered
    ]
    shots = [len(examples)] * len(queries)
    texts = ["".join([before, *examples, query]) for query in queries]
    if examples and limit is not None:
        limit -= len(start_ids(tokenizer))
        for at, ids in enumerate(tokenizer(texts, verbose=False)["input_ids"]):
            length = len(ids)
            while length > limit and shots[at]:
                shots[at] -= 1
                left = examples[len(examples) - shots[at] :]
                texts[at] = "".join([before, *left, queries[at]])
                length = len(tokenizer(texts[at], verbose=False)["input_ids"])
    return FewShotPrompts(texts, shots, examples, before)
