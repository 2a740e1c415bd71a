"""Memory, rate and resumption of a training text of any size, from files to training sequences.

python -m benchmarks.stream FOLDER [MILLION_TOKENS]

Writes a synthetic text of this many tokens (by default 100 million) to the folder, in files of 50
MB, and runs three steps, each in a separate process: `draw` (read, clean, sample, hold out, write
the corpus), `tokenize` (into shards) and `train` (plan an epoch, read 50,000 sequences in training
order). `draw` and `tokenize` are killed halfway and run again: "again" is the share of the step
that was repeated, process startup included. Memory is peak anonymous memory minus that at the start
of the step, since pages of files can be released at any time; Linux only.

On one core, with 840 million sampled tokens (5.4 GB): draw 11.8 MB/s with 308 MiB, 32 % again;
tokenize 0.91 million tokens per second with 88 MiB, 4 % again; train 200 million tokens per second
with 32 MiB. With 34 million tokens, it was 24, 96 and 32 MiB. What grows is the memory of `draw`:
up to 120 MB of hashes, by which duplicates are found, and 24 bytes per document.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, SEQUENCES = 2048, 50_000
FILE = 50_000_000  # bytes of a file of the text
WORDS, SKEW = 50_000, 1.1  # of a Zipf distribution
TOKENS_OF_WORD = 1.35  # approximately, with a tokenizer of 16,000 tokens
_SEED = ("benchmark", "corpus", "synthetic")


def write_text(folder: Path, tokens: int) -> None:
    """Write documents of some hundred words, which are drawn by their ranks."""
    draw = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    lengths = draw.integers(2, 11, WORDS)
    words = np.array(["".join(draw.choice(letters, length)) for length in lengths])
    chances = 1 / np.arange(1, WORDS + 1) ** SKEW
    ranks = np.cumsum(chances / chances.sum())
    folder.mkdir(parents=True)
    left, number = round(tokens / TOKENS_OF_WORD), 0
    while left > 0:
        with (folder / f"{number:05}.txt").open("w") as file:
            while left > 0 and file.tell() < FILE:
                count = int(draw.integers(20, 800))
                places = np.minimum(np.searchsorted(ranks, draw.random(count)), WORDS - 1)
                file.write(" ".join(words[places]) + ".\n")
                left -= count
        number += 1


def tokenizer_of(folder: Path):
    """A byte-level tokenizer trained on the text's first documents."""
    from lexigraft.source.tokenizer import load_tokenizer
    from lexigraft.vocabulary.train import train_tokenizer

    place = folder / "tokenizer"
    if not place.exists():
        with (folder / "text" / "00000.txt").open() as file:
            lines = [line for line, _ in zip(file, range(3000), strict=False)]
        train_tokenizer(lines, "byte-level-bpe", 16_000).save_pretrained(place)
    return load_tokenizer(place)


def draw(folder: Path) -> Callable[[], dict[str, float]]:
    """Prepare the corpus: nine tenths of the text, drawn at random."""
    from lexigraft.corpus import reading
    from lexigraft.corpus.language import prepare_corpus

    reading.SAVE_SECONDS = 5.0  # for texts that take minutes to read, not hours
    characters = sum(file.stat().st_size for file in (folder / "text").iterdir())
    settings: dict[str, Any] = {
        "name": "Synthetic", "code": "xx", "script": "Latn", "parallel": None, "repair": [],
        "text": {"loader": "text", "paths": [str(folder / "text")]},
        "english": {"loader": "text", "paths": [str(folder / "text" / "00000.txt")]},
        "train_sentences": None, "train_characters": characters * 9 // 10,
        "heldout_sentences": 1000, "english_sentences": 1000, "translation_pairs": None,
        "minimum_characters": 10,
    }  # fmt: skip

    def work() -> dict[str, float]:
        _, facts = prepare_corpus(settings, folder / "corpus", _SEED)
        return {"megabytes": characters / 1e6, "documents": facts["sizes"]["train"]["sentences"]}

    return work


