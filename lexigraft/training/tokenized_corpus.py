"""Tokenized training texts on disk: tokenized once for all jobs with the same tokenizer.

`<corpus>/.tokens/` holds the tokens of each text in each encoding, in a file that is named by the
digests of both. The first job that needs it writes it under a lock, and all jobs memory-map it. No
card lists these files: they may be deleted at any time, and damaged ones are written again.
"""

import fcntl
import hashlib
import json
import logging
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import tokenizers
import torch
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.atomic import TEMPORARY_PREFIX, atomic_file
from lexigraft.artifacts.completion import input_checksum
from lexigraft.corpus.mixture import text_file
from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import BATCH, encode
from lexigraft.source.document_start import start_ids
from lexigraft.training.data import EncodedTexts, concatenate

FOLDER = ".tokens"
_READ = 1 << 24  # bytes read at once
_SUM = 8  # int32 numbers of the SHA-256 at the end of a file
logger = logging.getLogger(__name__)


def tokenize_corpus(
    tokenizer: PreTrainedTokenizerFast,
    corpus: str | Path,
    limit: int | None = None,
    member: str = "",
) -> EncodedTexts:
    """Tokenize the first `limit` sentences of a corpus's training text (`text_encoding.encode`).

    For a group, the text is that of one `member`. The arrays are read-only and memory-mapped, from
    temporary files if the corpus folder is not writable. Raises a UserError if the text is missing
    or has no line.
    """
    text = text_file(corpus, member)
    if not text.is_file() or not text.stat().st_size:
        raise UserError(f"{text}: no sentences; the corpus stage must write at least one")
    # First, since a call resets truncation and padding, which `to_str` contains.
    start = start_ids(tokenizer)
    content = _digest(input_checksum(text))
    encoding = _digest(
        tokenizers.__version__,
        start,
        tokenizer.split_special_tokens,
        tokenizer.backend_tokenizer.to_str(),
        limit,
    )
    name = f"{content}-{encoding}"
    folder = Path(corpus, FOLDER, member)
    file = folder / name
    if encoded := _read(file):
        return encoded
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for old in folder.iterdir():  # of other texts, or left by a killed process
                stale = content not in old.name
                if old.is_file() and (stale or old.name.startswith(f"{TEMPORARY_PREFIX}{name}")):
                    old.unlink(missing_ok=True)
            if encoded := _read(file):  # by another process meanwhile
                return encoded
            if file.exists():
                logger.warning("%s is damaged and is written again", file)
            with atomic_file(file) as temporary, temporary.open("wb") as out:
                _write(out, tokenizer, text, limit)
        if encoded := _read(file):
            return encoded
    except OSError as error:
        logger.warning("the tokens of %s cannot be stored next to it: %s", text, error)
    with tempfile.TemporaryFile() as unnamed:
        _write(unnamed, tokenizer, text, limit)
        return _map(unnamed)


def _write(
    out: IO[bytes], tokenizer: PreTrainedTokenizerFast, text: Path, limit: int | None
) -> None:
    """Write all tokens, the lengths of texts, the number of texts, and their SHA-256; all int32.

    Batches are encoded in parallel, one in each thread of the job: the tokenizers library lets
    other threads run while it works. Its own threads are switched off in jobs, since these fork.
    """
    digest, lengths = hashlib.sha256(), []

    def put(values: np.ndarray) -> None:
        content = values.tobytes()
        out.write(content)
        digest.update(content)

    def finish(batch: Future[EncodedTexts]) -> None:
        put(batch.result().tokens)
        lengths.append(batch.result().lengths)

    threads = torch.get_num_threads()
    waiting: deque[Future[EncodedTexts]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        sentences = islice(_sentences(text), limit)
        sentences = iter(tqdm(sentences, desc="tokenize", unit=" sentences", disable=None))
        while batch := list(islice(sentences, BATCH)):
            waiting.append(pool.submit(lambda texts: concatenate(encode(tokenizer, texts)), batch))
            if len(waiting) > threads:
                finish(waiting.popleft())
        while waiting:
            finish(waiting.popleft())
    put(np.concatenate(lengths))
    put(np.array([sum(map(len, lengths))], dtype=np.int32))
    out.write(digest.digest())
    out.flush()


def _sentences(text: Path) -> Iterator[str]:
    # Only "\n" ends a sentence: splitlines() would also split at U+2028 and the like.
    with text.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if line != "\n":
                yield line.removesuffix("\n")


def _read(file: Path) -> EncodedTexts | None:
    """What `_write` has written, memory-mapped; None if there is no such file or it is damaged."""
    digest = hashlib.sha256()
    try:
        left = file.stat().st_size - 4 * _SUM
        if left <= 0 or left % 4:
            return None
        with file.open("rb") as opened:
            while left:
                content = opened.read(min(left, _READ))
                digest.update(content)
                left -= len(content)
            return _map(file) if digest.digest() == opened.read() else None
    except OSError:
        return None


def _map(file: Path | IO[bytes]) -> EncodedTexts:
    values: Any = np.asarray(np.memmap(file, np.int32, "r"))  # type: ignore[call-overload]
    end = len(values) - _SUM - 1
    begin = end - int(values[end])  # of the lengths
    return EncodedTexts(values[:begin], values[begin:end])


def _digest(*content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
