"""Tokenized training texts on disk: tokenized once for all jobs with the same tokenizer.

`<corpus>/.tokens/` holds the tokens of each text in each encoding, in shards that are named by the
digests of both and by the part of the text. The first job that needs them writes them under a lock,
and all jobs memory-map them. An interrupted job leaves complete shards. No card lists them: they
may be deleted at any time, and damaged ones are written again.
"""

import fcntl
import hashlib
import json
import logging
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice, pairwise
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
from lexigraft.training.data import EncodedTexts, JoinedArrays, concatenate

FOLDER = ".tokens"
SHARD = 1 << 26  # bytes of the text of a shard, approximately
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
    folder = Path(corpus, FOLDER, member)
    content, encoding = _digest(input_checksum(text)), _encoding_digest(tokenizer)
    name = f"{content}-{encoding}"
    parts = [
        (folder / f"{name}-{begin}-{end}", (begin, end)) for begin, end in _shards(text, limit)
    ]

    def write(out: IO[bytes], part: tuple[int, int]) -> None:
        _write(out, _encoded_batches(tokenizer, _sentences(text, *part)))

    shards = [_read(file) for file, _ in parts]
    if all(shards):
        return _joined(shards)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for old in folder.iterdir():  # of other texts, or left by a killed process
                stale = content not in old.name
                if old.is_file() and (stale or old.name.startswith(f"{TEMPORARY_PREFIX}{name}")):
                    old.unlink(missing_ok=True)
            for number, (file, part) in enumerate(parts):
                shards[number] = shards[number] or _read(file)  # by another process meanwhile
                if shards[number]:
                    continue
                if file.exists():
                    logger.warning("%s is damaged and is written again", file)
                with atomic_file(file) as temporary, temporary.open("wb") as out:
                    write(out, part)
                shards[number] = _read(file)
    except OSError as error:
        logger.warning("the tokens of %s cannot be stored next to it: %s", text, error)
    for number, (_, part) in enumerate(parts):
        if not shards[number]:
            with tempfile.TemporaryFile() as unnamed:
                write(unnamed, part)
                shards[number] = _read(unnamed)
    return _joined(shards)


def _joined(parts: Sequence[EncodedTexts | None]) -> EncodedTexts:
    shards = [shard for shard in parts if shard]
    if len(shards) == 1:
        return shards[0]
    return EncodedTexts(
        JoinedArrays([np.asarray(shard.tokens) for shard in shards]),
        JoinedArrays([np.asarray(shard.lengths) for shard in shards]),
    )


def _shards(text: Path, limit: int | None) -> list[tuple[int, int]]:
    """Begin and end in bytes of each shard of the first `limit` sentences, in whole lines."""
    with text.open("rb") as file:
        size = text.stat().st_size
        if limit is not None:
            lines = islice((line for line in iter(file.readline, b"") if line != b"\n"), limit)
            deque(lines, maxlen=0)
            size = file.tell()
        cuts = [0]
        while cuts[-1] < size:
            file.seek(cuts[-1] + SHARD - 1)
            file.readline()
            cuts.append(min(file.tell(), size))
    return list(pairwise(cuts))


def _sentences(text: Path, begin: int, end: int) -> Iterator[str]:
    with text.open("rb") as file:
        file.seek(begin)
        while begin < end:
            line = file.readline()
            begin += len(line)
            # Only "\n" ends a sentence: splitlines() would also split at U+2028 and the like.
            if line != b"\n":
                yield line.decode().removesuffix("\n")


def _encoding_digest(tokenizer: PreTrainedTokenizerFast) -> str:
    """Digest of everything that the tokens of a text depend on."""
    # First, since a call resets truncation and padding, which `to_str` contains.
    start = start_ids(tokenizer)
    content = tokenizer.backend_tokenizer.to_str()
    special = tokenizer.split_special_tokens
    return _digest(tokenizers.__version__, start, special, content)


def _encoded_batches(
    tokenizer: PreTrainedTokenizerFast, sentences: Iterator[str]
) -> Iterator[EncodedTexts]:
    """Encode batches in parallel, one in each thread of the job.

    The tokenizers library lets other threads run while it works. Its own threads are switched off
    in jobs, since these fork.
    """
    threads = torch.get_num_threads()
    sentences = iter(tqdm(sentences, desc="tokenize", unit=" sentences", disable=None))
    waiting: deque[Future[EncodedTexts]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        while batch := list(islice(sentences, BATCH)):
            waiting.append(pool.submit(lambda texts: concatenate(encode(tokenizer, texts)), batch))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _write(out: IO[bytes], batches: Iterator[EncodedTexts]) -> None:
    """Write all tokens, the lengths of texts, the number of texts, and their SHA-256; all int32."""
    digest, lengths = hashlib.sha256(), []

    def put(values: np.ndarray) -> None:
        content = values.tobytes()
        out.write(content)
        digest.update(content)

    for batch in batches:
        put(np.asarray(batch.tokens))
        lengths.append(np.asarray(batch.lengths))
    put(np.concatenate(lengths))
    put(np.array([sum(map(len, lengths))], dtype=np.int32))
    out.write(digest.digest())


def _read(file: Path | IO[bytes]) -> EncodedTexts | None:
    """What `_write` has written, memory-mapped; None if there is no such file or it is damaged."""
    try:
        if isinstance(file, Path):
            with file.open("rb") as opened:
                is_whole = _is_whole(opened)
        else:
            is_whole = _is_whole(file)
        if not is_whole:
            return None
        values = np.asarray(np.memmap(file, np.int32, "r"))
    except OSError:
        return None
    end = len(values) - _SUM - 1
    begin = end - int(values[end])  # of the lengths
    return EncodedTexts(values[:begin], values[begin:end])


def _is_whole(file: IO[bytes]) -> bool:
    """Whether a file ends with its checksum. The file is read, not mapped, to save memory."""
    left = file.seek(0, os.SEEK_END) - 4 * _SUM
    if left <= 0 or left % 4:
        return False
    file.seek(0)
    digest = hashlib.sha256()
    while left:
        content = file.read(min(left, _READ))
        digest.update(content)
        left -= len(content)
    return digest.digest() == file.read()


def _digest(*content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
