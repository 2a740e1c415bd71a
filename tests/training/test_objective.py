"""Objectives are found by name, and declare what they need without importing torch."""

import sys
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.setting_types import MASKED
from lexigraft.training import registry
from lexigraft.training.objective import TokenCost
from lexigraft.training.objectives.clm import CausalModeling
from lexigraft.training.registry import objective, objectives, register
from lexigraft.training.settings import Phase, left_out, read_strategy
from tests.conftest import run_command


def test_every_file_of_the_folder_is_an_objective():
    assert objectives() == ["aim", "alm", "clm", "distill", "mlm", "mtp"]
    assert all(objective(name).__module__.endswith(f".{name}") for name in objectives())


def test_an_objective_declares_its_models_teacher_and_options():
    assert [name for name in objectives() if objective(name).model_kind == MASKED] == ["mlm"]
    taught = [name for name in objectives() if objective(name).needs_teacher]
    assert taught == ["aim", "alm", "distill"]
    assert objective("mtp").keys() == {"extra_head", "extra_logits"}
    assert {objective(name).version for name in objectives()} == {1}
    assert objective("distill").title == "DISTILL"


def test_an_objective_declares_its_teacher_and_cost():
    def phase(name, **keys):
        entry = {"trainable": ["all"], "length": 8, "objective": name, **keys}
        return Phase.model_validate(entry)

    assert phase("distill", distill={"teacher": "large"}).teacher("own") == "large"
    assert phase("aim").teacher("own") == "own"
    assert phase("clm").teacher("own") is None
    assert objective("aim").cost(phase("aim")) == TokenCost(1 / 3, 1 / 3, teacher_tokenizes=True)


def test_an_objective_from_outside_is_registered(monkeypatch):
    monkeypatch.setattr(registry.OBJECTIVES, "registered", {})

    class MyPhase(Phase):
        strength: float = left_out(0.1, "strength", ge=0)

    class MyObjective(CausalModeling):
        name = "my-objective"
        phase = MyPhase

    assert register(MyObjective) is MyObjective
    settings = {"trainable": ["all"], "length": 8, "objective": "my-objective", "strength": 0.5}
    assert read_strategy({"phases": [settings]}).phases[0].strength == 0.5
    with pytest.raises(UserError, match="strength: only objective my-objective takes this key"):
        read_strategy({"phases": [{**settings, "objective": "clm"}]})


@pytest.mark.bad_input("config", "two objectives of one name", "one line names it")
def test_two_objectives_of_one_name_are_refused(monkeypatch):
    monkeypatch.setattr(registry.OBJECTIVES, "registered", {})
    with pytest.raises(UserError, match="'clm' exists already"):
        register(type("Other", (CausalModeling,), {"name": "clm"}))


def test_declarations_load_no_heavy_library():
    code = (
        "import sys; from lexigraft.training.registry import objective, objectives;"
        "[objective(name) for name in objectives()];"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    repository = Path(__file__).resolve().parents[2]
    result = run_command([sys.executable, "-c", code], cwd=repository, check=True)
    assert result.stdout.strip() == "[]"
