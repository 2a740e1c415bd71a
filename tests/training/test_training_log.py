"""The training log: its lines, progress, speed and services."""

import logging
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.inference.likelihood import Likelihood
from lexigraft.machine import known_device
from lexigraft.training import training_log as module
from lexigraft.training.distributed import Computation
from lexigraft.training.progress import describe_progress
from lexigraft.training.training_log import (
    HeldOutCurve,
    StepLogger,
    TrainingLog,
    flops_per_token,
    open_report,
    peak_tokens_per_second,
    summarize_run,
)
from lexigraft.training.vocadt_adapter import AdaptedEmbedding, AdaptedHead, DenseAdapter

COMPUTATION = Computation(torch.nn.Identity())


@pytest.fixture
def training_log(tmp_path):
    return TrainingLog(tmp_path / "log.jsonl")


def heldout(training_log, nats=8.0, steps=10, points=1):
    score = Likelihood(nats=nats, tokens=4, bytes=4, characters=4)
    return HeldOutCurve(
        training_log, lambda *_: score, {"": ["text"]}, steps=steps, points=points, name="a/b"
    )


def test_resuming_drops_later_and_incomplete_lines(training_log):
    for step in (0, 1, 2, 3):
        training_log.write({"event": "step", "step": step})
    with training_log.file.open("a") as file:
        file.write('{"event": "st')
    training_log.resume_at(2)
    assert [line["step"] for line in training_log.lines()] == [0, 1, 2]
    training_log.write({"event": "step", "step": 3})
    assert [line["step"] for line in training_log.lines()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("steps", "points", "expected"),
    [(12, 3, [0, 3, 6, 9, 12]), (10, 0, [0, 10]), (0, 3, [0]), (1, 3, [0, 1])],
)
def test_held_out_points_are_equally_spaced_from_start_to_end(
    training_log, steps, points, expected
):
    curve = heldout(training_log, steps=steps, points=points)
    for step in range(steps + 1):
        curve.evaluate(step, 0, COMPUTATION)
    assert [line["step"] for line in training_log.lines("heldout")] == expected


def test_a_logged_point_is_not_scored_again(training_log):
    heldout(training_log, nats=8.0).evaluate(0, 0, COMPUTATION)
    heldout(training_log, nats=9.0).evaluate(0, 0, COMPUTATION)
    (line,) = training_log.lines("heldout")
    assert line["perplexity"] == pytest.approx(np.exp(2))


@pytest.mark.fault(
    "machine",
    "a loss, a gradient or a held-out likelihood is not finite",
    "training stops with a one-line error message that names the cell and the step",
)
def test_a_heldout_likelihood_that_is_not_finite_stops_the_run(training_log):
    with pytest.raises(UserError, match="a/b: the held-out likelihood is nan after step 5"):
        heldout(training_log, nats=float("nan")).evaluate(5, 0, COMPUTATION)


@pytest.mark.fault(
    "machine",
    "a loss, a gradient or a held-out likelihood is not finite",
    "training stops with a one-line error message that names the cell and the step",
)
@pytest.mark.parametrize(
    ("loss", "gradient"), [(float("nan"), 1.0), (float("inf"), 1.0), (2.0, float("nan"))]
)
def test_a_loss_or_gradient_that_is_not_finite_stops_the_run(training_log, loss, gradient):
    log = StepLogger(training_log, heldout(training_log), phase=1, offset=40, tokens=np.arange(5))
    with pytest.raises(UserError, match=r"a/b: the loss is .* at step 42; lower learning_rate"):
        log.on_log(
            None,
            SimpleNamespace(global_step=2),
            None,
            logs={"loss": loss, "grad_norm": gradient, "learning_rate": 1.0},
        )
    assert training_log.lines() == []


@pytest.fixture
def run_phase(training_log, monkeypatch):
    """`run_phase(losses, ...)`: log a step of 100 tokens and 10 seconds for each loss."""
    clock = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(module, "peak_memory", lambda: 3 << 29)

    def run(losses, phase=0, offset=0, peak_speed=None, steps=None):
        tokens = 100 * (offset + np.arange(len(losses) + 1))
        curve = heldout(training_log, nats=8.0 - offset, steps=steps or len(losses), points=0)
        logger = StepLogger(training_log, curve, phase, offset, tokens, peak_speed)
        state = SimpleNamespace(global_step=0, max_steps=len(losses))
        logger.on_train_begin(None, state, None, model=COMPUTATION)
        for state.global_step, loss in enumerate(losses, 1):
            logger.on_step_begin(None, state, None)
            clock[0] += 10.0
            logs = {"loss": loss, "grad_norm": 1.0, "learning_rate": 1e-3}
            logger.on_log(None, state, None, logs=logs, model=COMPUTATION)
        logger.on_train_end(None, state, None)

    return run


def test_progress_is_logged_after_the_first_step_the_last_and_every_half_minute(run_phase, caplog):
    caplog.set_level(logging.INFO)
    run_phase([8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0], peak_speed=40.0)
    told = [record.getMessage() for record in caplog.records]
    assert [text.split(" of")[0] for text in told] == [f"a/b: step {n}" for n in (1, 4, 7, 9)]
    assert told[1] == (
        "a/b: step 4 of 9 (44%), loss 6.500, held-out bits per byte 2.885, "
        "10 tokens/s (25% of peak), peak memory 1.5 GiB, 0:00:50 left"
    )


