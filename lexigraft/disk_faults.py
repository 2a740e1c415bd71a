"""What it means when a write fails: the disk is full, a quota used up, a folder not writable.

Libraries written in Rust or C++ do not raise `OSError` for these; what they raise says it in words.
"""

import errno
import os
import re

_WORDS = {
    errno.ENOSPC: "no space is left on the disk; make room and run again",
    errno.EDQUOT: "the disk quota is used up; make room and run again",
    errno.EFBIG: "the file would be larger than the limit (ulimit -f); raise it and run again",
    errno.EROFS: "the file system is read-only; results must be where this user may write",
    errno.EACCES: "permission denied; the user of the job must be allowed to read and write there",
    errno.EIO: "the disk reports an input/output error; check it before you run again",
    errno.ESTALE: "the network file system lost the file; run again",
}
_RUST = re.compile(r"\(os error (\d+)\)")
_TORCH = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error")


def disk_fault(error: BaseException, folder: str) -> str | None:
    """One line for the user if an error, or one that led to it, came from the disk; else None.

    Parameters
    ----------
    folder
        Where the process wrote, named where the error names no file.
    """
    chain: BaseException | None = error
    while chain is not None:
        number = chain.errno if isinstance(chain, OSError) else _number_in(str(chain))
        if number in _WORDS:
            file = chain.filename if isinstance(chain, OSError) and chain.filename else folder
            return f"{os.fsdecode(file)}: {_WORDS[number]}; what was finished stays"
        chain = chain.__cause__ or chain.__context__
    return None


def _number_in(text: str) -> int | None:
    if found := _RUST.search(text):
        return int(found[1])
    # Torch drops the number; of all that ends a write in the middle a full disk is the usual one.
    return errno.ENOSPC if _TORCH.search(text) else None
