"""CPU time of GloVe, compared with its authors' programs on the same tokens and threads.

Tokens are those of a byte-level BPE trained on the text. The programs `cooccur`, `shuffle` and
`glove` are fetched with git and built with make, unless `--programs` names their folder. Both count
on one thread, and run gradient descent on `--threads`. Seconds are CPU seconds.
"""

import os
import re
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.inputs import CACHE, add_options, opened
from benchmarks.record import Measurements, described, parser, rounds
from lexigraft.artifacts.atomic import atomic_folder
from lexigraft.auxiliary.glove import (
    count_cooccurrences,
    descend,
    initial_parameters,
    read_token_ids,
    stratify,
    write_token_ids,
)
from lexigraft.evaluation.texts import lines_of
from lexigraft.source.tokenizer import load_tokenizer
from lexigraft.vocabulary.train import train_tokenizer

NAME = "glove"
REPOSITORY = "https://github.com/stanfordnlp/GloVe"
REVISION = "52f7dbc512be3f72e9c11e7cbb19dfdfa4651e9c"
STEPS = ("count", "shuffle", "descend")
WINDOW, DIMENSIONS, X_MAX, ALPHA, RATE = 15, 300, 10.0, 0.75, 0.05
MINIMUM_COUNT = 5


def cpu() -> float:
    """CPU seconds so far of this process and the programs that it ran, over all threads."""
    taken = os.times()
    return taken.user + taken.system + taken.children_user + taken.children_system


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds, which do not depend on other processes on the machine."""
    begin = cpu()
    work()
    return cpu() - begin


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure counting, shuffling and gradient descent of both, and print the cost per epoch."""
    options = _parser().parse_args(arguments)
    programs = options.programs or built_programs(CACHE / f"glove-{REVISION[:7]}")
    with opened(options) as given, tempfile.TemporaryDirectory() as place:
        at, lines = Path(place), lines_of(Path(given.text))
        source = load_tokenizer(given.source)
        target = train_tokenizer(lines, "byte-level-bpe", options.size, source)
        counts = write_token_ids(target, lines, at / "ids")
        ids = read_token_ids(at / "ids")
        threads, epochs = options.threads, options.epochs
        sizes = {"size": options.size, "tokens": int(counts.sum()), **given.facts}
        run = described("numba", threads=threads, epochs=epochs, **sizes)
        found = Measurements(options, NAME, run, keys=1, order=[(step,) for step in STEPS])
        for _ in rounds(options):
            theirs = _theirs(at, programs, ids, counts, threads, epochs)
            ours = _ours(ids, counts, threads, epochs)
            found.run["cells"] = round(ours["cells"])
            for step in STEPS:
                found.add({"step": step, "cpu": ours[step], "other_cpu": theirs[step]})
            for name in ("cells", *(f"cost {epoch}" for epoch in range(epochs))):
                print(f"{name}: {ours[name]:.6g}, theirs {theirs[name]:.6g}")
    found.end()


def built_programs(folder: Path) -> Path:
    """The folder with the authors' programs, fetched and built if `folder` does not exist.

    Exits with code 1 and a message if that fails.
    """
    if not folder.exists():
        try:
            with atomic_folder(folder) as temporary:
                for command in (
                    ("git", "clone", "--quiet", REPOSITORY, str(temporary)),
                    ("git", "-C", str(temporary), "checkout", "--quiet", REVISION),
                    ("make", "--silent", "-C", str(temporary)),
                ):
                    subprocess.run(command, check=True)
        except (OSError, subprocess.CalledProcessError):
            sys.exit(
                f"{REPOSITORY}: cannot be fetched with git and built with make; build it elsewhere "
                "and name its folder build/ with --programs"
            )
    return folder / "build"


def _ours(ids: np.ndarray, counts: np.ndarray, threads: int, epochs: int) -> dict[str, float]:
    counts = np.where(counts >= MINIMUM_COUNT, counts, 0)
    draws = np.random.default_rng(0)
    few = ids[:2000].copy()
    begin = cpu()
    _descended(count_cooccurrences(few, counts, WINDOW), threads, 1, draws)  # compiles everything
    print(f"compiled in {cpu() - begin:.1f} s, once per process")
    found: dict[str, float] = {}
    begin = cpu()
    counted = count_cooccurrences(ids, counts, WINDOW)
    found["count"] = cpu() - begin
    return found | _descended(counted, threads, epochs, draws)


def _descended(
    counted: Any, threads: int, epochs: int, draws: np.random.Generator
) -> dict[str, float]:
    begin = cpu()
    cells = stratify(counted, X_MAX, ALPHA, draws)
    shuffled = cpu()
    parameters = initial_parameters(counted.shape[0], DIMENSIONS, draws)
    costs = list(
        descend(cells, *parameters, epochs=epochs, learning_rate=RATE, rng=draws, threads=threads)
    )
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
    programs = programs.resolve()  # they run in another folder

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
    logged: list[str] = []
    flat = [str(value) for option in options.items() for value in option]
    found["descend"] = seconds(lambda: logged.append(run("glove", "vocab", "log", *flat)))
    costs = re.findall(r"cost: ([0-9.]+)", logged[0])
    return found | {f"cost {epoch}": float(cost) for epoch, cost in enumerate(costs)}


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    add_options(found)
    found.add_argument("--programs", type=Path, help="folder of their programs")
    found.add_argument("--size", type=int, default=4000, help="tokens of the vocabulary")
    found.add_argument("--threads", type=int, default=1)
    found.add_argument("--epochs", type=int, default=3)
    return found


if __name__ == "__main__":
    main()
