"""The causal architectures of transformers: each is adapted or refused as docs/models.md says."""

from collections import Counter

import pytest

from lexigraft.setting_types import CAUSAL
from tests.more.architecture_matrix import KINDS, check, recorded


@pytest.mark.parametrize("model_type", KINDS[CAUSAL][1])
def test_a_causal_architecture(model_type, tmp_path):
    check(CAUSAL, model_type, tmp_path)


def test_at_least_165_causal_architectures_are_adapted_and_none_fails():
    outcomes = Counter((kind, result) for (kind, _), (result, _) in recorded().items())
    assert outcomes[CAUSAL, "adapted"] >= 165
    assert {result for _, result in outcomes} == {"adapted", "refused", "not tried"}
