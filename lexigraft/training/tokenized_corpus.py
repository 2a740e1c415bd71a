"""Training texts as tokens on disk: tokenized once for all jobs with the same tokenizer.

`<corpus>/.tokens/` holds a file for each text and each way to encode it, named by the digests of
both. It is made under a lock by the first job that needs it, and memory-mapped by all. No card
lists it: it may be deleted at any time, and a damaged one is made anew.
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

from lexigraft.atomic import PARTIAL, replacing
from lexigraft.completion import input_checksum
from lexigraft.inference.text_encoding import BATCH, encode, start_ids
from lexigraft.training.data import EncodedTexts, concatenate, iterate_sentences

FOLDER = ".tokens"
_SUM = 8  # int32 numbers of the SHA-256 at the end of a file
logger = logging.getLogger(__name__)


def tokenize_corpus(
    tokenizer: PreTrainedTokenizerFast, corpus: str | Path, limit: int | None = None
) -> EncodedTexts:
    """The first `limit` sentences of `train.txt` of a corpus folder, see `text_encoding.encode`.

    The arrays are read-only and memory-mapped, from a temporary file where the corpus cannot be
    written to. Raises a UserError if `train.txt` is missing or has no line.
    """
    text = _digest(input_checksum(Path(corpus, "train.txt")))
    file = Path(corpus, FOLDER, f"{text}-{_encoding_digest(tokenizer, limit)}")

    def write(out: IO[bytes]) -> None:
        _write(out, _encoded_batches(tokenizer, iterate_sentences(corpus, "train", limit)))

    if found := _read(file):
        return found
    try:
        file.parent.mkdir(exist_ok=True)
        with file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if found := _read(file):
                return found  # made by another process since
            if file.exists():
                logger.warning("%s is damaged and made anew", file)
            for old in file.parent.iterdir():  # of other texts, or by a killed process
                if text not in old.name or old.name.startswith(f"{PARTIAL}{file.stem}-"):
                    old.unlink(missing_ok=True)
            with replacing(file) as temporary, temporary.open("wb") as out:
                write(out)
        if found := _read(file):
            return found
    except OSError as error:
        logger.warning("the tokens of %s cannot be stored beside it: %s", corpus, error)
    with tempfile.TemporaryFile() as unnamed:
        write(unnamed)
        found = _read(unnamed)
    assert found is not None
    return found


def _encoding_digest(tokenizer: PreTrainedTokenizerFast, limit: int | None) -> str:
    """Digest of all that the tokens of a text depend on."""
    # First, since a call resets truncation and padding, which `to_str` contains.
    start = start_ids(tokenizer)
    content = tokenizer.backend_tokenizer.to_str()
    special = tokenizer.split_special_tokens
    return _digest(tokenizers.__version__, start, special, limit, content)


def _encoded_batches(
    tokenizer: PreTrainedTokenizerFast, sentences: Iterator[str]
) -> Iterator[EncodedTexts]:
    """Encode as many batches at a time as the job has threads.

    The tokenizers library lets other threads run while it works. Its own threads are switched off
    in jobs, which fork.
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
    """All tokens, the length of each text, their number, and the SHA-256 of these; all int32."""
    digest, lengths = hashlib.sha256(), []

    def put(values: np.ndarray) -> None:
        content = values.tobytes()
        out.write(content)
        digest.update(content)

    for batch in batches:
        put(batch.tokens)
        lengths.append(batch.lengths)
    put(np.concatenate(lengths))
    put(np.array([sum(map(len, lengths))], dtype=np.int32))
    out.write(digest.digest())


def _read(file: Path | IO[bytes]) -> EncodedTexts | None:
    """What `_write` has written, memory-mapped; None if there is no such file or it is damaged."""
    try:
        values = np.asarray(np.memmap(file, np.int32, "r"))
    except OSError:
        return None
    except ValueError:  # it has no bytes, or no whole number of int32
        values = np.empty(0, np.int32)
    if hashlib.sha256(values[:-_SUM].data).digest() != values[-_SUM:].tobytes():
        return None
    end = len(values) - _SUM - 1
    begin = end - int(values[end])  # of the lengths
    return EncodedTexts(values[:begin], values[begin:end])


def _digest(*content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
