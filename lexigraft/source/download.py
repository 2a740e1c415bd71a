"""Query and download files from the web; an interrupted download resumes without loss.

A download only resumes if the server reports the same version of the file, and only ends where the
server said that the file ends.
"""

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.addresses import without_secrets
from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError

if TYPE_CHECKING:
    from requests import Response

SECONDS = 60.0  # without a byte until a connection counts as broken
_ATTEMPTS = 6  # maximum number of consecutive attempts without a byte
_LONGEST = 60.0  # maximum pause between two attempts, in seconds
_BLOCK = 1 << 20  # bytes read at a time
_BEYOND = 416  # status: the requested range starts after the end of the file
_BUSY = (408, 425, 429, 500, 502, 503, 504)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Remote:
    """What a server reports about a file: its URL, its size, and its ETag or modification time."""

    url: str
    bytes: int | None = None
    etag: str | None = None


class RefusedError(UserError):
    """A server does not have a file or refuses it; `status` is the HTTP status of its answer."""

    def __init__(self, url: str, status: int):
        super().__init__(f"{url}: the server returned status {status}")
        self.status = status


class ChangedError(UserError):
    """The bytes of a file that were on disk are deleted: the rest does not belong to them."""


class _UnansweredError(UserError):
    def __init__(self, url: str, cause: str):
        reason = cause.splitlines()[0]
        super().__init__(f"{url}: cannot be reached ({reason}); check the network, then run again")


def ask_file(url: str, sleep: Callable[[float], None] = time.sleep) -> Remote:
    """Query a file on a server without fetching it; without an answer, retry once.

    Raises a `RefusedError` if the server does not have the file or refuses it, and another
    `UserError` if it cannot be reached.
    """
    try:
        return _ask(url)
    except _UnansweredError:
        sleep(_pause(1))
    return _ask(url)


def download(url: str, file: str | Path, sleep: Callable[[float], None] = time.sleep) -> Remote:
    """Fetch a file, resuming from `<name>.part` next to it if that exists.

    After a broken connection, the download resumes at the last received byte; a file that has
    changed on the server since is fetched from its beginning. Raises the errors of `ask_file`.
    """
    file = Path(file)
    part = PartialFile(url, file.with_name(f"{file.name}.part"))
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            for _ in part.more(sleep):
                pass
            break
        except ChangedError:
            if attempt == _ATTEMPTS:
                raise
    remote = part.remote
    part.path.replace(file)
    part.forget()
    return remote


