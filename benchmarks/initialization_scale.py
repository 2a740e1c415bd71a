"""Initializers at the size of Gemma 2 9B: 50,000 new tokens, a matrix of 256,000 × 3,584.

python -m benchmarks.initialization_scale SOURCE_TOKENIZER TEXT_FILE [NAME …]

The tokenizer is a folder with a BPE tokenizer.json; the target has 50,000 more tokens, each a pair
of source tokens: the most frequent adjacent pairs of the text first, then random ones. The matrix
(bfloat16) and all auxiliary vectors are random, and each registry name is fitted and applied in a
separate process. Bounds: at most 8 GiB in addition to the source's matrix, the new matrix included,
in at most 15 minutes on two cores.
"""

import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.initialization import entries, fit_and_apply, vectors
from benchmarks.measuring import in_its_own_process, measured
from lexigraft.source.tokenizer import load_tokenizer

WIDTH = 3584
NEW_TOKENS = 50_000
MINUTES, GIB = 15, 8


def main(source: str, text: str, *names: str) -> None:
    """Print minutes and GiB of each registry name, and whether they exceed the bounds."""
    with tempfile.TemporaryDirectory() as place:
        file = str(Path(place) / "matrix.safetensors")
        rows = write_matrix(file, source)
        write_target(Path(place), Path(source), text)
        print(f"{rows} × {WIDTH} in bfloat16, {NEW_TOKENS} new tokens", flush=True)
        for name in names or entries():
            given = ("--work", name, file, source, place, text)
            found = in_its_own_process("initialization_scale", *given, threads=os.cpu_count() or 1)
            if "error" in found:
                print(f"{name:20} {found['error']}", flush=True)
                continue
            wall, cpu, gib = found["wall"] / 60, found["cpu"] / 60, found["mib"] / 1024
            verdict = "" if wall <= MINUTES and gib <= GIB else "   TOO MUCH"
            print(
                f"{name:20} {wall:5.1f} min ({cpu:.1f} of CPU) {gib:5.1f} GiB{verdict}", flush=True
            )


def write_matrix(file: str, source: str) -> int:
    """Write a random matrix with a row per source token; return the number of rows."""
    import torch
    from safetensors.torch import save_file

    rows = max(load_tokenizer(source).get_vocab().values()) + 1
    matrix = torch.empty((rows, WIDTH), dtype=torch.bfloat16)
    draws = torch.Generator().manual_seed(0)
    for block in matrix.split(4096):
        block.copy_(torch.empty(block.shape).normal_(std=0.02, generator=draws))
    save_file({"input": matrix}, file)
    return rows


def write_target(folder: Path, source: Path, text: str) -> None:
    """Write the source's tokenizer with `NEW_TOKENS` more merges."""
    shutil.copytree(source, folder, dirs_exist_ok=True)
    state = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary, merges = state["model"]["vocab"], state["model"]["merges"]
    size = 1 + max([*vocabulary.values(), *(token["id"] for token in state["added_tokens"])])
    added = 0
    for left, right in pairs(str(source), text, vocabulary):
        if left + right not in vocabulary:
            vocabulary[left + right] = size + added
            merges.append([left, right] if isinstance(merges[0], list) else f"{left} {right}")
            added += 1
        if added == NEW_TOKENS:
            break
    (folder / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")


def pairs(source: str, text: str, vocabulary: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Adjacent pairs of tokens in the text, most frequent first; then random ones."""
    tokenizer = load_tokenizer(source)
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    counts: Counter[tuple[str, str]] = Counter()
    for ids in tokenizer(lines, add_special_tokens=False)["input_ids"]:
        counts.update(pairwise(tokenizer.convert_ids_to_tokens(ids)))
    yield from (pair for pair, _ in counts.most_common() if vocabulary.keys() >= set(pair))
    letters = [token for token in vocabulary if token.isalpha()]
    draws = np.random.default_rng(0)
    while True:
        left, right = draws.integers(len(letters), size=2)
        yield letters[left], letters[right]


def work(name: str, file: str, source: str, target: str, text: str) -> None:
    """Fit and apply one initializer in this process and print its time and memory."""
    from safetensors.torch import load_file

    old, new = load_tokenizer(source), load_tokenizer(target)
    matrix = load_file(file)["input"].clone()
    lines = Path(text).read_text(encoding="utf-8").splitlines()
    entry = entries()[name]
    given = {"corpus": lines, "auxiliary": vectors(entry, old, new)}
    print(json.dumps(measured(fit_and_apply(entry, old, new, matrix, given))))


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
