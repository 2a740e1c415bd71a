"""Prompts built from config/prompts: examples before them, texts shortened to fit the model."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.corpus.contamination import letters
from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.sample_file import TEST_SET
from lexigraft.errors import UserError, unknown
from lexigraft.evaluation.texts import draw
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The folder of prompts, or those files of it that a task reads, by name.
Files = str | Path | Mapping[str, str]
Row = dict[str, Any]

# An empty line ends an example; what a model writes ends with its first line already.
BETWEEN = "\n\n"
# The prompts that are made for each language; all others are entries of `named`.
INSTRUCTION = "instruction"
LABELS = "labels"


def translation_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """One zero-shot prompt per English sentence, as in Yamaguchi et al., Table 8.

    Of the files are read `translation.yaml` (`template`, `instructions` by ISO 639 code and
    `default_instruction` for other languages) and `names.yaml` (their English names). Raises
    `UserError` if the language has neither an instruction nor a name.
    """
    prompts = _read(files, "translation")
    instruction = prompts["instructions"].get(language)
    if instruction is None:
        instruction = _in_english(prompts["default_instruction"], files, language)
    return _fill(prompts["template"], sources, instruction=instruction)


def into_english_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """The same for translations into English, asked for in English; `language` is a name."""
    prompts = _read(files, "translation")
    instruction = prompts["into_english"].replace("{language}", language)
    return _fill(prompts["template"], sources, instruction=instruction)


def named_translation_prompts(
    files: Files, name: str, language: str, into: str, sources: list[str]
) -> tuple[str, list[str]]:
    """What stands once before all examples, and a prompt per sentence; of an entry of `named`.

    `language` and `into` are the English names of both languages. Raises `UserError` if
    `translation.yaml` has no such entry.
    """
    words = {"source_language": language, "target_language": into}
    before, template = _named(files, "translation", name, words)
    return before, _fill(template, sources)


def summarization_frame(
    files: Files, language: str, prompt: str = INSTRUCTION
) -> tuple[str, tuple[str, str]]:
    """What stands once before all examples, and what stands before and after each article.

    Of the files are read `summarization.yaml` and `names.yaml`. `prompt` is `instruction`, a
    zero-shot prompt in the language (Yamaguchi et al., Table 8) made of `template` and `languages`
    (ISO 639 code -> `instruction`, `article_label` and `summary_label`; `default` for others); or
    an entry of `named`. Raises `UserError` if there is no such entry, or if the language has
    neither an entry nor a name.
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
    """What stands once before all examples, and before a context, between it and a question, after.

    Of the files is read `question_answering.yaml`. `prompt` is `labels`, made of `template` and
    `languages`: ISO 639 code -> `context_label`, `question_label` and `answer_label`, where English
    ones serve other languages; or an entry of `named`. Raises `UserError` if there is no such
    entry.
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


def _named(files: Files, file: str, name: str, words: Mapping[str, str]) -> tuple[str, str]:
    """`before` and `template` of an entry of `named`, with these words filled in."""
    named = _read(files, file)["named"]
    if name not in named:
        where = f"config/tasks.yaml: prompt of a task, in config/prompts/{file}.yaml"
        raise unknown(where, name, named)
    entry = named[name]
    return _replaced(entry.get("before", ""), words), _replaced(entry["template"], words)


def _replaced(template: str, words: Mapping[str, str]) -> str:
    # Not str.format: a sentence may hold braces, as the texts of interfaces do.
    for key, word in words.items():
        template = template.replace(f"{{{key}}}", word)
    return template


def _fill(template: str, sources: list[str], **words: str) -> list[str]:
    frame = _replaced(template, words).split("{source}")
    return [source.join(frame) for source in sources]


def _read(files: Files, name: str) -> Any:
    import yaml

    file = files[name] if isinstance(files, Mapping) else Path(files, f"{name}.yaml")
    return yaml.safe_load(Path(file).read_text(encoding="utf-8"))


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
    """Tokens that a prompt may have beside the new ones, and `most` at most; None: any number."""
    positions = positions_of(model)
    limits = [most] if positions is None else [most, positions - max_new_tokens]
    return min((limit for limit in limits if limit is not None), default=None)


class NoRoomError(Exception):
    """Even without anything of a text, the one with the number `at`, its prompt is too long."""

    def __init__(self, at: int):
        self.at = at


def fit_texts(
    tokenizer: "PreTrainedTokenizerFast",
    texts: Sequence[str],
    frames: Sequence[tuple[str, str]],
    limit: int,
) -> list[str]:
    """As much of each text as fits in a prompt of `limit` tokens between the parts of its frame.

    A text is cut at its end, where a token begins. Raises `NoRoomError` if nothing of one fits.
    """
    prompts = [text.join(frame) for text, frame in zip(texts, frames, strict=True)]
    lengths = [len(ids) for ids in tokenizer(prompts, verbose=False)["input_ids"]]
    fitting: list[str] = []
    for text, frame, length in zip(texts, frames, lengths, strict=True):
        # Tokens change where the text is cut, so the rest is counted again, until it fits.
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
    articles: list[str]  # as they stand in the prompts
    before: str  # what stands once before all examples, and is not in `texts`
    frame: tuple[str, str]  # what stands before and after each
    limit: int  # tokens that a prompt may have at most
    cut: int  # how many articles are shorter than they were


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
    """Prompts of at most `max_prompt_tokens`, special tokens included (Yamaguchi et al., C.2).

    Where the model's context is shorter than that and `max_new_tokens` together, a prompt has as
    many tokens less: Llama 2 has 4,096 positions for both. A vocabulary that needs fewer tokens
    sees more of an article. `prompt` is how it is asked for, see `summarization_frame`. Raises
    `UserError` if the limit leaves no room for an article.
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
            f"an article (max_prompt_tokens {max_prompt_tokens}; the model holds "
            f"{positions_of(model)} tokens, {max_new_tokens} of them new); change these or leave "
            "the task out"
        ) from None
    cut = sum(one != other for one, other in zip(articles, fitting, strict=True))
    texts = [text.join(frame) for text in fitting]
    return ArticlePrompts(texts, fitting, before, frame, limit, cut)


