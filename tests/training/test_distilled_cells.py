"""Whole cells that learn from a teacher, and that follow one schedule through their phases."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lexigraft.artifacts.completion import fingerprint
from lexigraft.training.train import train_cell
from lexigraft.training.training_log import TrainingLog
from tests.training.interruption import EAGER, interrupted_at
from tests.training.trained import folder_of, same_bits

SHARED = {
    "batch_sequences": 4, "epochs": 1, "learning_rate": 1e-2, "gradient_checkpointing": False,
    "curve": {"sentences": 2, "points": 1},
}  # fmt: skip
DISTILL = {
    "trainable": ["all"], "length": 32, "objective": "distill",
    "distill": {"teacher": "large", "temperature": 2.0, "weight": 0.75},
}  # fmt: skip
PROGRESSIVE = [
    {"trainable": ["embeddings", "head"], "length": 32, "share": 0.5, "learning_rate": 2e-2},
    {"trainable": ["all"], "length": 32, "share": 0.5},
]


@pytest.fixture
def distilled(training_setup, tiny_llama, without_bos):
    """`distilled(phases)`: a job on a small training setup whose teacher is another model."""
    place = training_setup(sentences=6)
    large = place.results / "source" / "large"
    teacher = tiny_llama(330, tied=False, seed=5)
    with torch.no_grad():
        teacher.lm_head.weight *= 20  # sure of itself,
        for name, parameter in teacher.model.layers.named_parameters():
            if "norm" not in name:
                parameter.zero_()  # and looks at one token alone, which is learned fast
    teacher.save_pretrained(large)
    without_bos.save_pretrained(large)
    (large / "source.json").write_text(json.dumps({"kind": "folder", "path": "."}))
    samples = place.results / "corpus" / "te" / "samples" / "tasks" / "samples.jsonl"
    samples.parent.mkdir(parents=True)
    rows = [{"prompt": f"{n} + 1 =", "answer": f" {n + 1}"} for n in range(9)]
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def job(phases, **settings):
        made = place.job({**SHARED, "phases": phases, **settings})
        made["inputs"] |= {"teacher": str(large), "samples": {"tasks": str(samples)}}
        return made

    return job


def steps_of(job):
    return TrainingLog(folder_of(job) / "log.jsonl").lines("step")


def test_the_log_of_the_first_step_is_that_of_whole_logits(distilled):
    """Of the first batch of a mixture: blocks of text, and answers of samples."""
    from transformers import AutoModelForCausalLM

    from lexigraft.inference.chunked_logits import targets_ahead
    from lexigraft.source.model import open_tokenizer
    from lexigraft.training.data import collate
    from lexigraft.training.plan import plan_phases
    from lexigraft.training.settings import read_strategy

    job = distilled([{**DISTILL, "data": {"monolingual": 0.5, "tasks": 0.5}}])
    train_cell(job)
    source, large = (
        AutoModelForCausalLM.from_pretrained(job["inputs"][name]) for name in ("source", "teacher")
    )
    tokenizer = open_tokenizer(job["inputs"]["tokenizer"])
    sequences = plan_phases(read_strategy(job["settings"]), tokenizer, job)[0]
    batch = collate([sequences[index] for index in range(4)])
    targets = targets_ahead(batch.pop("labels"), 1)
    counted, size = targets != -100, len(tokenizer)
    with torch.no_grad():
        logits, soft = source(**batch).logits[counted], large(**batch).logits[counted]
    nats = torch.nn.functional.cross_entropy(logits, targets[counted])
    ours, theirs = (torch.log_softmax(some[:, :size] / 2, -1) for some in (logits, soft))
    kl = 4 * (theirs.exp() * (theirs - ours)).sum(-1).mean()
    first = steps_of(job)[0]
    assert first["next_loss"] == pytest.approx(nats.item(), rel=1e-4)
    assert first["kl_loss"] == pytest.approx(kl.item(), rel=1e-4)
    assert first["loss"] == pytest.approx(0.25 * nats.item() + 0.75 * kl.item(), rel=1e-4)
    assert (
        json.loads((folder_of(job) / "card.json").read_text())["samples"]["tasks"]["samples"] == 9
    )


def test_a_checkpoint_of_another_teacher_or_other_samples_is_not_resumed(distilled):
    job = distilled([DISTILL])
    digest = fingerprint(job)
    samples = Path(job["inputs"]["samples"]["tasks"])
    for folder, name in ((Path(job["inputs"]["teacher"]), "new"), (samples.parent, samples.name)):
        (folder / "card.json").write_text(json.dumps({"files": {name: {"sha256": "other"}}}))
        changed = fingerprint(job)
        assert changed != digest
        digest = changed


@pytest.mark.fault(
    "kill",
    "training is interrupted early, late, or between two phases",
    "it resumes from its last checkpoint; the result is bit-identical",
)
def test_an_interrupted_run_is_bit_identical_to_an_uninterrupted_one(distilled):
    phases = [PROGRESSIVE[0], {**DISTILL, "share": 0.5}]
    job = distilled(phases)
    train_cell(job)
    whole, log = load_file(folder_of(job) / "changed.safetensors"), steps_of(job)
    second = min(line["step"] for line in log if line["phase"] == 1)
    with interrupted_at(second + 1):
        train_cell(job, EAGER)
    train_cell(job, EAGER)
    assert same_bits(whole, load_file(folder_of(job) / "changed.safetensors"))
    assert [line["learning_rate"] for line in steps_of(job)] == [
        line["learning_rate"] for line in log
    ]
