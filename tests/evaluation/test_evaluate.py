"""One process evaluates a cell: what loads its model, what is computed again, and what is not."""

import json
import math
import shutil
import sys
import weakref
from pathlib import Path

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation import evaluate
from lexigraft.evaluation.evaluate import Opening, evaluate_cell, run_jobs
from lexigraft.evaluation.task_kinds import task_kind
from tests.conftest import REPOSITORY
from tests.fake_vllm import LLM, install

TRANSLATION = {"max_new_tokens": 4, "samples": 3, "batch_size": 1}


@pytest.fixture
def loads(monkeypatch):
    """How the model of a cell was loaded, one entry for each time."""
    found, inner = [], evaluate.open_cell

    def counted(cell, opening, folder):
        found.append(opening)
        return inner(cell, opening, folder)

    monkeypatch.setattr(evaluate, "open_cell", counted)
    return found


def record(job, task, run=0) -> dict:
    return json.loads(Path(job["outputs"]["folder"], task, f"run-{run}", "record.json").read_text())


def rows(job, task, run=0) -> list[dict]:
    file = Path(job["outputs"]["folder"], task, f"run-{run}", "predictions.jsonl")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def dates(job) -> dict[str, int]:
    """When each record was written."""
    files = Path(job["outputs"]["folder"]).rglob("record.json")
    return {f"{file.parent.parent.name}-{file.parent.name}": file.stat().st_mtime_ns
            for file in files}  # fmt: skip


def test_all_tasks_and_runs_of_a_cell_load_its_model_once(cell_job, loads):
    job = cell_job(
        perplexity={"runs": 2, "heldout_sentences": 2},
        translation={"runs": 2, **TRANSLATION},
        summarization={"max_new_tokens": 3, "samples": 2},
        greedy_agreement={"prompt_tokens": 3, "max_new_tokens": 3},
    )
    files = evaluate_cell(job)
    assert loads == [Opening("transformers", torch.float32)]
    assert "translation/run-1/predictions.jsonl" in files and len(files) == 11
    for run in run_jobs(job):
        found = record(job, run["task"], run["run"])
        assert (found["task"], found["run"], found["seed"]) == (
            run["task"], run["run"], run["seed"],
        )  # fmt: skip
        assert found["cell"] == job["cell"]
        assert all(map(math.isfinite, found["metrics"].values()))
    before = dates(job)
    assert evaluate_cell(job) == files
    assert len(loads) == 1 and dates(job) == before


@pytest.mark.parametrize("changed", ["version", "corpus"])
def test_a_changed_version_or_corpus_computes_a_record_again(cell_job, changed):
    job = cell_job(perplexity={})
    evaluate_cell(job)
    before = dates(job)
    if changed == "version":
        job["tasks"]["perplexity"]["versions"] = {"task perplexity": 2}
    else:
        corpus = Path(job["inputs"]["read"]["perplexity"]["corpus"])
        (corpus / "heldout.txt").write_text("ένα\n", "utf-8")
    evaluate_cell(job)
    assert dates(job) != before


@pytest.mark.fault(
    "kill",
    "an evaluation is killed with SIGKILL",
    "at most the current run is lost; complete records are unchanged",
)
def test_after_a_kill_complete_records_are_kept(cell_job, monkeypatch):
    job = cell_job(perplexity={}, translation={"runs": 2, **TRANSLATION})
    kind = task_kind("translation")
    inner, calls = kind.evaluate, []

    def killed(model, tokenizer, run):
        calls.append(run["run"])
        if run["run"] == 1:
            raise KeyboardInterrupt
        return inner(model, tokenizer, run)

    with monkeypatch.context() as patch:
        patch.setitem(vars(kind), "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            evaluate_cell(job)
    before = dates(job)
    assert set(before) == {"perplexity-run-0", "translation-run-0"}
    evaluate_cell(job)
    after = dates(job)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"translation-run-1"}


