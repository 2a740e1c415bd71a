"""The precision of a job is one that its hardware has."""

import os
import signal

import pytest
import torch

from lexigraft import UserError, hardware, machine


@pytest.fixture
def gpu(monkeypatch):
    """`gpu(native)`: a GPU that computes in bfloat16 by itself, or one that emulates it."""

    def build(native):
        monkeypatch.delenv(hardware.PRECISION, raising=False)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Tesla T4")
        monkeypatch.setattr(
            torch.cuda,
            "is_bf16_supported",
            lambda including_emulation=True: native or including_emulation,
        )

    hardware._has_bfloat16.cache_clear()
    yield build
    hardware._has_bfloat16.cache_clear()


def test_a_gpu_that_emulates_bfloat16_computes_in_float32_and_the_log_says_so_once(gpu, caplog):
    gpu(native=False)
    assert [hardware.precision() for _ in range(3)] == 3 * [torch.float32]
    assert [record.message.split()[:2] for record in caplog.records] == [["Tesla", "T4"]]


@pytest.mark.parametrize("place", ["cpu", "meta"])
@pytest.mark.parametrize("ending", [None, signal.SIGKILL])
def test_a_cpu_that_lists_bfloat16_and_dies_of_it_computes_in_float32(
    monkeypatch, caplog, ending, place
):
    """Also where models are built, on the meta device."""

    def linear(weights, _):
        if ending and weights.device.type == "cpu":
            os.kill(os.getpid(), ending)

    monkeypatch.delenv(hardware.PRECISION, raising=False)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    hardware._survives_bfloat16.cache_clear()
    try:
        expected = torch.float32 if ending else torch.bfloat16
        with torch.device(place):
            assert [hardware.precision() for _ in range(2)] == 2 * [expected]
        assert len(caplog.records) == bool(ending)
    finally:
        hardware._survives_bfloat16.cache_clear()


def test_a_wrong_setting_in_the_environment_is_one_line(monkeypatch):
    monkeypatch.setenv(hardware.PRECISION, "half")
    for read in (hardware.precision, lambda: machine.job_environment({})):
        with pytest.raises(UserError, match=r"^LEXIGRAFT_PRECISION .*: 'half' is not one"):
            read()


def test_settings_go_through_the_environment_and_back(monkeypatch):
    settings = {"pass_tokens": 9, "save_minutes": 0.5, "engine": "auto"}
    for name, value in machine.job_environment(settings).items():
        monkeypatch.setenv(name, value)
    assert {name: machine.setting(name) for name in settings} == settings
