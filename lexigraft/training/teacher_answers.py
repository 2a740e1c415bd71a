"""Sentence-level distillation: a teacher answers prompts, and its answers become samples.

UnifyVocab, Table 3, compares it with token-level distillation: the model is trained on the
teacher's continuations of the prompts of task samples. It needs no common vocabulary.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.corpus.sample_file import read_samples, write_samples
from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.inference.generation import generate
from lexigraft.provenance import sha256_of
from lexigraft.source.model import load_model, load_tokenizer, open_source
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)


def answer_samples(
    prompts: str | Path,
    teacher: str | Path,
    folder: str | Path,
    *,
    max_new_tokens: int,
    batch_size: int,
    code: str | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write samples whose answers are the teacher's: greedy, up to the end of a line or text.

    Empty answers, answers that are not finished after `max_new_tokens` (they would teach to stop
    anywhere), and prompts that do not fit the teacher's context are left out. A prompt that occurs
    several times is answered once.

    Parameters
    ----------
    prompts
        A `samples.jsonl`, see `sample_file`; the teacher does not read its answers.
    teacher
        A source model under `results/source/`.
    folder
        For `samples.jsonl`; an interrupted run resumes from the answers in it.
    code
        Digest of the running code: answers of other code are not reused.

    Returns
    -------
    files, facts
        The file written, and what the card says: how many `prompts` there were, and how many were
        left out as `too_long`, `empty` and `unfinished`.

    Raises
    ------
    UserError
        No answer is left.
    """
    source = open_source(teacher)
    model, tokenizer = load_model(source.folder, precision()), load_tokenizer(source.folder)
    model.to(device())  # type: ignore[arg-type]  # a decorator hides that it is a method
    samples = [_split_sample(*sample) for sample in dict(read_samples(prompts)).items()]
    texts = {str(number): text for number, (text, _, _) in enumerate(samples)}
    fitting = _fitting(model, tokenizer, texts, max_new_tokens)
    partial = Path(folder) / "answers.partial.jsonl"
    answers = generate(
        model,
        tokenizer,
        fitting,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        partial=partial,
        identity=f"{sha256_of(Path(teacher) / 'card.json')} {code} {model.dtype}",
    )
    facts = {
        "prompts": len(samples),
        "too_long": len(samples) - len(fitting),
        "empty": sum(answer.finished and not answer.text for answer in answers.values()),
        "unfinished": sum(not answer.finished for answer in answers.values()),
    }
    logger.info("%s answers: %s", source.name, facts)
    answered = [
        (prompt, between + answers[str(number)].text)
        for number, (_, prompt, between) in enumerate(samples)
        if str(number) in answers and answers[str(number)].finished and answers[str(number)].text
    ]
    if not answered:
        raise UserError(
            f"samples.teacher: {source.name} has no whole answer to any of {len(samples)} prompts "
            f"({facts}); raise max_new_tokens, or name another teacher"
        )
    files = write_samples(folder, answered)
    partial.unlink()
    return files, facts


def _split_sample(prompt: str, answer: str) -> tuple[str, str, str]:
    """What the teacher reads, the prompt, and the whitespace between prompt and answer.

    The teacher generates a separating space itself, since tokens begin with one, but not a line
    feed, where answers end.
    """
    between = answer[: len(answer) - len(answer.lstrip())]
    return (prompt + between if "\n" in between else prompt), prompt, between


def _fitting(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    texts: dict[str, str],
    max_new_tokens: int,
) -> dict[str, str]:
    """The texts whose answers still fit the model's context."""
    limit = positions_of(model)
    if limit is None:
        return texts
    lengths = map(len, tokenizer(list(texts.values()), verbose=False)["input_ids"])
    return {
        name: text
        for (name, text), length in zip(texts.items(), lengths, strict=True)
        if length + max_new_tokens <= limit
    }
