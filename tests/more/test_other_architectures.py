"""Encoders, and models that also read images or sounds: docs/models.md says what happens."""

import pytest

from lexigraft.setting_types import CAUSAL
from tests.more.architecture_matrix import KINDS, check

OTHERS = [(kind, each) for kind, (_, types) in KINDS.items() if kind != CAUSAL for each in types]


@pytest.mark.parametrize(("kind", "model_type"), OTHERS)
def test_an_architecture(kind, model_type, tmp_path):
    check(kind, model_type, tmp_path)
