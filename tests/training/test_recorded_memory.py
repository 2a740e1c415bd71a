"""The peaks that docs/gpu.md shows are those of the code as it is."""

import pytest
from transformers import AutoConfig

from benchmarks.memory import MODELS, NEW_TOKENS
from lexigraft.training.memory import simulated_peak
from lexigraft.training.settings import read_strategy
from workflow.config.registries import load_registries
from workflow.pages import DOCS, Record


@pytest.mark.parametrize(
    ("model", "name"), [("xglm-1.7b", "2x2ls-mtp-512"), ("qwen2-7b", "2x2ls-clm-512")]
)
def test_no_peak_has_moved_by_a_twentieth(model, name):
    kind, own = MODELS[model]
    config = AutoConfig.for_model(kind, **own)
    strategy = read_strategy(load_registries()["strategies"][name])
    peak = simulated_peak(config, strategy, config.vocab_size + NEW_TOKENS) / 2**30
    recorded = Record(DOCS / "results" / "memory.json")
    known = recorded.value("peaks", "gibibytes", model=model, strategy=name)
    assert peak == pytest.approx(known, rel=0.05)