def read_test_set(job: dict[str, Any], part: str, language: str | None = None) -> list[Row] | None:
    """The rows of a task's own `tests` or `shots`; None if it has none, and takes the corpus's.

    Of one language, unless the task queries in one only.
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
    """Draw the examples of a run, and leave out tests that have a text in common with one.

    All prompts of a run, and of all cells, begin with the same examples: differences between cells
    are then paired, and a model reads them once. Another run draws others; with `first`, every run
    takes the first ones. Examples come from the task's own `shots` (`read_test_set`), or from the
    tests. `texts` are keys of a row's texts, by which two rows are alike; case, digits and
    punctuation aside. `language` names the draw where a run has several. Raises `UserError` if
    there are fewer examples than asked for, or no tests beside them.
    """
    if not shots:
        return [], tests
    where = f"config/tasks.yaml: task '{job['task']}': shots"
    pool = read_test_set(job, "shots", language or None)
    every = tests if pool is None else pool
    if len(every) < shots:
        raise UserError(f"{where} is {shots}, but there are {len(every)} examples; change it")
    drawn = every[:shots] if first else draw(every, shots, job, f"shots {language}".strip())
    taken = {letters(row[key]) for row in drawn for key in texts}
    left = [row for row in tests if taken.isdisjoint(letters(row[key]) for key in texts)]
    if not left:
        raise UserError(
            f"{where}: beside {shots} examples nothing is left of {len(tests)} to test; lower it, "
            "or take the examples from a text of their own (examples.shots)"
        )
    return drawn, left


class FewShotPrompts(NamedTuple):
    """Prompts that begin with examples."""

    texts: list[str]  # as a whole
    shots: list[int]  # how many examples each begins with: the last ones of `examples`
    examples: list[str]  # as they stand in a prompt, the line feeds behind them included
    before: str = ""  # what stands once before them

    def details(self, ids: list[str]) -> dict[str, Any]:
        """Of a record: the examples, by which its predictions' `prompt` and `shots` are whole."""
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
) -> FewShotPrompts:
    """Prompts that begin with examples, without the first ones where they would not fit.

    Examples are `answered` prompts, whose answers are brought onto one line, behind a space. A
    prompt that exceeds the limit of tokens, special ones included, without any example is left as
    it is. `before` stands once at the beginning of each.
    """
    examples = [
        f"{query.removesuffix(' ')} {' '.join(answer.split())}{BETWEEN}"
        for query, answer in answered
    ]
    shots = [len(examples)] * len(queries)
    texts = ["".join([before, *examples, query]) for query in queries]
    if examples and limit is not None:
        for at, ids in enumerate(tokenizer(texts, verbose=False)["input_ids"]):
            length = len(ids)
            while length > limit and shots[at]:
                shots[at] -= 1
                left = examples[len(examples) - shots[at] :]
                texts[at] = "".join([before, *left, queries[at]])
                length = len(tokenizer(texts[at], verbose=False)["input_ids"])
    return FewShotPrompts(texts, shots, examples, before)