def tokenize(folder: Path) -> Callable[[], dict[str, float]]:
    """Tokenize the corpus, or read the existing tokens."""
    from lexigraft.training.tokenized_corpus import tokenize_corpus

    tokenizer = tokenizer_of(folder)
    return lambda: {"tokens": len(tokenize_corpus(tokenizer, folder / "corpus").tokens)}


def train(folder: Path) -> Callable[[], dict[str, float]]:
    """Plan an epoch and read sequences in training order."""
    from lexigraft.training.plan import plan_phases
    from lexigraft.training.settings import read_strategy

    tokenizer = tokenizer_of(folder)
    phase = {"trainable": ["all"], "length": LENGTH}
    strategy = read_strategy({"phases": [phase], "epochs": 1})
    job = {"inputs": {"corpus": str(folder / "corpus")}, "seed": ["benchmark"]}

    def work() -> dict[str, float]:
        [sequences] = plan_phases(strategy, tokenizer, job)
        begin, count = time.perf_counter(), min(SEQUENCES, len(sequences))
        read = sum(len(sequences[place].tokens) for place in range(count))
        return {"tokens": read, "reading": time.perf_counter() - begin}

    return work


STEPS = {"draw": draw, "tokenize": tokenize, "train": train}


def run(step: str, folder: Path) -> dict[str, float]:
    """Run a step in this process; return its results, seconds, and peak anonymous MiB."""
    work = STEPS[step](folder)
    before, peak, finished = _anonymous(), 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not finished.wait(0.05):
            peak = max(peak, _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    begin, cpu = time.perf_counter(), time.process_time()
    found = work()
    spent = {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu}
    finished.set()
    watcher.join()
    return {**found, **spent, "mib": peak - before}


def _anonymous() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def started(step: str, folder: Path) -> "subprocess.Popen[str]":
    """Start a step in a separate process."""
    command = [sys.executable, "-m", "benchmarks.stream", step, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def finished(process: "subprocess.Popen[str]") -> dict[str, float]:
    """Wait for a step; parse its last line as JSON."""
    output, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args!r} failed; run it by itself")
    found: dict[str, float] = json.loads(output.strip().splitlines()[-1])
    return found


def interrupted(step: str, folder: Path, whole: float) -> float:
    """Total CPU seconds of a step that is killed halfway and run again."""
    process = started(step, folder)
    spent = 0.0
    while process.poll() is None and spent < whole / 2:
        time.sleep(0.2)
        spent = _cpu(process.pid) or spent
    process.kill()
    process.wait()
    return spent + finished(started(step, folder))["cpu"]


def _cpu(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(folder: str, millions: str = "100") -> None:
    """Print memory and rate of each step, and the cost of an interruption."""
    place = Path(folder)
    if not (place / "text").exists():
        write_text(place / "text.unfinished", round(float(millions) * 1e6))
        (place / "text.unfinished").rename(place / "text")
    tokenizer_of(place)
    stored = {"draw": place / "corpus", "tokenize": place / "corpus" / ".tokens"}
    print(f"{'':9} {'MiB':>6} {'CPU s':>8} {'wall s':>8}  rate, by CPU seconds")
    for step in STEPS:
        if step in stored:
            shutil.rmtree(stored[step], ignore_errors=True)
        found = finished(started(step, place))
        if "megabytes" in found:
            rate = f"{found['megabytes'] / found['cpu']:.1f} MB/s"
        else:
            rate = f"{found['tokens'] / found.get('reading', found['cpu']) / 1e6:.2f} M tokens/s"
        line = f"{step:9} {found['mib']:6.0f} {found['cpu']:8.1f} {found['wall']:8.1f}  {rate}"
        if step in stored:
            shutil.rmtree(stored[step])
            again = interrupted(step, place, found["cpu"]) / found["cpu"] - 1
            line += f"; killed halfway, {again:.0%} again"
        print(line, flush=True)


if __name__ == "__main__":
    if sys.argv[1] in STEPS:
        print(json.dumps(run(sys.argv[1], Path(sys.argv[2]))))
    else:
        main(*sys.argv[1:])
