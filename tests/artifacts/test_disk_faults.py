"""Whatever library writes, a disk that takes no more is one line."""

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lexigraft.errors import machine_fault


def by_python(file: Path) -> None:
    file.write_text("x" * 100_000)


def by_numpy(file: Path) -> None:
    np.savez(file, allow_pickle=False, rows=np.zeros(100_000))


def by_safetensors(file: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"rows": np.zeros(100_000)}, file)


def by_torch(file: Path) -> None:
    import torch

    torch.save({"rows": torch.zeros(100_000)}, file)


def by_tokenizers(file: Path) -> None:
    from tokenizers import Tokenizer, models

    tokens = {f"token{number}": number for number in range(10_000)}
    Tokenizer(models.WordLevel(tokens, unk_token="token0")).save(str(file))


def by_pyarrow(file: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"rows": range(100_000)}), file)


WRITERS = [by_python, by_numpy, by_safetensors, by_torch, by_tokenizers, by_pyarrow]


def said_when_full(write: Callable[[Path], None], file: Path) -> str:
    """What the user is told when a process that may write 1,000 bytes a file writes more."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        said = "no error at all"
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            write(file)
        except Exception as error:
            said = machine_fault(error, "results/x") or f"a bug: {error!r}"
        finally:
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.wait()
    return said


@pytest.mark.fault(
    "disk",
    "a full disk or file size limit, with each writer: text, numpy, torch, safetensors, …",
    "a one-line error message names the file and what to do; finished work is kept",
)
@pytest.mark.parametrize("write", WRITERS)
def test_a_disk_that_takes_no_more_is_one_line_whoever_writes(write, tmp_path):
    write(tmp_path / "before.bin")  # imports all that it needs, and works
    said = said_when_full(write, tmp_path / "file.bin")
    assert said.endswith("and run again; finished work is kept"), said
    assert "\n" not in said


@pytest.mark.fault(
    "disk",
    "no space left, as reported by the kernel (`/dev/full`)",
    "a one-line error message names the file",
)
@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="Linux has it")
def test_the_kernels_own_full_disk_is_named():
    with pytest.raises(OSError) as error:
        Path("/dev/full").write_text("x")
    said = machine_fault(error.value, "results/x")
    assert said == (
        "results/x: no space left on the disk; free some space and run again; finished work is kept"
    )


def test_an_error_that_followed_from_it_is_one_too():
    reason = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(RuntimeError) as error:
        raise RuntimeError("the checkpoint was not saved") from reason
    assert machine_fault(error.value, "results/x") is not None


@pytest.mark.fault(
    "disk",
    "an exceeded quota, a read-only file system, a file without permission",
    "a one-line error message names the file and the reason",
)
@pytest.mark.parametrize(
    ("number", "word"),
    [(errno.EROFS, "read-only"), (errno.EACCES, "permission denied"), (errno.EDQUOT, "quota")],
)
def test_the_file_is_named_where_it_is_known(number, word):
    named = OSError(number, os.strerror(number), "results/a.txt")
    said = machine_fault(named, "results/x")
    assert said is not None and said.startswith("results/a.txt: ") and word in said
    unnamed = machine_fault(OSError(number, os.strerror(number)), "results/x")
    assert unnamed is not None and unnamed.startswith("results/x: ")


@pytest.mark.fault(
    "machine",
    "the memory of the machine or a GPU runs out, and nothing can be made smaller",
    "a one-line error message says which memory and what to do",
)
def test_memory_that_runs_out_is_one_line_too():
    import torch

    gpu = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    with pytest.raises(MemoryError) as error:
        bytearray(1 << 60)
    for raised, said in ((gpu, "out of GPU memory"), (error.value, "out of memory")):
        message = machine_fault(raised, "results/x")
        assert message is not None and message.startswith(f"results/x: {said}; ")
