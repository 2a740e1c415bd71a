"""A half-written checkpoint is never used, and another job's never either."""

import json
from types import SimpleNamespace

import pytest
from transformers import TrainerControl, TrainerState

from lexigraft.artifacts.completion import fingerprint
from lexigraft.training import checkpointing
from lexigraft.training.checkpointing import (
    COMPLETE,
    Checkpointing,
    SavePolicy,
    checkpoint_folder,
    newest_complete,
)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "card.json").write_text('{"files": {"train.txt": "abc"}, "seconds": 1}')
    inputs = {"corpus": str(tmp_path / "corpus"), "initialization": None}
    return {
        "settings": {"epochs": 2},
        "inputs": inputs,
        "seed": ["s", "t"],
        "versions": {"stage": 1},
    }


def write(folder, step, sealed=True):
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir()
    (checkpoint / "trained.safetensors").write_bytes(b"x" * 10)
    if sealed:
        state = TrainerState(global_step=step)
        keeper = Checkpointing(folder, SavePolicy())
        keeper.on_save(None, state, TrainerControl())
    return checkpoint


def test_an_incomplete_checkpoint_is_ignored(tmp_path):
    whole = write(tmp_path, 5)
    half = write(tmp_path, 10, sealed=False)
    assert newest_complete(tmp_path) == whole
    assert not half.exists()
    (whole / "trained.safetensors").write_bytes(b"x" * 9)
    assert newest_complete(tmp_path) is None


def test_checkpoints_are_ordered_by_step(tmp_path):
    for step in (9, 10):
        write(tmp_path, step, sealed=False)
    for checkpoint in tmp_path.iterdir():
        sizes = {"trained.safetensors": 10}
        (checkpoint / COMPLETE).write_text(json.dumps(sizes))
    assert newest_complete(tmp_path).name == "checkpoint-10"


def test_other_jobs_checkpoints_of_the_cell_are_deleted(tmp_path):
    old = checkpoint_folder(tmp_path, "old")
    (old / "file").touch()
    assert checkpoint_folder(tmp_path, "new").is_dir()
    assert not old.exists()


def test_saves_are_spaced_by_time_and_by_their_own_duration(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(checkpointing.time, "monotonic", lambda: now)
    keeper = Checkpointing(tmp_path, SavePolicy(seconds=60, factor=20))

    def asks(at, step=1):
        nonlocal now
        now = at
        control = TrainerControl()
        state = TrainerState(global_step=step, max_steps=9)
        keeper.on_step_end(SimpleNamespace(save_strategy="no"), state, control)
        return control.should_save

    assert not asks(59)
    assert not asks(60, step=9)  # after the last step the phase itself is written
    assert asks(60)
    now = 70.0  # the save took 10 s, so the next may come 200 s later
    (tmp_path / "checkpoint-1").mkdir()
    keeper.on_save(None, TrainerState(global_step=1), TrainerControl())
    assert not asks(269)
    assert asks(270)


@pytest.mark.parametrize(
    "change", [{"settings": {"epochs": 3}}, {"seed": ["s"]}, {"versions": {"stage": 2}}]
)
def test_the_digest_follows_settings_seed_and_code(job, change):
    assert fingerprint(job) != fingerprint({**job, **change})


def test_the_digest_follows_what_the_inputs_hold_and_not_when_they_were_made(job, tmp_path):
    card, digest = tmp_path / "corpus" / "card.json", fingerprint(job)
    card.write_text('{"files": {"train.txt": "abc"}, "seconds": 2}')
    assert fingerprint(job) == digest
    card.write_text('{"files": {"train.txt": "abd"}, "seconds": 2}')
    assert fingerprint(job) != digest
