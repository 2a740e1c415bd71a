"""Examples before a question: drawn once a run, never tested, left out where they do not fit."""

import json
from pathlib import Path

import pytest

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.few_shot import (
    examples_and_tests,
    few_shot_prompts,
    prompt_limit,
    read_test_set,
)
from lexigraft.evaluation.prompts import between_examples
from tests.conftest import REPOSITORY

ROWS = [{"id": f"r{at}", "source": f"word {'x' * at}", "target": f"λέξη {'ψ' * at}"}
        for at in range(1, 21)]  # fmt: skip
TEXTS = ("source", "target")


def drawn(job, *, tests=ROWS, pool=None, shots=3):
    if pool is not None:
        folder = Path(job["outputs"]["folder"])
        write_jsonl(folder / "test_set.jsonl", pool)
        job["inputs"]["test_sets"] = {"shots": {"greek": str(folder)}}
    return examples_and_tests(job, tests, shots, TEXTS)


def test_without_shots_all_rows_are_tests(make_job):
    assert drawn(make_job("translation"), shots=0) == ([], ROWS)


def test_examples_that_come_from_the_tests_are_not_tested(make_job):
    examples, left = drawn(make_job("translation"))
    assert len(examples) == 3
    assert sorted([*examples, *left], key=ROWS.index) == ROWS


def test_a_test_that_equals_an_example_is_left_out(make_job):
    tests = [*ROWS, {"id": "alike", "source": "Another", "target": "ΛΈΞΗ, ψψ!"}]
    for run in range(8):
        job = make_job("translation", run=run)
        examples, left = drawn(job, tests=tests, pool=ROWS, shots=10)
        names = {row["id"] for row in left}
        assert names.isdisjoint(row["id"] for row in examples)
        assert ("alike" in names) == all(row["id"] != "r2" for row in examples)


def test_examples_from_separate_texts_leave_all_tests(make_job):
    pool = [{"id": f"p{at}", "source": f"pool {'y' * at}", "target": "ω" * at} for at in (1, 2, 3)]
    examples, left = drawn(make_job("translation"), pool=pool, shots=2)
    assert {row["id"] for row in examples} < {"p1", "p2", "p3"}
    assert left == ROWS


def test_all_cells_of_a_run_have_the_same_examples_and_runs_have_others(make_job):
    found = []
    for run, vocabulary in ((0, "source"), (0, "expand-100"), (1, "source"), (2, "source")):
        job = make_job("translation", run=run)
        job["cell"]["vocabulary"] = vocabulary
        found.append([row["id"] for row in drawn(job)[0]])
    assert found[0] == found[1]
    assert len({tuple(ids) for ids in found}) == 3


@pytest.mark.parametrize(
    ("shots", "message"),
    [
        (21, "shots is 21, but there are only 20 examples"),
        (20, "examples leave none of 20 tests; lower it"),
    ],
)
def test_too_many_shots_are_an_error(make_job, shots, message):
    with pytest.raises(UserError, match=message):
        drawn(make_job("translation"), shots=shots)


def test_the_test_set_of_a_task_is_read_by_language(make_job, tmp_path):
    (tmp_path / "test_set.jsonl").write_text(json.dumps(ROWS[0]) + "\n", "utf-8")
    job = make_job("translation")
    assert read_test_set(job, "tests") is None
    job["inputs"]["test_sets"] = {"tests": {"greek": str(tmp_path)}}
    assert read_test_set(job, "tests") == read_test_set(job, "tests", "greek") == ROWS[:1]
    assert read_test_set(job, "shots") is None


def test_a_prompt_is_the_examples_with_their_answers_and_the_question(byte_tokenizer):
    answered = [("one =", "ένα"), ("two =", " δύο\n ή  περισσότερα ")]
    prompts = few_shot_prompts(byte_tokenizer(), ["three =", "four ="], answered, None)
    before = "one = ένα\n\ntwo = δύο ή περισσότερα\n\n"
    assert prompts.texts == [before + "three =", before + "four ="]
    assert prompts.shots == [2, 2]


def test_the_instruction_precedes_all_examples_once(byte_tokenizer):
    answered = [("one: ", "ένα"), ("two: ", "δύο")]
    prompts = few_shot_prompts(byte_tokenizer(), ["three: ", "q" * 40], answered, 40, "Say.\n\n")
    assert prompts.texts == ["Say.\n\none: ένα\n\ntwo: δύο\n\nthree: ", "Say.\n\n" + "q" * 40]
    assert prompts.details(["a", "b"])["before_examples"] == "Say.\n\n"
    alone = few_shot_prompts(byte_tokenizer(), ["x"], [], None, "Say.\n\n")
    assert alone.texts == ["Say.\n\nx"]
    assert alone.details([]) == {"before_examples": "Say.\n\n"}


def test_examples_of_a_named_prompt_end_as_it_says(byte_tokenizer):
    """VocADT's code joins its examples with one line feed, CW2V's with an empty line."""
    ends = {
        name: between_examples(REPOSITORY / "config/prompts", "translation", name)
        for name in ("names", "cw2v", "instruction")
    }
    assert ends == {"names": "\n", "cw2v": "\n\n", "instruction": "\n\n"}
    prompts = few_shot_prompts(
        byte_tokenizer(), ["b:"], [("a:", "1"), ("c:", "2")], None, between=ends["names"]
    )
    assert prompts.texts == ["a: 1\nc: 2\nb:"]


def test_the_first_examples_are_dropped_for_a_long_question(byte_tokenizer):
    answered = [("a" * 10, "b"), ("c" * 10, "d")]  # of 14 bytes each, with what is between
    asks = ["q" * 2, "q" * 3, "q" * 16, "q" * 17, "q" * 40]
    prompts = few_shot_prompts(byte_tokenizer(), asks, answered, 31)  # a start token and bytes
    assert prompts.shots == [2, 1, 1, 0, 0]
    assert prompts.texts[1] == "c" * 10 + " d\n\n" + "qqq"
    assert prompts.texts[4] == "q" * 40
    details = prompts.details(["e1", "e2"])
    assert details["examples"][1] == {"id": "e2", "text": "c" * 10 + " d\n\n"}
    assert (details["prompts_with_fewer_shots"], details["shots_per_prompt"]) == (4, 4 / 5)
    whole = [
        "".join(one["text"] for one in details["examples"][2 - before :]) + ask
        for ask, before in zip(asks, prompts.shots, strict=True)
    ]
    assert whole == prompts.texts


def test_details_without_examples_are_empty(byte_tokenizer):
    prompts = few_shot_prompts(byte_tokenizer(), ["one ="], [], 3)
    assert (prompts.texts, prompts.shots, prompts.details([])) == (["one ="], [0], {})


def test_the_limit_of_a_prompt_leaves_room_for_the_answer(model):
    model.config.max_position_embeddings = 100
    assert prompt_limit(model, 30) == 70
    assert prompt_limit(model, 30, 50) == 50
    assert prompt_limit(model, 30, 90) == 70
