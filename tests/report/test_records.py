"""What a report reads: logs, learned metrics, missing scores, untrained strategies, aliases."""

import json
from pathlib import Path

import pytest

from lexigraft.report.frame import SEEDED
from lexigraft.report.items import read_items
from lexigraft.report.records import read_logs, read_study
from lexigraft.report.tables.results import results

FULL = "full-clm-512"
SOURCE = ("tiny", "te-made", "source", "none", "none", 0)
ROWS = [{"id": "s1", "output": "x", "chrf": 10.0}, {"id": "s0", "output": "y", "chrf": 20.0}]


def part(made, **item):
    (asked,) = read_items([{"item": "results", **item}])
    return read_study(made.settings, made.inputs).part(asked)


def test_every_line_of_a_log_is_a_row_with_its_cell_and_missing_numbers(tmp_path):
    lines = {
        "mean": [
            {"event": "heldout", "step": 0, "tokens": 0, "bits_per_byte": 2.0},
            {"event": "step", "step": 1, "tokens": 512, "loss": 3.0, "share_of_peak": None},
        ],
        "align": [{"event": "step", "step": 1, "tokens": 510, "loss": 8.0, "next_loss": 2.5}],
        "none": [],
    }
    logs = []
    for seed, (name, of_cell) in enumerate(lines.items()):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in of_cell))
        logs.append((dict(zip(SEEDED, ["m", "te", "big", name, "full", seed], strict=True)), file))
    frame = read_logs(logs)
    rows = frame[["initializer", "seed", "event", "step"]].to_numpy().tolist()
    assert rows == [["mean", 0, "heldout", 0], ["mean", 0, "step", 1], ["align", 1, "step", 1]]
    assert frame["bits_per_byte"].isna().tolist() == [False, True, True]
    assert frame["next_loss"].isna().tolist() == [True, True, False]
    assert "english_bits_per_byte" not in frame
    assert list(read_logs([]).columns) == [*SEEDED, "event", "step"]


def test_a_learned_metric_is_one_more_metric_of_its_task_or_not_scored(made_study):
    made_study.record(SOURCE, "translation", "translation", {"chrf": 15.0}, predictions=ROWS)
    record = Path(made_study.inputs["records"][0])
    folder = record.parent / "learned"
    folder.mkdir()
    why = "x is missing: run `make metrics`"
    scored = {"metrics": {"comet": 0.5}, "ids": ["s0", "s1"], "scores": [0.25, 0.75]}
    for name, fields in (("mine", scored), ("other", {"metrics": {}, "not_scored": why})):
        text = json.dumps({**json.loads(record.read_text()), "learned_metric": name, **fields})
        (folder / f"{name}.json").write_text(text)
    made_study.inputs["learned"] = sorted(map(str, folder.iterdir()))
    study = read_study(made_study.settings, made_study.inputs)
    assert study.scores[["task", "metric", "value"]].to_dict("records") == [
        {"task": "translation", "metric": "chrf", "value": 15.0},
        {"task": "translation", "metric": "comet", "value": 0.5},
    ]
    (run,) = study.predictions
    assert [(row["id"], row["chrf"], row["comet"]) for row in run.rows()] == [
        ("s1", 10.0, 0.75),
        ("s0", 20.0, 0.25),
    ]
    (lost,) = study.not_scored
    assert (lost.task, lost.run, lost.metric, lost.why) == ("translation", 0, "other", why)


