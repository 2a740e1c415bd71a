"""Windows over long contexts, the tokens of an answer, and the likeliest span, by brute force."""

import numpy as np
import pytest

from lexigraft.errors import UserError
from lexigraft.evaluation.spans import (
    NO_ANSWER,
    Window,
    best_answers,
    best_span,
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


def test_adjacent_windows_share_the_stride(cut):
    one, two = cut([asked()])[:2]
    last = one.offsets[one.offsets[:, 0] >= 0][-16:]
    first = two.offsets[two.offsets[:, 0] >= 0][:16]
    assert (last == first).all()


def test_a_long_question_is_cut_to_half_of_the_window(cut, roberta_tokenizer):
    question = "Which one is it " * 30
    for window in cut([asked(question=question)]):
        inside = (window.offsets[:, 0] >= 0).sum()
        assert inside >= 64 // 2 - 8 or window.offsets.max() == len(CONTEXT.rstrip())


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


def test_the_best_span_is_that_of_all_pairs(cut):
    random = np.random.default_rng(3)
    window = cut([asked()])[1]
    inside = np.flatnonzero(window.offsets[:, 0] >= 0)
    for longest in (1, 4, 100):
        start, end = random.normal(size=(2, len(window.offsets)))
        pairs = [(a, b) for a in inside for b in inside if a <= b < a + longest]
        a, b = max(pairs, key=lambda pair: start[pair[0]] + end[pair[1]])
        score, begin, finish = best_span(window, start, end, longest)
        assert score == pytest.approx(start[a] + end[b])
        assert (begin, finish) == (window.offsets[a, 0], window.offsets[b, 1])


def test_the_answer_is_the_most_likely_span_of_all_windows():
    examples = [{"context": "one two"}, {"context": "three"}]
    offsets = np.array([[-1, -1], [0, 3], [3, 7], [-1, -1]])
    found = [Window(0, {}, offsets), Window(0, {}, offsets), Window(1, {}, offsets[:2])]
    found[2].offsets[1] = (0, 5)
    start = np.array([[9, 1, 0, 9], [9, 0, 5, 9], [9, 1, 7, 7]])  # the last two are padding
    answers = best_answers(examples, found, (start, start), 10)
    assert answers == ["two", "three"]
