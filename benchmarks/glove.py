"""How long GloVe takes, beside the program of its authors on the same tokens and threads.

python benchmarks/glove.py TOKENIZER_FOLDER TEXT_FILE FOLDER_OF_THEIR_PROGRAMS [THREADS [EPOCHS]]

The folder holds `cooccur`, `shuffle` and `glove`, built from github.com/stanfordnlp/GloVe by
`make`. Both count and descend on one thread, or descend on as many as are named.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lexigraft.auxiliary.glove import count_cooccurrences, descend, initial_parameters, stratify
from lexigraft.auxiliary.tokenized_text import read_token_ids, write_token_ids
from lexigraft.source.model import load_tokenizer

WINDOW, DIMENSIONS, X_MAX, ALPHA, RATE = 15, 300, 10.0, 0.75, 0.05
MINIMUM_COUNT = 5


def cpu() -> float:
    """CPU seconds of this process and of the programs that it ran, so far, over all threads."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds, which other processes on the machine do not lengthen."""
    begin = cpu()
    work()
    return cpu() - begin


def main(folder: str, text: str, programs: str, threads: int = 1, epochs: int = 3) -> None:
    """Print seconds of counting, shuffling and descending of both, their ratios and costs."""
    tokenizer = load_tokenizer(folder)
    with tempfile.TemporaryDirectory() as place:
        at = Path(place)
        lines = Path(text).read_text(encoding="utf-8").splitlines()
        counts = write_token_ids(tokenizer, lines, at / "ids")
        ids = read_token_ids(at / "ids")
        theirs = _theirs(at, Path(programs), ids, counts, threads, epochs)
        ours = _ours(ids, counts, threads, epochs)
    print(
        f"{len(lines)} lines, {counts.sum()} tokens, {ours['cells']:.0f} cells, {threads} threads"
    )
    print(f"{'':22} {'ours':>9} {'theirs':>9} ratio")
    for step in ("count", "shuffle", "descend"):
        mine, other = ours[step], theirs[step]
        print(f"{step + ', s':22} {mine:9.2f} {other:9.2f} {mine / other:5.2f}")
    print(f"{'cells':22} {ours['cells']:9.0f} {theirs['cells']:9.0f}")
    for epoch in range(epochs):
        mine, other = ours[f"cost {epoch}"], theirs[f"cost {epoch}"]
        print(f"{f'cost of epoch {epoch + 1}':22} {mine:9.5f} {other:9.5f}")


def _ours(ids: np.ndarray, counts: np.ndarray, threads: int, epochs: int) -> dict[str, float]:
    counts = np.where(counts >= MINIMUM_COUNT, counts, 0)
    draws = np.random.default_rng(0)
    few = ids[:2000].copy()
    begin = cpu()
    _descended(count_cooccurrences(few, counts, WINDOW), threads, 1, draws)  # compiles everything
    print(f"compiled in {cpu() - begin:.1f} s, once in a process")
    found: dict[str, float] = {}
    begin = cpu()
    counted = count_cooccurrences(ids, counts, WINDOW)
    found["count"] = cpu() - begin
    return found | _descended(counted, threads, epochs, draws)


def _descended(counted, threads: int, epochs: int, draws) -> dict[str, float]:
    begin = cpu()
    cells = stratify(counted, X_MAX, ALPHA, draws)
    shuffled = cpu()
    parameters = initial_parameters(counted.shape[0], DIMENSIONS, draws)
    settings = {"epochs": epochs, "learning_rate": RATE, "rng": draws, "threads": threads}
    costs = list(descend(cells, *parameters, **settings))
    end = cpu()
    named = {f"cost {epoch}": cost for epoch, cost in enumerate(costs)}
    times = {"shuffle": shuffled - begin, "descend": end - shuffled}
    return {**times, "cells": sum(len(rows) for rows, *_ in cells), **named}


def _theirs(
    at: Path, programs: Path, ids: np.ndarray, counts: np.ndarray, threads: int, epochs: int
) -> dict[str, float]:
    (at / "text").write_text(
        " ".join(["\n" if i < 0 else f"t{i}" for i in ids.tolist()]), encoding="utf-8"
    )
    often = [i for i in np.argsort(-counts, kind="stable") if counts[i] >= MINIMUM_COUNT]
    (at / "vocab").write_text("".join([f"t{i} {counts[i]}\n" for i in often]))
    programs = programs.resolve()

    def run(program: str, read: str, written: str, *options: str) -> str:
        with (at / read).open("rb") as put, (at / written).open("wb") as got:
            done = subprocess.run(
                [str(programs / program), "-verbose", "1", *options],
                stdin=put, stdout=got, stderr=subprocess.PIPE, cwd=at, check=True,
            )  # fmt: skip
        return done.stderr.decode()

    found = {
        "count": seconds(
            lambda: run(
                "cooccur", "text", "pairs", "-vocab-file", "vocab", "-window-size", str(WINDOW)
            )
        ),
        "shuffle": seconds(lambda: run("shuffle", "pairs", "shuffled")),
        "cells": (at / "pairs").stat().st_size / 16,
    }
    options = {
        "-input-file": "shuffled", "-vocab-file": "vocab", "-vector-size": DIMENSIONS,
        "-threads": threads, "-iter": epochs, "-x-max": X_MAX, "-alpha": ALPHA, "-eta": RATE,
        "-binary": 1, "-save-file": "vectors",
    }  # fmt: skip
    said: list[str] = []
    flat = [str(value) for option in options.items() for value in option]
    found["descend"] = seconds(lambda: said.append(run("glove", "vocab", "log", *flat)))
    costs = re.findall(r"cost: ([0-9.]+)", said[0])
    return found | {f"cost {epoch}": float(cost) for epoch, cost in enumerate(costs)}


if __name__ == "__main__":
    main(*sys.argv[1:4], *(int(value) for value in sys.argv[4:6]))