@pytest.mark.parametrize("tasks", [(), ("arc-0-shot", "hellaswag-0-shot")])
def test_a_task_without_data_is_a_column_with_its_reason(made_study, tasks):
    """Two languages; ARC of both, HellaSwag of Telugu, which has no data."""
    made_study.settings["reference"] = {"strategy": FULL}
    why = "Rowan/hellaswag (default) cannot be read: offline"
    for language in ("te-made", "el-made"):
        source, align = ("source", "none", "none", 0), ("big", "align", FULL, 0)
        for cell in (("m", language, *source), ("m", language, *align)):
            made_study.record(cell, "arc-0-shot", "multiple_choice", {"accuracy": 0.25})
            if language == "te-made":
                made_study.record(cell, "hellaswag-0-shot", "multiple_choice", {})
                record = Path(made_study.inputs["records"][-1])
                record.write_text(json.dumps({**json.loads(record.read_text()), "not_scored": why}))
    table = results(part(made_study, **({"tasks": tasks} if tasks else {})))
    assert set(table.columns) == {
        ("Telugu", "arc-0-shot: accuracy ↑"),
        ("Telugu", "hellaswag-0-shot: accuracy ↑"),
        ("Greek", "arc-0-shot: accuracy ↑"),
    }
    assert f"accuracy not scored (2 runs): {why}" in table.notes


def test_a_strategy_that_trains_nothing_is_read_as_none(made_study):
    cell = ("tiny", "te-made", "expand-500", "align", FULL, 0)
    made_study.trained(cell, 2.5, 1.5)
    made_study.record(cell, "mt", "translation", {"chrf": 1.0}, predictions=ROWS)
    study = read_study({**made_study.settings, "untrained": [FULL]}, made_study.inputs)
    for name in ("scores", "training", "curves"):
        assert set(getattr(study, name)["strategy"]) == {"none"}
    assert study.predictions[0].cell["strategy"] == "none"
    assert FULL not in study.phases


@pytest.fixture
def aliased(made_study):
    """Two source models with `align`, in two vocabularies; `mean` is its alias in one of them."""
    made_study.settings |= {
        "reference": {"strategy": FULL},
        "aliases": [
            {"initializer": "mean", "same_as": "align", "vocabularies": ["big"], "sources": None},
            {"initializer": "merge", "same_as": "align", "vocabularies": ["big"], "sources": ["n"]},
        ],
    }
    for source, base in (("m", 10.0), ("n", 40.0)):
        cell = (source, "te-made", "source", "none", "none", 0)
        made_study.record(cell, "mt", "translation", {"chrf": base, "chrf_sentence_mean": base - 1})
        for vocabulary, gain in (("big", 5.0), ("huge", 7.0)):
            cell = (source, "te-made", vocabulary, "align", FULL, 0)
            scores = {"chrf": base + gain, "chrf_sentence_mean": base + gain - 1}
            made_study.record(cell, "mt", "translation", scores)
    return made_study


def test_an_alias_has_the_scores_of_its_vocabularies_and_source_models_alone(aliased):
    names = ["mean", "merge", "align"]
    study = part(aliased, where={"vocabularies": ["big", "huge"], "initializers": names})
    texts = {row.stub: row.cells[0].text for row in results(study).rows}
    assert texts["m", "big", "Mean"] == "15.0" and texts["n", "big", "Merge"] == "45.0"
    assert texts["n", "huge", "Align"] == "47.0"
    for missing in (("m", "big", "Merge"), ("m", "huge", "Mean"), ("n", "huge", "Merge")):
        assert texts[missing] == "–"
    note = part(aliased, where={"sources": ["m"], "initializers": names}).alias_note()
    assert note == "Mean is Align under another name: both compute the same rows."


def test_an_item_that_does_not_name_an_alias_shows_the_cell_once(aliased):
    study = part(aliased, where={"sources": ["m"], "vocabularies": ["big"]})
    assert set(study.scores["initializer"]) == {"none", "align"}
    assert study.alias_note() == ""
    only = part(aliased, where={"initializers": ["mean"]})
    assert set(only.scores["initializer"]) == {"none", "mean"}
    # The CSV file has the mean of sentences beside the corpus score.
    table = results(study)
    rows = table.data[table.data["initializer"] == "align"]
    assert dict(zip(rows["metric"], rows["mean"], strict=True)) == {
        "chrf": 15.0, "chrf_sentence_mean": 14.0,
    }  # fmt: skip
    assert any("chrf_sentence_mean" in note for note in table.notes)
