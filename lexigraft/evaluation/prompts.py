"""Fill the prompts of config/prompts with the texts of tasks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.corpus.sample_file import ENGLISH, translation_prompt
from lexigraft.errors import UserError, unknown
from lexigraft.yaml_files import read_yaml

# The folder of prompts, or the files in it that a task reads, by name.
Files = str | Path | Mapping[str, str]

# What ends an example unless a named prompt has `between`; a model's output ends at its first line
# feed.
BETWEEN = "\n\n"
# The prompts that exist in each language; all others are entries of `named`.
INSTRUCTION = "instruction"
LABELS = "labels"


def translation_queries(
    job: Mapping[str, Any], prompt: str, sentences: list[str], *, into_english: bool
) -> tuple[str, list[str]]:
    """The text before all examples, and one prompt for each sentence.

    `prompt` is `instruction` (Yamaguchi et al., Table 8), `alma` (the prompt of training samples),
    or an entry of `named` in translation.yaml. Raises `UserError` if there is no such entry.
    """
    files, name = job["inputs"]["prompts"], job["language_name"]
    source, target = (name, ENGLISH) if into_english else (ENGLISH, name)
    if prompt == "alma":
        return "", [translation_prompt(source, target, sentence) for sentence in sentences]
    if prompt == INSTRUCTION:
        if into_english:
            return "", into_english_prompts(files, name, sentences)
        return "", translation_prompts(files, job["language"], sentences)
    words = {"source_language": source, "target_language": target}
    prompt_start, template = _named(files, "translation", prompt, words)
    return prompt_start, _fill(template, sentences)


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
        prompt_start, template = _named(files, "summarization", prompt, words)
    else:
        words = prompts["languages"].get(language)
        if words is None:
            words = dict(prompts["default"])
            words["instruction"] = _in_english(words["instruction"], files, language)
        prompt_start, template = "", _replaced(prompts["template"], words)
    before, after = template.split("{article}")
    return prompt_start, (before, after)


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
        prompt_start, template = _named(files, "question_answering", prompt, {})
    else:
        words = prompts["languages"].get(language, prompts["languages"]["en"])
        prompt_start, template = "", _replaced(prompts["template"], words)
    before, remainder = template.split("{context}")
    between, after = remainder.split("{question}")
    return prompt_start, (before, between, after)


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
