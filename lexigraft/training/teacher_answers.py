"""Sentence-level distillation: a teacher answers prompts, and its answers become samples.

UnifyVocab, Table 3, compares it with token-level distillation: the model is trained on the
teacher's continuations of the prompts of task samples. It needs no common vocabulary.
"""

import logging
import math
from pathlib import Path
from typing import Any

from lexigraft.corpus.sample_file import read_samples, write_samples
from lexigraft.errors import UserError
from lexigraft.hardware import device, precision
from lexigraft.inference.generation import generate
from lexigraft.inference.text_encoding import encode
from lexigraft.source.model import load_model, open_source
from lexigraft.source.positions import positions_of

logger = logging.getLogger(__name__)


def answer_samples(
    prompts: str | Path,
    teacher: str | Path,
    folder: str | Path,
    *,
    max_new_tokens: int,
    batch_size: int | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Write samples with the teacher's answers: greedy, up to the end of a line or text.

    Empty answers, answers that are not finished after `max_new_tokens` (they would teach the model
    to stop anywhere), and prompts that do not fit into the teacher's context are left out. A prompt
    that occurs several times is answered once.

    `prompts` is a `samples.jsonl` (see `corpus.sample_file`), whose answers the teacher does not
    read, and `teacher` a source model under `results/source/`. `samples.jsonl` is written into
    `folder`.

    Returns the files written, and counts for the card: all `prompts`, and those left out as
    `too_long`, `empty` and `unfinished`. Raises a UserError if no answer is left.
    """
    source = open_source(teacher)
    tokenizer = source.tokenizer()
    model = load_model(source.folder, precision(), device())
    samples = []  # what the teacher reads, the prompt, and the whitespace between it and the answer
    for prompt, answer in dict(read_samples(prompts)).items():
        between = answer[: len(answer) - len(answer.lstrip())]
        # The teacher generates a separating space itself, since tokens begin with one, but not a
        # line feed, which would end the answer.
        samples.append((prompt + between if "\n" in between else prompt, prompt, between))
    texts = [text for text, _, _ in samples]
    limit = positions_of(model) or math.inf
    fitting = {
        str(number): text
        for number, (text, ids) in enumerate(zip(texts, encode(tokenizer, texts), strict=True))
        if len(ids) + max_new_tokens <= limit
    }
    options: Any = {"max_new_tokens": max_new_tokens, "batch_size": batch_size}
    answers = generate(model, tokenizer, fitting, **options)
    facts = {
        "prompts": len(samples),
        "too_long": len(samples) - len(fitting),
        "empty": sum(answer.finished and not answer.text for answer in answers.values()),
        "unfinished": sum(not answer.finished for answer in answers.values()),
    }
    logger.info("%s answers: %s", source.name, facts)
    answered = [
        (samples[int(number)][1], samples[int(number)][2] + answer.text)
        for number, answer in answers.items()
        if answer.finished and answer.text
    ]
    if not answered:
        raise UserError(
            f"samples.teacher: {source.name} gave no complete answer to any of {len(samples)} "
            f"prompts ({facts}); raise max_new_tokens, or specify another teacher"
        )
    return write_samples(folder, answered), facts
