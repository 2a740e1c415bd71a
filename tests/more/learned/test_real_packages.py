"""The real BLEURT and COMET packages, through the rule's script, on tiny random checkpoints."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lexigraft.artifacts.cards import sha256_of
from lexigraft.evaluation.learned.checkpoint import learned_kind
from lexigraft.evaluation.learned.scoring import SCORER, _environment, with_predictions
from tests.more.learned.conftest import TEXTS, record_of

# One worker builds the checkpoints, once.


def expected(tiny: Path, name: str) -> list[float]:
    return json.loads((tiny / "expected.json").read_text())[name]


@pytest.fixture(scope="module")
def records(tiny, make_job, metrics_python, scored, scored_by_process) -> dict[str, dict]:
    """The record of each kind of checkpoint; of one by the very processes of a user."""
    encoder = tiny / "encoder"
    return {
        "bleurt": scored_by_process(make_job("bleurt", tiny / "bleurt", python=metrics_python)),
        "comet": scored(make_job("comet", tiny / "comet", encoder)),
        "xcomet": scored(make_job("comet", tiny / "xcomet", encoder, metric="xcomet")),
    }


@pytest.mark.parametrize("name", ["bleurt", "comet", "xcomet"])
def test_scores_are_the_packages_own_in_the_order_of_the_predictions(name, tiny, records):
    record = records[name]
    wanted = expected(tiny, name)
    assert record["scores"] == pytest.approx(wanted, abs=1e-5)
    assert record["ids"] == [f"s{at}" for at in range(len(TEXTS))]
    assert record["metrics"] == {name: pytest.approx(sum(wanted) / len(wanted), abs=1e-5)}
    # The texts differ, so an order that got lost would be seen.
    assert len({round(score, 4) for score in wanted}) == len(wanted)


@pytest.mark.parametrize("kind", ["bleurt", "comet"])
def test_many_runs_are_scored_by_one_loaded_checkpoint(kind, tiny, make_job, scored, capfd):
    """Of each run the scores are those that it has alone."""
    job = make_job(kind, tiny / kind, tiny / "encoder" if kind == "comet" else None)
    run = Path(job["inputs"]["predictions"][0]).parent
    for number in (1, 2):
        other = shutil.copytree(run, run.with_name(f"run-{number}"))
        lines = (other / "predictions.jsonl").read_text("utf-8").split("\n")[:-1]
        (other / "predictions.jsonl").write_text("\n".join(lines[number:]) + "\n", "utf-8")
    job = with_predictions({**job, "cells": [[job["cells"][0][0], {"translation": 3}]]})
    scored(job)
    wanted = expected(tiny, kind)
    for number in range(3):
        assert record_of(job, number)["scores"] == pytest.approx(wanted[number:], abs=1e-5)
    assert f"{kind}: 100%" in capfd.readouterr().err.split("\r")[-1]


def test_the_record_says_which_checkpoint_scored_and_with_what(tiny, records):
    record = records["bleurt"]
    weights = tiny / "bleurt" / "model.safetensors"
    assert record["checkpoint"]["folder"] == str(tiny / "bleurt")
    assert record["checkpoint"]["files"][weights.name]["sha256"] == sha256_of(weights)
    assert record["versions"]["bleurt-pytorch"] == "0.0.1"
    assert record["versions"]["transformers"].startswith("4.")
    assert "about 0 to 1" in record["unit"]
    assert record["settings"]["batch_size"] == 3
    assert set(records["comet"]["encoder"]["files"]) >= {"config.json", "tokenizer.json"}


@pytest.mark.fault(
    "damage",
    "the checkpoint of a learned metric is truncated",
    "the record says why scores are missing; everything else continues",
)
def test_a_truncated_checkpoint_is_said_and_stops_nothing(tiny, make_job, scored, tmp_path):
    broken = Path(shutil.copytree(tiny / "bleurt", tmp_path / "broken"))
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    record = scored(make_job("bleurt", broken))
    assert record["metrics"] == {}
    assert f"{broken} cannot be loaded" in record["not_scored"]


class Tripwire:
    """Unpickling this makes a folder."""

    def __init__(self, place: Path):
        self.place = str(place)

    def __reduce__(self):
        import os

        return os.mkdir, (self.place,)


@pytest.fixture(scope="module")
def of_damaged(tiny, warm_metrics, tmp_path_factory):
    """What the scorer says of checkpoints that something is wrong with."""
    import torch
    from safetensors.torch import load_file, save_file

    folder = tmp_path_factory.mktemp("damaged")

    def copy(kind: str, name: str) -> Path:
        return Path(shutil.copytree(tiny / kind, folder / name))

    weights = copy("comet", "truncated") / "checkpoints" / "model.ckpt"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])

    pickled = {"state_dict": {}, "hyper_parameters": Tripwire(folder / "sprung")}
    torch.save(pickled, copy("comet", "pickle") / "checkpoints" / "model.ckpt")
    (copy("bleurt-wordpiece", "bleurt-pickle") / "pytorch_model.bin").unlink()
    torch.save(Tripwire(folder / "sprung"), folder / "bleurt-pickle" / "pytorch_model.bin")

    weights = copy("comet", "lacking") / "checkpoints" / "model.ckpt"
    checkpoint = torch.load(weights, weights_only=True)
    del checkpoint["state_dict"]["estimator.ff.0.weight"]
    torch.save(checkpoint, weights)

    weights = copy("bleurt", "bleurt-lacking") / "model.safetensors"
    tensors = load_file(weights)
    del tensors["classifier.weight"]
    save_file(tensors, weights, {"format": "pt"})

    hparams = copy("comet", "objects") / "hparams.yaml"
    hparams.write_text("class_identifier: !!python/name:os.mkdir\n")

    rows = [json.loads(line) for line in (tiny / "texts.jsonl").open(encoding="utf-8")]
    texts = "".join(json.dumps({"run": 0, **row}) + "\n" for row in rows)

    names = {
        "truncated": "comet",
        "pickle": "comet",
        "lacking": "comet",
        "objects": "comet",
        "bleurt-pickle": "bleurt",
        "bleurt-lacking": "bleurt",
    }
    jobs = [
        {
            "kind": learned_kind(kind).__file__,
            "checkpoint": str(folder / name),
            "encoder": str(tiny / "encoder"),
            "batch_size": 2,
            "uses_source": True,
        }
        for name, kind in {**names, "whole": "bleurt"}.items()
    ]
    jobs[-1]["checkpoint"] = str(tiny / "bleurt-wordpiece")
    outputs = {}
    for name, job in zip([*names, "whole"], jobs, strict=True):
        command = [warm_metrics, "-I", str(SCORER), json.dumps(job)]
        options = {"env": _environment(), "input": texts, "capture_output": True, "text": True}
        result = subprocess.run(command, **options)
        assert result.returncode == 0, result.stderr
        outputs[name] = [json.loads(line) for line in result.stdout.splitlines()]

    def said(name: str) -> list:
        return outputs[name]

    return folder, said


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("truncated", "cannot be loaded"),
        ("pickle", "Weights only load failed"),
        ("bleurt-pickle", "cannot be loaded"),
        ("lacking", "estimator.ff.0.weight"),
        ("bleurt-lacking", "classifier.weight"),
        ("objects", "cannot be loaded"),
    ],
)
def test_a_damaged_checkpoint_is_refused_with_its_reason(name, reason, of_damaged):
    folder, said = of_damaged
    (line,) = said(name)
    assert line["failed"].startswith(f"{folder / name} cannot be loaded (")
    assert reason in line["failed"]


@pytest.mark.bad_input(
    "hostile", "a pickle in the checkpoint of a learned metric", "only tensors are unpickled"
)
def test_nothing_is_unpickled_but_tensors(of_damaged):
    assert not (of_damaged[0] / "sprung").exists()


def test_a_pickle_of_tensors_is_read(of_damaged, tiny):
    conditions, answer = of_damaged[1]("whole")
    assert conditions["device"] in ("cpu", "cuda")
    assert answer["scores"] == pytest.approx(expected(tiny, "bleurt-wordpiece"), abs=1e-5)