@pytest.mark.fault(
    "kill",
    "an evaluation is interrupted in the middle of a run",
    "the run is repeated; predictions are unchanged",
)
def test_a_run_that_was_interrupted_is_repeated(cell_job, monkeypatch):
    from transformers import LlamaForCausalLM

    job = cell_job(translation=dict(TRANSLATION))
    evaluate_cell(job)
    whole = rows(job, "translation")
    Path(job["outputs"]["folder"], "translation", "run-0", ".completed.json").unlink()
    inner, calls = LlamaForCausalLM.generate, []

    def interrupted(*arguments, **given):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return inner(*arguments, **given)

    monkeypatch.setattr(LlamaForCausalLM, "generate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evaluate_cell(job)
    evaluate_cell(job)
    assert rows(job, "translation") == whole


@pytest.mark.fault(
    "cluster",
    "one of several tasks of an evaluation fails in every attempt",
    "the others are recorded and not repeated; the message names the task and the reason",
)
def test_other_tasks_are_recorded_if_one_fails(cell_job, loads):
    job = cell_job(
        translation={**TRANSLATION, "shots": 9},
        perplexity={"window": 1},
        summarization={"samples": 1},
        greedy_agreement={"prompt_tokens": 3},
    )
    with pytest.raises(UserError) as failure:
        evaluate_cell(job)
    message = str(failure.value)
    assert message.startswith("2 of 4 tasks failed: translation: config/tasks.yaml: task")
    assert "; perplexity: " in message and "\n" not in message
    assert set(dates(job)) == {"summarization-run-0", "greedy_agreement-run-0"}
    before = dates(job)
    job["tasks"]["translation"]["settings"]["shots"] = 0
    job["tasks"]["perplexity"]["settings"]["window"] = None
    evaluate_cell(job)
    assert len(loads) == 2
    assert {name: dates(job)[name] for name in before} == before


def test_the_model_is_freed_before_it_is_loaded_in_another_precision(cell_job, loads, monkeypatch):
    monkeypatch.delenv("LEXIGRAFT_PRECISION")
    monkeypatch.setattr(evaluate, "precision", lambda: torch.bfloat16)
    alive, inner = [], evaluate.load_cell

    def loaded(*given, **options):
        assert not any(model() for model in alive)
        model, tokenizer = inner(*given, **options)
        alive.append(weakref.ref(model))
        return model, tokenizer

    monkeypatch.setattr(evaluate, "load_cell", loaded)
    job = cell_job(
        translation=dict(TRANSLATION), perplexity={}, summarization={"samples": 1}, speed={
            "batch_sizes": [1], "prompts": 1, "new_tokens": 2, "repeats": 1,
        },
    )  # fmt: skip
    evaluate_cell(job)
    float32, bfloat16 = (Opening("transformers", one) for one in (torch.float32, torch.bfloat16))
    # Bits per byte are computed as in training.
    assert loads == [float32, bfloat16._replace(autocast=True), bfloat16]
    assert record(job, "translation")["details"]["precision"] == "float32"
    assert record(job, "speed")["details"]["precision"] == "bfloat16"


def test_one_export_serves_all_tasks_of_vllm(cell_job, loads, monkeypatch):
    install(monkeypatch)
    monkeypatch.setenv("LEXIGRAFT_ENGINE", "vllm")
    job = cell_job(
        translation={"runs": 2, **TRANSLATION},
        summarization={"max_new_tokens": 3, "samples": 2},  # longer prompts
        named={"kind": "translation", "engine": "transformers", **TRANSLATION},
        beams={"kind": "translation", "beams": 2, **TRANSLATION},
        perplexity={"heldout_sentences": 2},
    )
    evaluate_cell(job)
    assert loads == [Opening(engine, torch.float32) for engine in ("transformers", "vllm")]
    assert len(LLM.instances) == 1
    engines = {task: record(job, task)["details"].get("engine") for task in job["tasks"]}
    assert engines == {
        "translation": "vllm 0.30.0", "summarization": "vllm 0.30.0",
        "named": "transformers", "beams": "transformers", "perplexity": None,
    }  # fmt: skip


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_vllm_generates_greedy_texts_if_it_is_installed_and_there_is_a_gpu(
    installed, device, monkeypatch
):
    install(monkeypatch)
    if not installed:
        monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "float32")
    monkeypatch.setattr(evaluate, "device", lambda: torch.device(device))
    greedy, searching = {"kind": "translation"}, {"kind": "translation", "beams": 5}
    expected = "vllm" if installed and device == "cuda" else "transformers"
    assert evaluate._opening(greedy).engine == expected
    assert evaluate._opening(greedy | {"engine": "auto"}).engine == expected
    assert evaluate._opening(searching).engine == "transformers"
    assert evaluate._opening({"kind": "perplexity"}).engine == "transformers"
    monkeypatch.setenv("LEXIGRAFT_ENGINE", "transformers")
    assert evaluate._opening(greedy).engine == "transformers"
    assert evaluate._opening(greedy | {"engine": "vllm"}).engine == "vllm"
    monkeypatch.setenv("LEXIGRAFT_ENGINE", "VLLM")
    with pytest.raises(UserError, match=r"^LEXIGRAFT_ENGINE .*: 'VLLM' is not"):
        evaluate._opening(greedy)


