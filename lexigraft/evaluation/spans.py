"""Encode questions and contexts in windows for an encoder, and decode the predicted spans."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerFast

from lexigraft.corpus.examples import Example
from lexigraft.errors import UserError

NO_ANSWER = 0  # the token to predict for a window that does not contain the answer
_SPECIAL_TOKENS = 8  # maximum number around a question and a context


class Window(NamedTuple):
    """A part of a context, with its question."""

    example: int  # index of the example
    feature: dict[str, list[int]]  # the model's inputs
    # [tokens, 2]: begin and end of each token in the context; -1 for all other tokens.
    offsets: np.ndarray


def split_into_windows(
    tokenizer: PreTrainedTokenizerFast,
    examples: Sequence[Example],
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
    inside = np.flatnonzero(window.offsets[:, 0] >= 0)
    starts, ends = window.offsets[inside].T
    if not len(inside) or starts[0] > begin or ends[-1] < end:
        return NO_ANSWER, NO_ANSWER
    first, last = np.flatnonzero(ends > begin)[0], np.flatnonzero(starts < end)[-1]
    return int(inside[first]), int(inside[last])


def best_answers(
    examples: Sequence[Example],
    windows: Sequence[Window],
    logits: tuple[np.ndarray, np.ndarray],
    longest: int,
) -> list[str]:
    """The answer to each question: the most likely span in all windows of its context.

    `logits` are those of first and of last tokens, both [windows, tokens or more]; an answer has at
    most `longest` tokens, and the highest sum of the two.
    """
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
