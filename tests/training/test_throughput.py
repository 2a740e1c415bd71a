"""Speed is measured against the hardware's peak, and only where that is known."""

import pytest

from lexigraft.machine import known_device
from lexigraft.training import training_log
from lexigraft.training.training_log import (
    TrainingLog,
    flops_per_token,
    peak_tokens_per_second,
    summarize_run,
)


@pytest.mark.parametrize("tied", [True, False])
def test_a_token_takes_six_operations_a_parameter_but_no_looking_up(tiny_llama, tied):
    # Llama, 4 layers: attention 32 x (32 + 16 + 16 + 32), gated MLP 3 x 32 x 64, two norms of 32;
    # a final norm; 300 rows of the head. Untied, the input's 300 rows are looked up.
    layers = 4 * (32 * 96 + 3 * 32 * 64 + 2 * 32) + 32
    assert flops_per_token(tiny_llama(300, tied=tied)) == 6 * (layers + 300 * 32)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA A10", None),
        ("Quadro P400", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, known):
    assert known_device(name) == known


def test_a_cpu_has_no_peak(tiny_llama, monkeypatch):
    monkeypatch.setattr(training_log, "device", lambda: __import__("torch").device("cpu"))
    assert peak_tokens_per_second(tiny_llama(300)) is None


def test_full_speed_is_that_of_all_gpus_together(tiny_llama, monkeypatch):
    import torch

    monkeypatch.setattr(training_log, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(training_log, "precision", lambda: torch.bfloat16)
    monkeypatch.setattr(training_log, "world_size", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    model = tiny_llama(300)
    assert peak_tokens_per_second(model) == pytest.approx(4 * 989e12 / flops_per_token(model))
    monkeypatch.setattr(training_log, "precision", lambda: torch.float32)
    assert peak_tokens_per_second(model) is None


def test_a_run_as_a_whole_has_the_mean_over_its_time(tmp_path):
    training_log = TrainingLog(tmp_path / "log.jsonl")
    training_log.write({"event": "heldout", "step": 0, "bits_per_byte": 2.0})
    # 300 tokens in one second, then 100 in three.
    for step, (tokens, seconds, share) in enumerate([(300, 1.0, 0.6), (400, 3.0, 0.2)], start=1):
        training_log.write(
            {"event": "step", "step": step, "tokens": tokens, "seconds": seconds}
            | {"share_of_peak": share}
        )
    training_log.write({"event": "heldout", "step": 2, "bits_per_byte": 1.5})
    facts = summarize_run(training_log)
    assert facts["tokens_per_second"] == 100 and facts["share_of_peak"] == pytest.approx(0.3)
    assert facts["processes"] == 1 and not facts["sharded"]