def test_changed_settings_repeat_only_their_task(cell_job):
    job = cell_job(perplexity={"runs": 2}, translation={**TRANSLATION})
    evaluate_cell(job)
    before = dates(job)
    job["tasks"]["translation"]["settings"]["max_new_tokens"] = 5
    evaluate_cell(job)
    after = dates(job)
    assert {name for name in before if before[name] != after[name]} == {"translation-run-0"}


@pytest.mark.parametrize("changed", ["version", "corpus", "cell"])
def test_a_changed_version_corpus_or_cell_computes_a_record_again(cell_job, cell, changed):
    job = cell_job(perplexity={})
    evaluate_cell(job)
    before = dates(job)
    if changed == "version":
        job["tasks"]["perplexity"]["versions"] = {"task perplexity": 2}
    elif changed == "corpus":
        corpus = Path(job["inputs"]["read"]["perplexity"]["corpus"])
        (corpus / "heldout.txt").write_text("ένα\n", "utf-8")
    else:
        card = json.loads((cell / "card.json").read_text())
        card["files"]["changed.safetensors"]["sha256"] = "0"
        del card["card_sha256"]
        (cell / "card.json").write_text(json.dumps(card))
        with pytest.raises(UserError, match="train the cell again"):
            evaluate_cell(job)
        return
    evaluate_cell(job)
    assert dates(job) != before


def test_fine_tuning_always_computes_in_float32(monkeypatch):
    monkeypatch.setenv("LEXIGRAFT_PRECISION", "bfloat16")
    assert evaluate._opening({"kind": "tagging"}).dtype == torch.float32
    assert evaluate._opening({"kind": "translation"}).dtype == torch.bfloat16


def test_a_changed_file_of_prompts_repeats_only_the_tasks_that_read_it(cell_job, tmp_path):
    prompts = Path(shutil.copytree(REPOSITORY / "config" / "prompts", tmp_path / "prompts"))
    job = cell_job(perplexity={}, translation=dict(TRANSLATION), summarization={"samples": 1})
    for task, texts in job["inputs"]["read"].items():
        texts["prompts"] = {one: str(prompts / f"{one}.yaml") for one in (task, "names")}
    del job["inputs"]["read"]["perplexity"]["prompts"]
    evaluate_cell(job)
    before = dates(job)
    file = prompts / "translation.yaml"
    file.write_text(file.read_text("utf-8") + "# a comment\n", "utf-8")
    evaluate_cell(job)
    after = dates(job)
    assert {name for name in before if before[name] != after[name]} == {"translation-run-0"}
