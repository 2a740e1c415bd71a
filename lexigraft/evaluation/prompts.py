"""Prompts in the target language, built from config/prompts and shortened to fit the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The folder of prompts, or those files of it that a task reads, by name.
Files = str | Path | Mapping[str, str]


def translation_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """One zero-shot prompt per English sentence, as in Yamaguchi et al., Table 8.

    Parameters
    ----------
    files
        Of these are read `translation.yaml` (`template`, `instructions` by language code and
        `default_instruction` for other languages) and `names.yaml` (their English names).
    language
        ISO 639 code, the `code` of config/languages.yaml.

    Raises
    ------
    UserError
        The language has neither an instruction nor a name.
    """
    prompts = _read(files, "translation")
    instruction = prompts["instructions"].get(language)
    if instruction is None:
        instruction = _in_english(prompts["default_instruction"], files, language)
    return _fill(prompts["template"].replace("{instruction}", instruction), sources)


def into_english_prompts(files: Files, language: str, sources: list[str]) -> list[str]:
    """The same for translations into English, asked for in English.

    Parameters
    ----------
    language
        The English name of the sentences' language.
    """
    prompts = _read(files, "translation")
    instruction = prompts["into_english"].replace("{language}", language)
    return _fill(prompts["template"].replace("{instruction}", instruction), sources)


def named_prompts(
    files: Files, source_language: str, target_language: str, sources: list[str]
) -> list[str]:
    """Each sentence behind its language's name, then the other language's (VocADT's code).

    Parameters
    ----------
    source_language, target_language
        English names.
    """
    template = _read(files, "translation")["names"]
    template = template.replace("{source_language}", source_language)
    return _fill(template.replace("{target_language}", target_language), sources)


def summarization_frame(files: Files, language: str, form: str = "summary") -> tuple[str, str]:
    """What stands before and after an article in a zero-shot prompt.

    As in Yamaguchi et al., Table 8.

    Parameters
    ----------
    files
        Of these are read `summarization.yaml` (`template`, `languages`: code -> `instruction`,
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
    prompts = _read(files, "summarization")
    words = prompts["languages"].get(language) if form == "summary" else None
    if words is None:
        words = dict(prompts["default" if form == "summary" else "title"])
        words["instruction"] = _in_english(words["instruction"], files, language)
    template = prompts["template"]
    for key, word in words.items():
        template = template.replace(f"{{{key}}}", word)
    before, after = template.split("{article}")
    return before, after


def question_frame(files: Files, language: str) -> tuple[str, str, str]:
    """What stands before a context, between it and a question, and after the question.

    Parameters
    ----------
    files
        Of these is read `question_answering.yaml`: `template`, and `languages`: code ->
        `context_label`, `question_label` and `answer_label`; English ones serve languages without
        an entry.
    language
        ISO 639 code.
    """
    prompts = _read(files, "question_answering")
    template = prompts["template"]
    for key, word in prompts["languages"].get(language, prompts["languages"]["en"]).items():
        template = template.replace(f"{{{key}}}", word)
    before, rest = template.split("{context}")
    between, after = rest.split("{question}")
    return before, between, after


def _fill(template: str, sources: list[str]) -> list[str]:
    # Not str.format: a sentence may hold braces, as the texts of interfaces do.
    before, after = template.split("{source}")
    return [before + source + after for source in sources]


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


@dataclass(frozen=True)
class ArticlePrompts:
    """Prompts to summarize articles.

    Attributes
    ----------
    texts
        The prompts.
    articles
        The articles as they stand in the prompts.
    limit
        Tokens that a prompt may have at most.
    cut
        How many articles are shorter than they were.
    """

    texts: list[str]
    articles: list[str]
    limit: int
    cut: int


def article_prompts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    articles: list[str],
    *,
    max_prompt_tokens: int,
    max_new_tokens: int,
    form: str = "summary",
) -> ArticlePrompts:
    """Prompts of at most `max_prompt_tokens`, special tokens included.

    As in Yamaguchi et al., Appendix C.2.

    Where the model's context is shorter than that and `max_new_tokens` together, a prompt has as
    many tokens less: Llama 2 has 4,096 positions for both. A vocabulary that needs fewer tokens
    sees more of an article. `form` is what is asked for, see `summarization_frame`.

    Raises
    ------
    UserError
        The limit leaves no room for an article.
    """
    positions = positions_of(model)
    limit = max_prompt_tokens
    if positions is not None:
        limit = min(limit, positions - max_new_tokens)
    frame = summarization_frame(job["inputs"]["prompts"], job["language"], form)
    prompts = [article.join(frame) for article in articles]
    lengths = [len(ids) for ids in tokenizer(prompts, verbose=False)["input_ids"]]
    try:
        fitting = [
            article if length <= limit else truncate_article(tokenizer, article, frame, limit)
            for article, length in zip(articles, lengths, strict=True)
        ]
    except NoRoomError:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"an article (max_prompt_tokens {max_prompt_tokens}; the model holds {positions} "
            f"tokens, {max_new_tokens} of them new); change these or leave the task out"
        ) from None
    return ArticlePrompts(
        texts=[article.join(frame) for article in fitting],
        articles=fitting,
        limit=limit,
        cut=sum(one != other for one, other in zip(articles, fitting, strict=True)),
    )


class NoRoomError(Exception):
    """Even without any article the prompt is too long."""


def truncate_article(
    tokenizer: "PreTrainedTokenizerFast", article: str, frame: tuple[str, str], limit: int
) -> str:
    """The beginning of an article that fits between the parts of a frame, cut where a token begins.

    Tokens change where the text is cut, so the rest is counted again, until it fits.

    Raises
    ------
    NoRoomError
        Nothing of it fits.
    """
    begin = len(frame[0])
    while True:
        encoded = tokenizer(article.join(frame), return_offsets_mapping=True, verbose=False)
        excess = len(encoded["input_ids"]) - limit
        if excess <= 0:
            return article
        end = begin + len(article)
        places = [start for start, _ in encoded["offset_mapping"] if begin < start < end]
        article = article[: places[-excess] - begin].rstrip() if excess <= len(places) else ""
        if not article:
            raise NoRoomError
