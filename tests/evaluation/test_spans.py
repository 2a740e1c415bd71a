"""Windows over long contexts, the tokens of an answer, and the likeliest span, by brute force."""

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.tasks.extractive_qa import (
    NO_ANSWER,
    best_answers,
    span_of,
    split_into_windows,
)

CONTEXT = "One two three four five six seven eight nine ten eleven twelve. " * 4


def asked(question="Who?", context=CONTEXT, answer="seven"):
    answers = [{"text": answer, "start": context.index(answer)}]
    return {"id": "1", "question": question, "context": context, "answers": answers}


@pytest.fixture
def cut(roberta_tokenizer):
    def build(examples, length=64, stride=16):
        return split_into_windows(
            roberta_tokenizer, examples, length=length, stride=stride, token_types=False
        )

    return build


def test_windows_cover_the_context_and_contain_the_question(cut, roberta_tokenizer):
    found = cut([asked(), asked(question="Where is it?")])
    assert [window.example for window in found] == sorted(window.example for window in found)
    for number, question in enumerate(["Who?", "Where is it?"]):
        own = [window for window in found if window.example == number]
        assert len(own) > 2
        held: set[int] = set()
        for window in own:
            ids = window.feature["input_ids"]
            assert len(ids) <= 64 and set(window.feature) == {"input_ids", "attention_mask"}
            text = roberta_tokenizer.decode(ids)
            assert text.startswith(f"<s>{question}</s></s>") and text.endswith("</s>")
            for begin, end in window.offsets[window.offsets[:, 0] >= 0]:
                held |= set(range(begin, end))
        letters = {at for at, character in enumerate(CONTEXT) if character != " "}
        assert letters <= held


def test_windows_without_room_are_refused(cut):
    with pytest.raises(UserError, match="no room for a stride of 32"):
        cut([asked()], stride=32)


@pytest.mark.parametrize("answer", ["One", "seven", "twelve.", "two three four", "e"])
def test_the_span_of_an_answer_has_its_text(cut, answer):
    example = asked(answer=answer)
    begin = example["answers"][0]["start"]
    found = 0
    for window in cut([example]):
        first, last = span_of(window, begin, begin + len(answer))
        inside = window.offsets[window.offsets[:, 0] >= 0]
        whole = inside[0, 0] <= begin and begin + len(answer) <= inside[-1, 1]
        assert (first != NO_ANSWER) == whole
        if whole:
            found += 1
            spelled = CONTEXT[window.offsets[first, 0] : window.offsets[last, 1]]
            assert answer in spelled
            assert len(spelled) < len(answer) + 8  # no more than the tokens around it
    assert found


@pytest.mark.parametrize("longest", [1, 4, 100])
def test_the_answer_is_the_most_likely_span_of_all_windows(cut, longest):
    random = np.random.default_rng(3)
    windows = cut([asked()])
    start, end = random.normal(size=(2, len(windows), 70))  # the last ones are padding
    spans = []
    for number, window in enumerate(windows):
        inside = np.flatnonzero(window.offsets[:, 0] >= 0)
        for first in inside:
            for last in inside[(inside >= first) & (inside < first + longest)]:
                score = start[number, first] + end[number, last]
                spans.append((score, window.offsets[first, 0], window.offsets[last, 1]))
    _, begin, finish = max(spans)
    [answer] = best_answers([asked()], windows, (start, end), longest)
    assert answer == CONTEXT[begin:finish].strip()
