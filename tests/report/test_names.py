"""Names of the grid as a reader sees them."""

import pytest

from lexigraft.report.names import initializer_name, parse_strategy, task_name


@pytest.mark.parametrize(
    ("key", "procedure", "setting"),
    [
        ("2x2ls-clm-512", "2x2ls", "CLM+512"),
        ("two-stage-mtp-2048", "two-stage", "MTP+2048"),
        ("two-stage-mtp-random-head-2048", "two-stage", "MTP+2048, random head"),
        ("2x2ls-mtp-512-as-published", "2x2ls", "MTP+512, as published"),
        ("lora", "lora", "–"),
        ("progressive-512", "progressive", "512"),
    ],
)
def test_a_strategys_name_is_taken_apart(key, procedure, setting):
    assert (parse_strategy(key).procedure, parse_strategy(key).setting) == (procedure, setting)


def test_phases_say_more_than_the_name():
    phases = [{"objective": "clm", "length": 1024}, {"objective": "mtp", "length": 1024}]
    assert parse_strategy("mine", phases).setting == "CLM+MTP+1024"


def test_names_are_words():
    assert initializer_name("mean-of-all") == "Mean of all"
    assert initializer_name("focus-word") == "FOCUS word"
    names = ("lora", "two-stage", "2x2ls", "full")
    assert [parse_strategy(f"{name}-clm-512").title for name in names
            ] == ["LoRA", "2-stage", "2x2 LS", "full"]  # fmt: skip
    assert [task_name(*pair) for pair in (("mine", "translation"), ("speed-test", "speed"))] == [
        "MT", "Speed test"
    ]  # fmt: skip
    # A task that is short over a column shows its number of examples.
    choice = "multiple_choice"
    assert task_name("arc-easy-5-shot", choice) == "ARC-E 5-shot"
    assert task_name("my-own-5-shot", choice) == "My own 5 shot"
    assert task_name("xnli", "classification") == "Xnli"