def test_progress_is_that_of_the_phase_without_incomplete_lines(run_phase, training_log):
    assert describe_progress(training_log.file) == ""
    run_phase([9.0] * 5, steps=100)
    run_phase([2.0, 4.0], phase=1, offset=5, steps=100)
    with training_log.file.open("a") as file:
        file.write('{"event": "heldout", "st')
    told = describe_progress(training_log.file)
    assert told.startswith(
        "step 7 of 100 (7%), loss 3.000, held-out bits per byte 2.885, 10 tokens"
    )
    with training_log.file.open("a") as file:
        file.write('ep": 7, "bits_per_byte": 1.25}\n')
    told = describe_progress(training_log.file)
    assert "held-out bits per byte 1.250 (2.885 before training), 10 tokens" in told


@pytest.mark.parametrize("service", ["tensorboard", "wandb"])
def test_a_service_receives_the_lines_of_the_log(
    run_phase, training_log, tmp_path, monkeypatch, service
):
    """Of stand-ins for both packages, which the environment does not have."""
    sent, begun = {}, []

    class Writer:
        def __init__(self, folder, purge_step):
            begun.append((folder, purge_step))

        def add_scalar(self, name, value, global_step):
            sent[name, global_step] = value

        def flush(self):
            pass

    def log(numbers, step):
        sent.update({(name, step): value for name, value in numbers.items()})

    def init(**options):
        begun.append(options["name"])
        return SimpleNamespace(log=log)

    tensorboard, wandb = ModuleType("tensorboard"), ModuleType("wandb")
    tensorboard.SummaryWriter, wandb.init, wandb.Error = Writer, init, RuntimeError
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", tensorboard)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    monkeypatch.setenv("LEXIGRAFT_REPORT_TO", service)
    training_log.report = open_report("a/b", tmp_path, 7)
    run_phase([3.0, 2.0])
    run_phase([1.0], phase=1, offset=2)
    assert begun == [(str(tmp_path / "tensorboard"), 8) if service == "tensorboard" else "a/b"]
    for event, prefix in (("step", "train"), ("heldout", "heldout")):
        for line in training_log.lines(event):
            for key in {"loss", "grad_norm", "tokens_per_second", "bits_per_byte"} & line.keys():
                assert sent.pop((f"{prefix}/{key}", line["step"])) == line[key]
    assert not [name for name, _ in sent if name.endswith(("loss", "byte", "step", "peak"))]


@pytest.mark.parametrize("service", ["wandb"])
def test_a_service_that_is_not_installed_is_named(tmp_path, monkeypatch, service):
    monkeypatch.setitem(sys.modules, service, None)
    monkeypatch.setenv("LEXIGRAFT_REPORT_TO", service)
    with pytest.raises(UserError, match=f"report_to: {service} is not installed; run `pip install"):
        open_report("a/b", tmp_path, 0)


@pytest.mark.parametrize("tied", [True, False])
def test_a_token_takes_two_flops_per_parameter_without_lookups(tiny_llama, tied):
    # Llama, 4 layers: attention 32 x (32 + 16 + 16 + 32), gated MLP 3 x 32 x 64, two norms of 32;
    # a final norm; 300 rows of the head. Untied, the input's 300 rows are looked up.
    layers = 4 * (32 * 96 + 3 * 32 * 64 + 2 * 32) + 32
    assert flops_per_token(tiny_llama(300, tied=tied)) == 2 * (layers + 300 * 32)


def test_tokens_of_mistral_and_of_its_adapters_take_the_flops_of_vocadts_appendix_d():
    import torch
    from transformers import AutoModelForCausalLM, MistralConfig

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(MistralConfig(num_key_value_heads=8))
        assert round(flops_per_token(model) / 1e9, 1) == 14.2
        adapters = [object.__new__(DenseAdapter) for _ in range(2)]
        for adapter in adapters:
            torch.nn.Module.__init__(adapter)
            adapter.weights = torch.nn.Parameter(torch.empty(50_000, 32_000))
        embeddings = AdaptedEmbedding(model.model.embed_tokens, adapters[0], np.arange(50_000))
        model.model.embed_tokens = embeddings
        model.lm_head = AdaptedHead(model.lm_head, adapters[1])
    flops = flops_per_token(model)
    assert round(flops / 1e9, 1) == 17.7
    assert round(128 * 512 * flops / 1e12, -1) == 1160


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
    ],
)
def test_a_gpu_is_known_by_its_name(name, known):
    assert known_device(name) == known


def test_peak_speed_is_that_of_all_gpus(tiny_llama, monkeypatch):
    import torch

    monkeypatch.setattr(module, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(module, "precision", lambda: torch.bfloat16)
    monkeypatch.setattr(module, "world_size", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    model = tiny_llama(300)
    peak = 4 * 989e12 / (3 * flops_per_token(model))
    assert peak_tokens_per_second(model) == pytest.approx(peak)
    monkeypatch.setattr(module, "precision", lambda: torch.float32)
    assert peak_tokens_per_second(model) is None


def test_the_speed_of_a_run_is_the_mean_over_its_time(tmp_path):
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