class PartialFile:
    """A partly downloaded file, whose remaining bytes are fetched on request.

    `path` holds the bytes, `remote` what the server reported about the whole file; both persist
    between processes until `forget`.
    """

    def __init__(self, url: str, path: str | Path):
        self.path = Path(path)
        self._notes = self.path.with_name(f"{self.path.name}.json")
        self.remote = Remote(url)
        try:
            remote = Remote(**json.loads(self._notes.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            remote = None
        if remote is not None and remote.url == url:
            self.remote = remote
        else:
            self.forget()

    @property
    def size(self) -> int:
        """Number of bytes on disk."""
        return self.path.stat().st_size if self.path.exists() else 0

    def more(self, sleep: Callable[[float], None] = time.sleep) -> Iterator[bytes]:
        """Fetch the bytes that follow those on disk, block by block, to the end of the file.

        Each block is on disk when it is yielded. After a broken connection, the download resumes.
        Raises the errors of `ask_file`, and a `ChangedError` if the rest of the file cannot be
        fetched; then its part on disk is deleted.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        failures = 0
        while self.remote.bytes is None or self.size != self.remote.bytes:
            before, cause = self.size, "no data was received"
            try:
                with self._opened() as answer, self.path.open("ab") as out:
                    # `read1` returns what has arrived, so a lost connection loses no bytes.
                    while block := answer.raw.read1(_BLOCK, decode_content=False):
                        out.write(block)
                        out.flush()
                        yield block
                if self.remote.bytes is None:  # a chunked answer, which came to its end
                    self._note(Remote(self.remote.url, self.size, self.remote.etag))
            except _broken() as error:
                cause = str(error) or type(error).__name__
                address = without_secrets(self.remote.url)
                logger.info("%s: interrupted at byte %d; resuming", address, self.size)
            failures = 0 if self.size > before else failures + 1
            if failures == _ATTEMPTS:
                raise _UnansweredError(self.remote.url, cause)
            if self.size != self.remote.bytes:
                sleep(_pause(failures))

    def forget(self) -> None:
        """Delete what is on disk."""
        for file in (self.path, self._notes):
            file.unlink(missing_ok=True)

    def _note(self, remote: Remote) -> None:
        self.remote = remote
        write_json(self._notes, asdict(remote))

    @contextmanager
    def _opened(self) -> "Iterator[Response]":
        """Request the bytes that follow those on disk; yields the server's answer."""
        import requests

        size, known = self.size, self.remote
        headers = {"Accept-Encoding": "identity"}
        if size:
            headers["Range"] = f"bytes={size}-"
            if known.etag:  # the server answers with the whole file if it has changed
                headers["If-Range"] = known.etag
        with requests.get(known.url, headers=headers, stream=True, timeout=SECONDS) as answer:
            if answer.status_code in _BUSY:
                raise requests.ConnectionError(f"the server returned status {answer.status_code}")
            remote = _described(known.url, answer)
            if not answer.ok and answer.status_code != _BEYOND:
                raise RefusedError(known.url, answer.status_code)
            content_range = answer.headers.get("Content-Range", "")
            is_rest = answer.status_code == 206 and content_range.startswith(f"bytes {size}-")
            is_same = None not in (known.etag, remote.etag) and known.etag == remote.etag
            if size and not (is_rest and is_same):
                self.forget()
                self.remote = Remote(known.url)
                raise ChangedError(
                    f"{known.url}: the connection broke and the file has changed, or its server "
                    "reports no version (ETag, Last-Modified) or no ranges; run again to download "
                    "it from the beginning, or download it yourself and give its path"
                )
            is_chunked = "chunked" in answer.headers.get("Transfer-Encoding", "")
            if remote.bytes is None and not is_chunked:
                raise UserError(
                    f"{known.url}: the server does not say how long the file is, so a part of it "
                    "would pass for the whole; download it yourself and give its path"
                )
            if not size:
                self._note(remote)
            yield answer


def _ask(url: str) -> Remote:
    import requests

    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.head(url, headers=headers, allow_redirects=True, timeout=SECONDS) as answer:
            response = answer
        if response.status_code in (403, 405, 501):  # some servers do not support HEAD
            headers["Range"] = "bytes=0-0"
            with requests.get(url, headers=headers, stream=True, timeout=SECONDS) as answer:
                response = answer
    except _broken() as error:
        raise _UnansweredError(url, str(error) or type(error).__name__) from None
    if response.status_code in _BUSY:
        raise _UnansweredError(url, f"the server returned status {response.status_code}")
    if not response.ok:
        raise RefusedError(url, response.status_code)
    return _described(url, response)


def _described(url: str, answer: "Response") -> Remote:
    """What the headers of an answer report about the whole file."""
    length = answer.headers.get("Content-Length")
    if answer.status_code in (206, _BEYOND):
        length = answer.headers.get("Content-Range", "").rpartition("/")[2]
    size = int(length) if length and length.isdigit() else None
    etag: str | None = answer.headers.get("ETag", "W/")
    if str(etag).startswith(
        "W/"
    ):  # a weak one says that versions are similar, not that they are equal
        etag = answer.headers.get("Last-Modified")
    return Remote(url, size, etag)


def _broken() -> tuple[type[BaseException], ...]:
    """The exceptions of an interrupted connection; a full disk raises none of these."""
    import requests
    import urllib3

    return (requests.RequestException, urllib3.exceptions.HTTPError)


def _pause(attempt: int) -> float:
    return min(2.0**attempt, _LONGEST)
