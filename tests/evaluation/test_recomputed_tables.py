"""Any table can be made again from records alone: nothing else of a study is left here."""

import csv
import json
import math
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
import sacrebleu
import torch
from rouge_score.rouge_scorer import RougeScorer

from lexigraft.artifacts.atomic import write_json
from lexigraft.evaluation.evaluate import record
from lexigraft.evaluation.metrics.rouge_l import ScriptTokenizer
from lexigraft.evaluation.task_kinds import task_kind
from lexigraft.report.page import build_report

AXES = ("source", "language", "vocabulary", "initializer", "strategy", "seed")
SOURCE = ("tiny", "el-kolibri", "source", "none", "none", 0)
CELLS = [SOURCE, *(("tiny", "el-kolibri", *rest, "full", seed) for seed in (0, 1)
                   for rest in (("source", "none"), ("big", "align")))]  # fmt: skip
TASKS = {
    "translation": {"max_new_tokens": 60, "batch_size": 4},
    "summarization": {"max_new_tokens": 10, "batch_size": 4},
    "perplexity": {},
}
KEPT = ("record.json", "predictions.jsonl")


def changed(model, seed):
    """The model, a little of its head drawn anew: what it writes is partly the same."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        head = model.get_output_embeddings().weight
        head += 0.05 * seed * torch.randn(head.shape, generator=draw)
    return model


@pytest.fixture
def study(model, byte_tokenizer, make_job, tmp_path):
    """Records of five cells on three tasks, by the tasks themselves, and nothing else on disk."""
    results = tmp_path / "study" / "results"
    tokenizer, corpus = byte_tokenizer(), tmp_path / "corpus"
    weights = {k: v.clone() for k, v in model.state_dict().items()}

    def evaluate(cell, kind, run=0, place=results):
        *names, seed = cell
        job = make_job(kind, run, **TASKS[kind])
        folder = place / "/".join(names) / f"seed-{seed}" / kind / f"run-{run}"
        job["outputs"] = {"folder": str(folder), "record": str(folder / "record.json"),
                          "predictions": str(folder / "predictions.jsonl")}  # fmt: skip
        job["cell"] = dict(zip(AXES, cell, strict=True))
        folder.mkdir(parents=True)
        measured = task_kind(kind).evaluate(model, tokenizer, job)
        write_json(job["outputs"]["record"], record(job, measured))
        return [json.loads(line) for line in Path(job["outputs"]["predictions"]).open()]

    # What the source model writes becomes a part of the references: its scores are no zeros.
    for kind, key in (("translation", "target"), ("summarization", "reference")):
        outputs = {
            row["id"]: row["output"] for row in evaluate(SOURCE, kind, 0, tmp_path / "aside")
        }
        file = corpus / "tasks" / f"{kind}.jsonl"
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for at, row in enumerate(rows):
            row[key] = f"{outputs[row['id']].strip()} {'αβγ' * at}"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for number, cell in enumerate(CELLS):
        model.load_state_dict(weights)
        changed(model, number)
        for kind in TASKS:
            for run in (0, 1):
                evaluate(cell, kind, run)
    for folder in ("corpus", "cell", "tokenizer", "aside"):
        shutil.rmtree(tmp_path / folder)
    for file in results.rglob("*"):
        if file.is_file() and file.name not in KEPT:
            file.unlink()
    return results


def report(results, folder, items):
    """The CSV files of the items' tables, by name."""
    settings = {"study": "again", "items": items, "reference": {"strategy": "full"}}
    records = sorted(str(file) for file in results.rglob("record.json"))
    build_report(settings, {"records": records}, {"folder": str(folder)})
    return {
        file.stem: list(csv.DictReader(file.open())) for file in (folder / "tables").glob("*.csv")
    }


def recomputed(results, kind, score):
    """`score` of each run's predictions: averaged over runs, then over seeds, by cell."""
    by_seed = defaultdict(lambda: defaultdict(list))
    for file in results.glob(f"**/{kind}/run-*/predictions.jsonl"):
        *axes, seed = file.parts[-9:-3]
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        by_seed[tuple(axes)][seed].append(score(rows))
    return {axes: sum(sum(runs) / len(runs) for runs in seeds.values()) / len(seeds)
            for axes, seeds in by_seed.items()}  # fmt: skip


def texts(rows):
    return [row["output"] for row in rows], [[row["reference"] for row in rows]]


def rouge(rows):
    scorer = RougeScorer(["rougeL"], tokenizer=ScriptTokenizer())
    scores = [scorer.score(row["reference"], row["output"])["rougeL"].fmeasure for row in rows]
    return 100 * sum(scores) / len(scores)


def bits(test):
    def score(rows):
        own = [row for row in rows if row["test"] == test]
        return sum(row["nats"] for row in own) / math.log(2) / sum(row["bytes"] for row in own)

    return score


SCORES = {
    ("translation", "chrf"): lambda rows: sacrebleu.corpus_chrf(*texts(rows)).score,
    ("translation", "chrf_plus_plus"): lambda rows: (
        sacrebleu.corpus_chrf(*texts(rows), word_order=2).score
    ),
    ("translation", "bleu"): lambda rows: sacrebleu.corpus_bleu(*texts(rows)).score,
    ("summarization", "rouge_l"): rouge,
    ("perplexity", "bits_per_byte"): bits("heldout"),
    ("perplexity", "english_bits_per_byte"): bits("english"),
}


def test_tables_equal_the_scores_of_the_predictions(study, tmp_path):
    items = [{"item": name, "tasks": [*TASKS], "metrics": [metric for _, metric in SCORES]}
             for name in ("results", "significance")]  # fmt: skip
    items.append("perplexity")
    tables = report(study, tmp_path / "report", items)
    beside = ("translation", "chrf_sentence_mean")
    assert {(row["task"], row["metric"]) for row in tables["results"]} == {*SCORES, beside}
    for (kind, metric), score in SCORES.items():
        expected = recomputed(study, kind, score)
        assert len(set(expected.values())) > 1, metric
        assert any(abs(value) > 0.1 for value in expected.values())
        own = [row for row in tables["results"] if (row["task"], row["metric"]) == (kind, metric)]
        assert len(own) == 3
        for row in own:
            axes = tuple(row[axis] for axis in AXES[:5])
            assert float(row["mean"]) == pytest.approx(expected[axes], rel=1e-9)
            assert float(row["change"]) == pytest.approx(expected[axes] - expected[SOURCE[:5]])
        tested = [row for row in tables["significance"] if row["metric"] == metric]
        assert len(tested) == 3  # both against Source, and one against the other
        for row in tested:
            mine, theirs = (
                expected[tuple(row[f"{prefix}{axis}" if axis != "language" else axis]
                               for axis in AXES[:5])]
                for prefix in ("", "baseline_")
            )  # fmt: skip
            assert float(row["baseline_score"]) == pytest.approx(theirs)
            assert float(row["difference"]) == pytest.approx(mine - theirs, abs=1e-9)
    expected = recomputed(study, "perplexity", bits("heldout"))
    own = [row for row in tables["perplexity"] if row["metric"] == "bits_per_byte"]
    assert {tuple(row[axis] for axis in AXES[:5]): float(row["mean"]) for row in own} == {
        axes: pytest.approx(value, rel=1e-9) for axes, value in expected.items()
    }
