"""The error that is shown to the user; any other exception is a bug and shows its traceback.

The exceptions are faults of the machine, which are not bugs: the disk is full, a quota is exceeded,
a folder is not writable, memory runs out. Libraries written in Rust or C++ do not raise `OSError`
for failed writes; the cause is in their message.
"""

import errno
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches

from lexigraft.addresses import has_secret, without_secrets

_MESSAGES = {
    errno.ENOSPC: "no space left on the disk; free some space and run again",
    errno.EDQUOT: "the disk quota is exceeded; free some space and run again",
    errno.EFBIG: "the file would exceed the size limit (ulimit -f); raise it and run again",
    errno.EROFS: "the file system is read-only; choose a writable folder for the results",
    errno.EACCES: "permission denied; the user of the job must be allowed to read and write there",
    errno.ENAMETOOLONG: "the name is too long for the file system; use shorter names and paths",
    errno.EIO: "the disk reports an input/output error; check it before you run again",
    errno.ESTALE: "the network file system lost the file; run again",
}
_MEMORY = "out of memory; give the job more memory, or run fewer jobs at a time"
_GPU_MEMORY = (
    "out of GPU memory; use a GPU with more memory, shorter sequences, or a smaller "
    "LEXIGRAFT_PASS_TOKENS or LEXIGRAFT_BATCH_TOKENS"
)
_LISTED = 20  # maximum number of names in a message
_RUST = re.compile(r"\(os error (\d+)\)")
_TORCH = re.compile(r"PytorchStreamWriter failed|file write failed|iostream error")


class UserError(Exception):
    """One sentence: the config key, file or cell, what is wrong with it, and what to do.

    Logins and queries of addresses in it are left out, since messages go into logs.

    Examples
    --------
    >>> import lexigraft
    >>> try:
    ...     lexigraft.initializer("wechsl")
    ... except lexigraft.UserError as error:
    ...     print(error)
    initializer: 'wechsl' is not known; did you mean 'wechsel'?
    """

    def __init__(self, message: str):
        super().__init__(without_secrets(message))


def refuse_secret(text: str, where: str, instead: str) -> None:
    """Raise a UserError that begins with `where` if a text contains an address with a secret.

    The address is not repeated, because messages go into logs; `instead` says what to do.
    """
    if has_secret(text):
        raise UserError(
            f"{where}: the address contains a login or a token, which is not supported; {instead}"
        )


def unknown(where: str, name: object, known: Iterable[str], among: str = "known") -> UserError:
    """Return the error for an unknown name, with a suggestion from the known names."""
    return UserError(f"{where}: '{name}' is not {among}{suggestion(name, known)}")


def suggestion(name: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar name, or the known names."""
    names = list(dict.fromkeys(known))
    if close := get_close_matches(str(name), names, n=1):
        return f"; did you mean '{close[0]}'?"
    listed = sorted(names) if len(names) <= _LISTED else [*sorted(names)[:_LISTED], "…"]
    return f"; choose from {', '.join(listed)}" if names else ""


def first_line(error: BaseException) -> str:
    """The first line of another library's error message, or the error's type if it has none."""
    return without_secrets((str(error).strip().splitlines() or [type(error).__name__])[0])


def machine_fault(error: BaseException, folder: str) -> str | None:
    """One line for the user if an error or its cause came from disk or memory; otherwise None.

    The message names `folder`, in which the process wrote, if the error names no file.
    """
    chain: BaseException | None = error
    while chain is not None:
        if isinstance(chain, MemoryError):
            return f"{folder}: {_MEMORY}; finished work is kept"
        if type(chain).__name__ == "OutOfMemoryError":  # torch's, which is not imported here
            return f"{folder}: {_GPU_MEMORY}; finished work is kept"
        if isinstance(chain, OSError):
            number, file = chain.errno, chain.filename or folder
        else:
            # Torch drops the number; the most common cause is a full disk.
            number, file = errno.ENOSPC if _TORCH.search(str(chain)) else None, folder
            if match := _RUST.search(str(chain)):
                number = int(match[1])
        if number in _MESSAGES:
            return f"{os.fsdecode(file)}: {_MESSAGES[number]}; finished work is kept"
        chain = chain.__cause__ or chain.__context__
    return None
