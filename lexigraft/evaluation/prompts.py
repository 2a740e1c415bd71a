"""Builds prompts from config/prompts: one file a task, with instructions in the target language."""

from pathlib import Path
from typing import Any

from lexigraft.errors import UserError


def translation_prompts(folder: str | Path, language: str, sources: list[str]) -> list[str]:
    """One zero-shot prompt per English sentence, as in paper 000, Table 8.

    Parameters
    ----------
    folder
        Holds `translation.yaml` (`template`, `instructions` by language code and
        `default_instruction` for other languages) and `names.yaml` (their English names).
    language
        ISO 639 code, the `code` of config/languages.yaml.

    Raises
    ------
    UserError
        The language has neither an instruction nor a name.
    """
    prompts = _read(folder, "translation")
    instruction = prompts["instructions"].get(language)
    if instruction is None:
        instruction = _in_english(prompts["default_instruction"], folder, language)
    return _asking(prompts["template"].replace("{instruction}", instruction), sources)


def into_english_prompts(folder: str | Path, language: str, sources: list[str]) -> list[str]:
    """The same for translations into English, asked for in English.

    Parameters
    ----------
    language
        The English name of the sentences' language.
    """
    prompts = _read(folder, "translation")
    instruction = prompts["into_english"].replace("{language}", language)
    return _asking(prompts["template"].replace("{instruction}", instruction), sources)


def named_prompts(
    folder: str | Path, source_language: str, target_language: str, sources: list[str]
) -> list[str]:
    """Each sentence behind its language's name, then the other language's (paper 001's code).

    Parameters
    ----------
    source_language, target_language
        English names.
    """
    template = _read(folder, "translation")["names"]
    template = template.replace("{source_language}", source_language)
    return _asking(template.replace("{target_language}", target_language), sources)


def summarization_frame(
    folder: str | Path, language: str, form: str = "summary"
) -> tuple[str, str]:
    """What stands before and after an article in a zero-shot prompt, as in paper 000, Table 8.

    Parameters
    ----------
    folder
        Holds `summarization.yaml` (`template`, `languages`: code -> `instruction`,
        `article_label` and `summary_label`, `default` for other languages, and `title`) and
        `names.yaml`.
    language
        ISO 639 code.
    form
        `summary`, or `title`: a headline, which is asked for in English.

    Raises
    ------
    UserError
        The language has neither an entry nor a name.
    """
    prompts = _read(folder, "summarization")
    words = prompts["languages"].get(language) if form == "summary" else None
    if words is None:
        words = dict(prompts["default" if form == "summary" else "title"])
        words["instruction"] = _in_english(words["instruction"], folder, language)
    template = prompts["template"]
    for key, word in words.items():
        template = template.replace(f"{{{key}}}", word)
    before, after = template.split("{article}")
    return before, after


def question_frame(folder: str | Path, language: str) -> tuple[str, str, str]:
    """What stands before a context, between it and a question, and after the question.

    Parameters
    ----------
    folder
        Holds `question_answering.yaml`: `template`, and `languages`: code -> `context_label`,
        `question_label` and `answer_label`; English ones serve languages without an entry.
    language
        ISO 639 code.
    """
    prompts = _read(folder, "question_answering")
    template = prompts["template"]
    for key, word in prompts["languages"].get(language, prompts["languages"]["en"]).items():
        template = template.replace(f"{{{key}}}", word)
    before, rest = template.split("{context}")
    between, after = rest.split("{question}")
    return before, between, after


def _asking(template: str, sources: list[str]) -> list[str]:
    # Not str.format: a sentence may hold braces, as the texts of interfaces do.
    before, after = template.split("{source}")
    return [before + source + after for source in sources]


def _read(folder: str | Path, name: str) -> Any:
    import yaml

    return yaml.safe_load((Path(folder) / f"{name}.yaml").read_text(encoding="utf-8"))


def _in_english(instruction: str, folder: str | Path, language: str) -> str:
    names = _read(folder, "names")["names"]
    if language not in names:
        raise UserError(
            f"{folder}: language '{language}' has neither an instruction of its own nor an English "
            "name; add its name to names.yaml"
        )
    return instruction.replace("{language}", names[language])
