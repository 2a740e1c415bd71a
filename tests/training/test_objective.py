"""Objectives are found by name, and declare what they need without importing torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from lexigraft.errors import UserError
from lexigraft.source.model import MASKED
from lexigraft.training.registry import objective, objective_file, objectives


def test_every_file_of_the_folder_is_an_objective():
    assert objectives() == ["aim", "alm", "clm", "distill", "mlm", "mtp"]
    assert all(objective(name).__module__.endswith(f".{name}") for name in objectives())


def test_an_objective_declares_its_models_teacher_and_options():
    assert [name for name in objectives() if objective(name).model_kind == MASKED] == ["mlm"]
    taught = [name for name in objectives() if objective(name).needs_teacher]
    assert taught == ["aim", "alm", "distill"]
    assert objective("mtp").options == ("extra_head", "extra_logits")


def test_the_file_of_an_objective_is_known_without_importing_it():
    repository = Path(__file__).resolve().parents[2]
    assert all((repository / objective_file(name)).is_file() for name in objectives())


def test_an_unknown_objective_is_refused():
    with pytest.raises(UserError, match="objective"):
        objective("mlmm")


def test_declarations_load_no_heavy_library():
    code = (
        "import sys; from lexigraft.training.registry import objective, objectives;"
        "[objective(name) for name in objectives()];"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    repository = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
