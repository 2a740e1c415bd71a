"""What a job took is noted beside its outputs, however it ended."""

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from lexigraft.usage import MemoryGrowth, peak_resident_bytes, read_usage, recorded


def test_each_attempt_leaves_a_line_that_says_how_it_ended(tmp_path):
    with pytest.raises(ValueError, match="no"), recorded(tmp_path):
        raise ValueError("no")
    with recorded(tmp_path):
        pass
    assert [line["ended"] for line in read_usage(tmp_path)] == ["failed", "done"]


def test_seconds_count_from_the_start_of_the_process_imports_included(tmp_path):
    code = (
        "import time; time.sleep(0.5)\n"
        "from lexigraft.usage import recorded\n"
        f"with recorded({str(tmp_path)!r}): time.sleep(0.1)"
    )
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True)
    took = time.monotonic() - began
    assert 0.6 <= read_usage(tmp_path)[0]["seconds"] <= took + 0.1


@pytest.mark.fault(
    "damage", "a line of a job's resource usage is damaged", "it is excluded from times and costs"
)
def test_a_broken_line_is_left_out_and_a_folder_without_any_has_none(tmp_path):
    with recorded(tmp_path):
        pass
    file = tmp_path / "usage.jsonl"
    file.write_text('{"started": "20' + "\n" + file.read_text() + "[1]\n")
    assert len(read_usage(tmp_path)) == 1
    assert read_usage(tmp_path / "nowhere") == []


def test_work_that_is_done_stays_done_where_nothing_can_be_noted(tmp_path):
    (tmp_path / "usage.jsonl").mkdir()
    with recorded(tmp_path):
        (tmp_path / "output").touch()
    assert (tmp_path / "output").exists()


def growing() -> None:
    earlier = b"1" * (96 << 20)
    del earlier
    peak = peak_resident_bytes()
    growth = MemoryGrowth()
    assert growth.peak() < 16 << 20
    later = b"1" * (48 << 20)
    del later
    assert 40 << 20 < growth.peak() < 64 << 20
    assert peak_resident_bytes() >= peak


def test_growth_of_memory_has_a_peak_of_its_own_and_the_process_keeps_its_earlier_one():
    # In a new process: the kernel may reclaim memory of one that has been idle.
    code = "from tests.test_usage import growing; growing()"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_gpus_are_counted_by_the_processes_that_share_the_job(tmp_path, monkeypatch):
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        get_device_name=lambda: "NVIDIA Made-Up",
        max_memory_allocated=lambda: 3 << 20,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.setenv("WORLD_SIZE", "4")
    with recorded(tmp_path):
        pass
    line = read_usage(tmp_path)[0]
    assert (line["gpus"], line["device"], line["gpu_memory_mb"]) == (4, "NVIDIA Made-Up", 3)
