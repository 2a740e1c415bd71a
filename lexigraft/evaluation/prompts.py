"""Build prompts: texts in the templates of config/prompts, after examples, cut to fit."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.corpus.sample_file import ENGLISH, translation_prompt
from lexigraft.errors import UserError, unknown
from lexigraft.source.document_start import start_ids
from lexigraft.source.positions import answer_room, positions_of
from lexigraft.yaml_files import read_yaml

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

# The prompts that exist in each language; all others are entries of `named`.
INSTRUCTION, LABELS = "instruction", "labels"


class Frame(NamedTuple):
    """The text of a prompt without what is filled in."""

    start: str  # before all examples
    parts: tuple[str, ...]  # around the texts that are filled in
    between: str = "\n\n"  # after each example; a model's output ends at its first line feed

    def fill(self, *texts: str) -> str:
        """The prompt of texts, without the `start`."""
        return "".join(part + text for part, text in zip(self.parts, (*texts, ""), strict=True))

    def around(self, *later_texts: str) -> tuple[str, str]:
        """The prompt before and after its first text, with the `start`."""
        return self.start + self.parts[0], self._replace(parts=self.parts[1:]).fill(*later_texts)


class FewShotPrompts(NamedTuple):
    """Prompts that begin with examples."""

    texts: list[str]  # the complete prompts
    shots: list[int]  # number of examples in each prompt: the last ones
    details: dict[str, Any]  # for the record: the examples, which complete its predictions


# ---- templates ---------------------------------------------------------------------------------


def translation_frame(job: Mapping[str, Any], prompt: str, *, into_english: bool) -> Frame:
    """The frame around a sentence.

    `prompt` is `instruction`, zero-shot in the target language (Yamaguchi et al., Table 8), `alma`
    (the prompt of training samples), or an entry of `named` in translation.yaml. Raises `UserError`
    if there is no such entry, or if the language has neither an instruction nor a name.
    """
    name = job["language_name"]
    source, target = (name, ENGLISH) if into_english else (ENGLISH, name)
    if prompt == "alma":
        return Frame("", tuple(translation_prompt(source, target, "{source}").split("{source}")))
    words = {"source_language": source, "target_language": target}
    if prompt == INSTRUCTION:
        instructions = _read(job, "translation")
        instruction = instructions["instructions"].get(job["language"])
        if into_english:
            instruction = instructions["into_english"].replace("{language}", name)
        elif instruction is None:
            instruction = _in_english(job, instructions["default_instruction"])
        words = {"instruction": instruction}
    return _frame(job, "translation", prompt, words, ["source"])


def summarization_frame(job: Mapping[str, Any], prompt: str = INSTRUCTION) -> Frame:
    """The frame around an article; see `translation_frame`."""
    if prompt != INSTRUCTION:
        words = {"language": _in_english(job, "{language}")}
    else:
        prompts = _read(job, "summarization")
        words = prompts["languages"].get(job["language"])
        if words is None:
            instruction = _in_english(job, prompts["default"]["instruction"])
            words = {**prompts["default"], "instruction": instruction}
    return _frame(job, "summarization", prompt, words, ["article"])


def question_frame(job: Mapping[str, Any], language: str, prompt: str = LABELS) -> Frame:
    """The frame around a context and its question.

    `prompt` is `labels`, in a language or else in English, or an entry of `named` in
    question_answering.yaml. Raises `UserError` if there is no such entry.
    """
    labels = _read(job, "question_answering")["languages"]
    words = labels.get(language, labels["en"])
    return _frame(job, "question_answering", prompt, words, ["context", "question"])


def _frame(
    job: Mapping[str, Any], file: str, prompt: str, words: Mapping[str, str], slots: list[str]
) -> Frame:
    prompts = _read(job, file)
    entry, named = prompts, prompts["named"]
    if prompt not in (INSTRUCTION, LABELS):
        if prompt not in named:
            where = f"config/tasks.yaml: prompt of a task, in config/prompts/{file}.yaml"
            raise unknown(where, prompt, named)
        entry = named[prompt]
    start, template = entry.get("before", ""), entry["template"]
    for key, word in words.items():
        start, template = (text.replace(f"{{{key}}}", word) for text in (start, template))
    parts = []
    for slot in slots:
        before, template = template.split(f"{{{slot}}}")
        parts.append(before)
    between = named.get(prompt, {}).get("between", "\n\n")
    return Frame(start, (*parts, template), between)


def _read(job: Mapping[str, Any], name: str) -> Any:
    """A file of prompts; a job names their folder, or each file that its task reads."""
    files = job["inputs"]["prompts"]
    return read_yaml(files[name] if isinstance(files, Mapping) else Path(files, f"{name}.yaml"))


def _in_english(job: Mapping[str, Any], instruction: str) -> str:
    names, language = _read(job, "names")["names"], job["language"]
    if language not in names:
        raise UserError(
            f"config/prompts: language '{language}' has neither an instruction of its own nor an "
            "English name; add its name to names.yaml"
        )
    return instruction.replace("{language}", names[language])


# ---- examples, and texts shortened to fit ------------------------------------------------------


def prompt_limit(model: "PreTrainedModel", settings: Any) -> int | None:
    """Maximum tokens of a prompt, so that it fits with its new tokens; None: no limit."""
    positions, most = positions_of(model), getattr(settings, "max_prompt_tokens", None)
    beyond = getattr(settings, "beyond_context", False)
    room = answer_room(model, settings.max_new_tokens, beyond)
    limits = [most, None if positions is None else positions - room]
    return min((limit for limit in limits if limit is not None), default=None)


def few_shot_prompts(
    tokenizer: "PreTrainedTokenizerFast",
    frame: Frame,
    queries: list[str],
    examples: Sequence[tuple[str, str, str]],
    limit: int | None,
) -> FewShotPrompts:
    """Prompts that begin with examples; the first examples are dropped if they do not fit.

    `examples` are ids, prompts and answers, which are put on one line, after a space. A prompt that
    exceeds the token limit (including special tokens) even without examples is not changed.
    """
    blocks = [
        f"{query.removesuffix(' ')} {' '.join(answer.split())}{frame.between}"
        for _, query, answer in examples
    ]
    shots = [len(blocks)] * len(queries)
    texts = ["".join([frame.start, *blocks, query]) for query in queries]
    if blocks and limit is not None:
        limit -= len(start_ids(tokenizer))
        for index, ids in enumerate(tokenizer(texts, verbose=False)["input_ids"]):
            length = len(ids)
            while length > limit and shots[index]:
                shots[index] -= 1
                last = blocks[len(blocks) - shots[index] :]
                texts[index] = "".join([frame.start, *last, queries[index]])
                length = len(tokenizer(texts[index], verbose=False)["input_ids"])
    details: dict[str, Any] = {"before_examples": frame.start} if frame.start else {}
    if blocks:
        ids_and_blocks = zip(examples, blocks, strict=True)
        details |= {
            "examples": [{"id": name, "text": text} for (name, *_), text in ids_and_blocks],
            "prompts_with_fewer_shots": sum(count < len(blocks) for count in shots),
            "shots_per_prompt": sum(shots) / len(shots),
        }
    return FewShotPrompts(texts, shots, details)


def fit_texts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    settings: Any,
    texts: Sequence[tuple[str, str, tuple[str, str]]],
) -> tuple[list[str], int]:
    """Truncate each text so that its prompt has at most the `max_prompt_tokens` of the settings.

    Prompts are shorter if the model's context has no room for these and `max_new_tokens`: Llama 2
    has 4,096 positions for both. A vocabulary that needs fewer tokens sees more of a text, which is
    truncated at its end, before a token. `texts` are the name of each text in messages, the text,
    and the parts of the prompt around it.

    Returns the texts, and the maximum number of tokens of a prompt. Raises `UserError` if nothing
    of a text fits.
    """
    most = prompt_limit(model, settings)
    assert most is not None
    limit = most - len(start_ids(tokenizer))
    prompts = [text.join(around) for _, text, around in texts]
    lengths = [len(ids) for ids in tokenizer(prompts, verbose=False)["input_ids"]]
    fitting: list[str] = []
    for (name, text, around), length in zip(texts, lengths, strict=True):
        # Truncation changes tokens at the end, so tokens are counted again until the text fits.
        while length > limit:
            encoded = tokenizer(text.join(around), return_offsets_mapping=True, verbose=False)
            begin, end = len(around[0]), len(around[0]) + len(text)
            starts = [start for start, _ in encoded["offset_mapping"] if begin < start < end]
            excess = length - limit
            text = text[: starts[-excess] - begin].rstrip() if excess <= len(starts) else ""
            if not text:
                raise UserError(
                    f"config/tasks.yaml: task '{job['task']}': a prompt of {most} tokens has no "
                    f"room for {name} (max_prompt_tokens {settings.max_prompt_tokens}; the model's "
                    f"context is {positions_of(model)} tokens, {settings.max_new_tokens} of them "
                    "new); change these or remove the task"
                )
            length = len(tokenizer(text.join(around), verbose=False)["input_ids"])
        fitting.append(text)
    return fitting, most
