"""A strategy that trains nothing is `none` in the report, whatever the study calls it."""

from lexigraft.report.records import read_study


def test_a_strategy_that_trains_nothing_is_read_as_none(built):
    made = built[2]
    before = read_study(made.settings, made.inputs)
    name = next(one for one in before.scores["strategy"].unique() if one != "none")
    study = read_study({**made.settings, "untrained": [name]}, made.inputs)
    for frame in ("scores", "training", "curves"):
        assert name in set(getattr(before, frame)["strategy"])
        assert name not in set(getattr(study, frame)["strategy"])
    assert "none" in set(study.scores["strategy"])
    assert len(study.scores) == len(before.scores)
    assert {one.cell["strategy"] for one in before.predictions} - {name} <= {
        one.cell["strategy"] for one in study.predictions
    }
    assert name not in study.phases
