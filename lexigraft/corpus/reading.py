"""Read a text of any size once, shard by shard, into a sample on disk.

A shard is a file of a text or of a data set on the hub. If the amount to read is limited, shards
are read in random order until it is reached. Interrupted reading resumes from a state at most about
two minutes old, and does not download the stored parts of text files on the web again.
"""

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lexigraft.artifacts.completion import input_checksum
from lexigraft.corpus.cleaning import REMEMBERED, CleaningCounts, cleaned
from lexigraft.corpus.identification import is_in_language
from lexigraft.corpus.local_files import local_paths
from lexigraft.corpus.markup import strip_markup
from lexigraft.corpus.readers import text_shards
from lexigraft.corpus.sampling import StoredLines, StoredSample
from lexigraft.randomness import generator
from lexigraft.source.download import ChangedError

FOLDER = ".reading"
_DOWNLOADS = "downloads"  # subfolder with the parts of text files on the web that were read
SAVE_SECONDS = 120.0  # interval at which the state is stored
_FINGERPRINT = 16  # bytes, see `cleaning.fingerprint`
_CHECK_EVERY = 256  # texts between two checks of the time
_PUNKT_CHARACTERS = 1_000_000  # Punkt is trained on: some seconds
# Keys of a language that determine what is read of its text.
_READING = ("repair", "split_sentences", "only_language", "markup")
logger = logging.getLogger(__name__)


def draw_text(
    settings: Mapping[str, Any],
    folder: str | Path,
    seed: tuple[str | int, ...],
    counts: CleaningCounts,
    lines: int | None,
    characters: int | None,
    package: str | Path | None = None,
) -> StoredLines:
    """Draw a uniform sample of the distinct sentences of a language's text, in reading order.

    `settings` is the language's entry, whose `read_characters` are the maximum to read, or whose
    `read_sentences` are the first ones; `lines` and `characters` are the maximum to draw. The state
    for resuming is in `folder/.reading` until `forget`. `counts` covers all text that was read.
    """
    repairs: Collection[str] = settings.get("repair", ())
    minimum, first = settings["minimum_characters"], settings.get("read_sentences")
    limit, text = first or settings.get("read_characters"), settings["text"]
    shards = text_shards(text, package, Path(folder, FOLDER, _DOWNLOADS))
    # The state's name is a digest of settings and of the content of files. Text files on the web
    # are left out: their stored bytes are compared with the server's.
    content = [
        [text, minimum, limit, first, *map(settings.get, _READING), settings.get("script")],
        [input_checksum(path) for path in local_paths(text)],
        (seed, lines, characters),
    ]
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    state_folder = Path(folder, FOLDER, digest)
    sample = StoredSample((*seed, "sentences"), lines, characters, state_folder)
    order = list(range(len(shards)))
    if limit is not None and first is None:
        order = generator(*seed, "shards").permutation(len(shards)).tolist()
    split = sentence_splitter(settings, shards[order[0]]())
    keep = None
    if settings.get("only_language"):
        keep = partial(is_in_language, script=settings["script"], code=settings["code"])
    shard, texts, read, seen = 0, 0, 0, set[bytes]()
    if sample.restored is not None:
        state, fingerprints = sample.restored
        shard, texts, read = state["shard"], state["texts"], state["read"]
        vars(counts).update(state["counts"])
        starts = range(0, len(fingerprints), _FINGERPRINT)
        seen = {fingerprints[start : start + _FINGERPRINT] for start in starts}
        logger.info("%s: reading resumes in shard %d, text %d", settings["name"], shard, texts)

    def save() -> None:
        state = {"shard": shard, "texts": texts, "read": read, "counts": asdict(counts)}
        sample.save(state, b"".join(seen))

    saved = time.monotonic()
    try:
        with tqdm(
            desc=f"read {settings['name']}", unit="text", unit_scale=True, disable=None
        ) as bar:
            while shard < len(order) and (limit is None or read < limit):
                for text in islice(shards[order[shard]](), texts, None):
                    parts = split(text)
                    sentences = cleaned(parts, counts, minimum, REMEMBERED, repairs, seen, keep)
                    for sentence in sentences:
                        if first is None or read < first:
                            sample.add(sentence)
                        read += len(sentence) if first is None else 1
                    texts += 1
                    bar.update()
                    if limit is not None and read >= limit:
                        break
                    if texts % _CHECK_EVERY == 0 and time.monotonic() - saved > SAVE_SECONDS:
                        save()
                        saved = time.monotonic()
                else:
                    shard, texts = shard + 1, 0
    except ChangedError:
        # Stored samples of other settings are deleted too: they may be drawn from the same file.
        for other_state in state_folder.parent.iterdir():
            if other_state.name != _DOWNLOADS:
                shutil.rmtree(other_state, ignore_errors=True)
        raise
    if sample.restored is not None or time.monotonic() - saved > SAVE_SECONDS:
        save()
    return sample.ordered()


def sentence_splitter(
    settings: Mapping[str, Any], texts: Iterable[str]
) -> Callable[[str], list[str]]:
    """A function that splits a text into sentences, or into lines unless `split_sentences` is set.

    Before, markup is stripped if `markup` is set. Sentences are those of Punkt [1]_, as in NLTK,
    trained on the first million characters of the texts.

    References
    ----------
    .. [1] Kiss and Strunk 2006, "Unsupervised Multilingual Sentence Boundary Detection".
    """
    strip = strip_markup if settings.get("markup") == "strip" else str
    if not settings.get("split_sentences"):
        return lambda text: [strip(text)]
    beginning = ""
    for text in map(strip, texts):
        beginning += f"{text}\n"
        if len(beginning) >= _PUNKT_CHARACTERS:
            break
    # nltk imports scikit-learn and pandas, which `lexigraft --help` would load as well.
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    tokenize = PunktSentenceTokenizer(beginning[:_PUNKT_CHARACTERS]).tokenize
    return lambda text: [
        sentence for line in strip(text).split("\n") for sentence in tokenize(line)
    ]


def read_some(
    text: Mapping[str, Any],
    limit: int | None,
    seed: tuple[str | int, ...],
    package: str | Path | None = None,
) -> Iterator[str]:
    """The texts of settings; with a limit, that many characters of shards in random order."""
    shards = text_shards(text, package)
    order = generator(*seed, "shards").permutation(len(shards)).tolist()
    left = math.inf if limit is None else limit
    for index in range(len(shards)) if limit is None else order:
        for sentence in shards[index]():
            yield sentence
            left -= len(sentence)
            if left <= 0:
                return


def forget(folder: str | Path) -> None:
    """Delete the state that `draw_text` stored."""
    shutil.rmtree(Path(folder, FOLDER), ignore_errors=True)
