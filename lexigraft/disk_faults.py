"""Messages for failed writes: the disk is full, a quota is exceeded, a folder is not writable.

Libraries written in Rust or C++ do not raise `OSError` for these: the cause is in their message.
"""

import errno
import os
import re

_MESSAGES = {
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
    """One line for the user if an error, or its cause, came from the disk; otherwise None.

    Parameters
    ----------
    folder
        Where the process wrote: named if the error names no file.
    """
    chain: BaseException | None = error
    while chain is not None:
        number = chain.errno if isinstance(chain, OSError) else _number_in(str(chain))
        if number in _MESSAGES:
            file = chain.filename if isinstance(chain, OSError) and chain.filename else folder
            return f"{os.fsdecode(file)}: {_MESSAGES[number]}; what was finished stays"
        chain = chain.__cause__ or chain.__context__
    return None


def _number_in(text: str) -> int | None:
    if found := _RUST.search(text):
        return int(found[1])
    # Torch drops the number; the most common cause is a full disk.
    return errno.ENOSPC if _TORCH.search(text) else None
