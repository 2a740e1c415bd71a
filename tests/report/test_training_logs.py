"""Logs of several cells as one frame: a row a line, whatever each of them has."""

import json

import pytest

from lexigraft.report.frame import SEEDED
from lexigraft.report.records import read_logs

LINES = {
    "mean": [
        {"event": "heldout", "step": 0, "tokens": 0, "bits_per_byte": 2.0},
        {"event": "step", "step": 1, "tokens": 512, "loss": 3.0, "share_of_peak": None},
    ],
    "align": [{"event": "step", "step": 1, "tokens": 510, "loss": 8.0, "next_loss": 2.5}],
    "none": [],
}


@pytest.fixture
def frame(tmp_path):
    logs = []
    for seed, (name, lines) in enumerate(LINES.items()):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        logs.append((dict(zip(SEEDED, ["m", "te", "big", name, "full", seed], strict=True)), file))
    return read_logs(logs)


def test_every_line_is_a_row_with_its_cell(frame):
    rows = frame[["initializer", "seed", "event", "step"]].to_numpy().tolist()
    assert rows == [["mean", 0, "heldout", 0], ["mean", 0, "step", 1], ["align", 1, "step", 1]]


def test_a_number_that_a_line_lacks_is_missing_and_one_that_all_lack_is_no_column(frame):
    assert frame["bits_per_byte"].isna().tolist() == [False, True, True]
    assert frame["next_loss"].isna().tolist() == [True, True, False]
    assert "english_bits_per_byte" not in frame


def test_cells_are_told_apart_in_groups(frame):
    steps = frame[frame["event"] == "step"]
    found = steps.groupby(SEEDED, sort=False)["loss"].first()
    assert {key[3]: value for key, value in found.items()} == {"mean": 3.0, "align": 8.0}


def test_of_no_logs_there_is_an_empty_frame():
    assert read_logs([]).empty
    assert list(read_logs([]).columns) == [*SEEDED, "event", "step"]
