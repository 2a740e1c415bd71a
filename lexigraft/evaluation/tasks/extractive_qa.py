"""Extractive question answering (SQuAD, XQuAD), fine-tuned on English.

Contexts are encoded in windows, and the most likely span in all windows is the answer.
"""

from typing import Any, NamedTuple

from pydantic import Field

from lexigraft.errors import UserError
from lexigraft.evaluation.answers import EXACT_MATCH, F1, squad_scores
from lexigraft.evaluation.metric_kinds import Rows
from lexigraft.evaluation.task_kinds import Measurement, means, read_settings
from lexigraft.evaluation.transfer import FineTuning, Transfer, fine_tuned_task

NO_ANSWER = 0  # the token to predict for a window that does not contain the answer
_SPECIAL_TOKENS = 8  # maximum number around a question and a context


class ExtractiveQASettings(FineTuning):
    """See `FineTuning`."""

    epochs: float = Field(2, gt=0)
    learning_rate: float = Field(3e-5, gt=0)
    length: int = Field(384, ge=1)
    stride: int = Field(128, ge=0)  # tokens that two adjacent windows of a long context share
    answer_tokens: int = Field(30, ge=1)  # maximum number of tokens of an answer


def evaluate(model: Any, tokenizer: Any, job: dict[str, Any]) -> Measurement:
    """Fine-tune the cell's encoder on English questions and test it on its own language.

    `f1` and `exact_match` are means over the questions, from 0 to 100 (see `answers`). Raises
    `UserError` if the windows have no room for a context.
    """
    from transformers import AutoModelForQuestionAnswering, DataCollatorWithPadding

    settings = read_settings(ExtractiveQASettings, job)
    task = Transfer(model, job, settings)

    def windows_of(examples: Rows) -> list[Window]:
        lengths = {"length": task.length, "stride": settings.stride}
        return split_into_windows(tokenizer, examples, **lengths, token_types=task.token_types)

    def score(examples: Rows, predict: Any) -> tuple[dict[str, float], Rows]:
        windows = windows_of(examples)
        logits = predict([window.feature for window in windows])
        answers = best_answers(examples, windows, logits, settings.answer_tokens)
        rows = []
        for answer, example in zip(answers, examples, strict=True):
            references = [reference["text"] for reference in example["answers"]]
            rows.append(
                {
                    "source": example["question"],
                    "output": answer,
                    "reference": references[0],
                    **squad_scores(answer, references),
                }
            )
        return means(rows, "f1", "exact_match"), rows

    features = []
    for window in windows_of(task.train):
        answer = task.train[window.example]["answers"][0]
        first, last = span_of(window, answer["start"], answer["start"] + len(answer["text"]))
        features.append({**window.feature, "start_positions": first, "end_positions": last})
    head, collator = AutoModelForQuestionAnswering, DataCollatorWithPadding(tokenizer)
    return task.measure(head, collator, features, score)


class Window(NamedTuple):
    """A part of a context, with its question."""

    example: int  # index of the example
    feature: dict[str, list[int]]  # the model's inputs
    # [tokens, 2]: begin and end of each token in the context; -1 for all other tokens.
    offsets: Any


def split_into_windows(
    tokenizer: Any,
    examples: Rows,
    *,
    length: int,
    stride: int,
    token_types: bool,
) -> list[Window]:
    """Split each context into windows of at most `length` tokens that begin with its question.

    A question has at most half the tokens; adjacent windows share `stride` tokens. `token_types` is
    whether the model distinguishes question and context by token types. Raises `UserError` if the
    windows have no room for a context.
    """
    import numpy as np

    if length // 2 - _SPECIAL_TOKENS <= stride:
        raise UserError(
            f"config/tasks.yaml: windows of {length} tokens have no room for a stride of {stride} "
            "and a question; raise length (at most to the model's context) or lower stride"
        )
    questions = []
    for example in examples:
        question, most = example["question"], length // 2
        alone: Any = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in alone["offset_mapping"]]
        questions.append(question if len(ends) <= most else question[: ends[most - 1]])
    encoded = tokenizer(
        questions,
        [example["context"] for example in examples],
        truncation="only_second",
        max_length=length,
        stride=stride,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
        return_token_type_ids=token_types,
    )
    windows = []
    for index, example in enumerate(encoded["overflow_to_sample_mapping"]):
        offsets = np.array(encoded["offset_mapping"][index])
        offsets[[part != 1 for part in encoded.sequence_ids(index)]] = -1
        inputs = (name for name in tokenizer.model_input_names if name in encoded)
        feature = {name: encoded[name][index] for name in inputs}
        windows.append(Window(example, feature, offsets))
    return windows


def span_of(window: Window, begin: int, end: int) -> tuple[int, int]:
    """First and last token of the characters [begin, end) of the context.

    They are the first token that ends after `begin`, and the last one that begins before `end`;
    NO_ANSWER if the characters are not all in the window.
    """
    import numpy as np

    inside = np.flatnonzero(window.offsets[:, 0] >= 0)
    starts, ends = window.offsets[inside].T
    if not len(inside) or starts[0] > begin or ends[-1] < end:
        return NO_ANSWER, NO_ANSWER
    first, last = np.flatnonzero(ends > begin)[0], np.flatnonzero(starts < end)[-1]
    return int(inside[first]), int(inside[last])


def best_answers(
    examples: Rows,
    windows: list[Window],
    logits: tuple[Any, Any],
    longest: int,
) -> list[str]:
    """The answer to each question: the most likely span in all windows of its context.

    `logits` are those of first and of last tokens, both [windows, tokens or more]; an answer has at
    most `longest` tokens, and the highest sum of the two.
    """
    import numpy as np

    best: list[tuple[float, int, int]] = [(-np.inf, 0, 0)] * len(examples)
    for window, start, end in zip(windows, *logits, strict=True):
        inside = np.flatnonzero(window.offsets[:, 0] >= 0)
        if not len(inside):
            continue
        offsets = window.offsets[inside]
        scores = start[inside][:, None] + end[inside][None, :]  # [first, last]
        band = np.triu(np.ones(scores.shape, bool)) & ~np.triu(np.ones(scores.shape, bool), longest)
        first, last = np.unravel_index(np.where(band, scores, -np.inf).argmax(), scores.shape)
        span = float(scores[first, last]), int(offsets[first, 0]), int(offsets[last, 1])
        best[window.example] = max(best[window.example], span, key=lambda scored: scored[0])
    return [
        example["context"][begin:end].strip()
        for example, (_, begin, end) in zip(examples, best, strict=True)
    ]


TASK = fine_tuned_task(
    ExtractiveQASettings,
    evaluate,
    train_examples=87_599,
    primary_metric="f1",
    metrics=(F1, EXACT_MATCH),
    test_texts={"questions": ("question",), "contexts": ("context",)},
    rows="spans",
)
