"""Parts of the programs in benchmarks/ that a rehearsal on the CPU does not reach."""

import sys

import pytest
import yaml

from tests.workflow.conftest import REPOSITORY
from workflow.stages.study import open_study
from workflow.status.states import DONE, states


@pytest.fixture
def programs(monkeypatch):
    """Import a program by its name; afterwards neither it nor what it imports is left."""
    known = set(sys.modules)
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    yield __import__
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(REPOSITORY / "benchmarks")):
            del sys.modules[name]


def test_looking_for_stop_strings_is_measured_beside_a_step(programs):
    from transformers import LlamaConfig, LlamaForCausalLM

    generation = programs("generation")
    config = LlamaConfig(
        vocab_size=256, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
        num_attention_heads=1,
    )  # fmt: skip
    found = generation.watch(LlamaForCausalLM(config), generation.byte_tokens(), 1)
    assert found["before"] > 0 and found["after"] > 0


def test_the_status_is_measured_of_jobs_that_are_done(programs, tmp_path, monkeypatch):
    planning = programs("planning")
    monkeypatch.setitem(planning.AXES, 1, (1, 1, 1))
    monkeypatch.setattr(planning, "INITIALIZERS", ("mean",))
    monkeypatch.setattr(planning, "STRATEGIES", ("lora-clm-512",))
    monkeypatch.chdir(tmp_path)
    study = tmp_path / planning.STUDY
    study.write_text(yaml.safe_dump(planning.grid(1, tmp_path)))
    planning.leave_outputs(tmp_path)
    opened = open_study(str(study))
    found = states(opened, opened.jobs())
    assert found
    assert {state.name for state in found.values()} == {DONE}
