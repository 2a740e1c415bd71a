"""Names of the grid as a reader sees them."""

from lexigraft.report.names import initializer_name, task_name


def test_names_are_words():
    assert initializer_name("mean-of-all") == "Mean of all"
    assert initializer_name("focus-word") == "FOCUS word"
    assert [task_name(*pair) for pair in (("mine", "translation"), ("speed-test", "speed"))] == [
        "MT", "Speed test"
    ]  # fmt: skip
    # A task that is short over a column shows its number of examples.
    choice = "multiple_choice"
    assert task_name("arc-easy-5-shot", choice) == "ARC-E 5-shot"
    assert task_name("my-own-5-shot", choice) == "My own 5 shot"
    assert task_name("xnli", "classification") == "XNLI"
