"""Time, memory and GPUs of a job: one line per attempt in the `usage.jsonl` of its folder.

Status and cost read these lines. They are stored with the results, so they outlive Snakemake's
records and move with the folder; a killed job writes none.
"""

import json
import logging
import os
import re
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

USAGE = "usage.jsonl"
DONE = "done"
FAILED = "failed"
_IMPORTED = time.monotonic()
_earlier_peak = 0  # peak memory of this process before `MemoryGrowth` reset the kernel's counter
logger = logging.getLogger(__name__)


@contextmanager
def recorded(folder: str | Path) -> Iterator[None]:
    """Append a line to `usage.jsonl` in `folder` when the work ends, successfully or not.

    It holds `started` (UTC), `ended` (`done` or `failed`), `seconds` since the process started,
    `peak_memory_mb`, `gpus` and, for jobs that used one, `device` and `gpu_memory_mb`. If the line
    cannot be written, the job does not fail: the work itself is done.
    """
    ended = FAILED
    try:
        yield
        ended = DONE
    finally:
        seconds = _age()
        started = datetime.fromtimestamp(time.time() - seconds, UTC)
        line: dict[str, Any] = {
            "started": started.isoformat(timespec="seconds"),
            "ended": ended,
            "seconds": round(seconds, 1),
            "peak_memory_mb": peak_resident_bytes() >> 20,
            "gpus": 0,
        }
        torch = sys.modules.get("torch")  # no GPU is initialized here
        if torch is not None and torch.cuda.is_initialized():
            line["gpus"] = int(os.environ.get("WORLD_SIZE", "1"))
            line["device"] = torch.cuda.get_device_name()
            line["gpu_memory_mb"] = torch.cuda.max_memory_allocated() >> 20
        try:
            with (Path(folder) / USAGE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            logger.warning("the resource usage of this job is not recorded: %s", error)


def read_usage(folder: str | Path) -> list[dict[str, Any]]:
    """The lines of a folder's `usage.jsonl`, oldest first, without invalid lines."""
    try:
        text = (Path(folder) / USAGE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = []
    for text_line in text.splitlines():
        with suppress(ValueError):
            line = json.loads(text_line)
            if isinstance(line, dict) and {"seconds", "ended"} <= line.keys():
                lines.append(line)
    return lines


def peak_resident_bytes() -> int:
    """Peak resident memory of this process so far, in bytes."""
    return max(_earlier_peak, _counted_peak())


class MemoryGrowth:
    """How much more memory this process holds than when the object was created."""

    def __init__(self) -> None:
        global _earlier_peak
        _earlier_peak = peak_resident_bytes()
        with suppress(OSError):  # Linux only; elsewhere the growth of the peak is returned
            Path("/proc/self/clear_refs").write_text("5")  # resets the kernel's peak
        self._before = _resident_bytes() or _earlier_peak

    def peak(self) -> int:
        """Peak memory since then, minus the memory held before, in bytes."""
        return max(0, _counted_peak() - self._before)


def _counted_peak() -> int:
    with suppress(OSError):
        if match := re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M):
            return int(match[1]) << 10
    # Includes the peak of the process that started this one; in bytes on macOS.
    scale = 1 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _resident_bytes() -> int:
    """Resident memory in bytes; 0 if the kernel does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _age() -> float:
    """Seconds since this process started, including imports, independent of the system clock."""
    try:
        # After the name, which may contain spaces, field 20 is the start in clock ticks since boot.
        stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began = int(stat[19]) / os.sysconf("SC_CLK_TCK")
        return time.clock_gettime(time.CLOCK_BOOTTIME) - began
    except (OSError, AttributeError, IndexError, ValueError):  # not on Linux
        return time.monotonic() - _IMPORTED
