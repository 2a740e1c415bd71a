"""Check that a study that is killed repeatedly ends with the same bytes as an undisturbed one.

python -m benchmarks.soak [--kills N] [--seed N] [--longest SECONDS] [--record] [STUDY.yaml]

The study runs twice, in two folders: undisturbed, and with SIGKILL to Snakemake and all of its jobs
at random times, after which it is unlocked and run again, as a user would. When it has finished,
the two are compared (`lexigraft.artifacts.comparison`), and every file is hashed. If it finishes
before all N kills, it starts again in a new folder. Values that depend on time or the machine are
ignored.

The default study is a small one that covers all stages, with a synthetic text and a tiny model; it
needs no network. In another study all paths must be absolute. `--record` writes
`docs/results/soak.json`, which docs/reliability.md cites. The exit status is 1 if anything differs.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from lexigraft.artifacts.cards import commit_of_code, versions
from lexigraft.artifacts.comparison import compare
from lexigraft.artifacts.completion import LOCK_FILE, is_held
from lexigraft.artifacts.verification import verify
from lexigraft.yaml_files import read_yaml
from workflow.commands.running import snakemake_command, snakemake_environment
from workflow.config.registries import ROOT
from workflow.records import write_record

NO_JOB = "no job (Snakemake plans, or starts the next one)"


def made_up_study(folder: Path) -> dict[str, Any]:
    """The config of a small study; writes the text and the model that it reads to a folder."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from benchmarks.cell import TINY
    from benchmarks.generation import byte_tokens

    tokenizer = byte_tokens("</s>")
    tokenizer.save_pretrained(folder / "model")
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **TINY))
    model.save_pretrained(folder / "model")
    draw = random.Random(0)

    def sentences(letters: str) -> list[str]:
        words = ["".join(draw.choices(letters, k=draw.randint(2, 5))) for _ in range(50)]
        return [" ".join(draw.choices(words, k=8)) for _ in range(200)]

    target = sentences("".join(chr(0x0C15 + at) for at in range(20)))
    english = sentences("abcdefghijklmnop")
    pairs = [f"{one}\t{other}" for one, other in zip(english, target, strict=True)]
    (folder / "text.txt").write_text("\n".join(target) + "\n", encoding="utf-8")
    (folder / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    language = {
        "name": "Made-up", "code": "te", "script": "Telu",
        "text": {"loader": "text", "paths": [str(folder / "text.txt")]},
        "parallel": {"loader": "tsv", "path": str(folder / "pairs.tsv")},
        "train_sentences": 100, "heldout_sentences": 10, "english_sentences": 10,
        "translation_pairs": 4,
    }  # fmt: skip
    axes = {"sources": ["tiny"], "languages": ["made-up"]}
    baseline = {"vocabularies": ["source"], "initializers": ["none"], "strategies": ["none"]}
    grafted = {"vocabularies": ["expand-50"], "initializers": ["vectors"], "strategies": ["short"]}
    phase = {"trainable": ["embeddings", "head", {"layers": [0, -1]}], "length": 64}
    return {
        "study": "soak",
        "cells": [axes | baseline, axes | grafted],
        "run_tasks": {"perplexity": {}, "translation-short": {}},
        "sources": {"tiny": {"folder": str(folder / "model")}},
        "languages": {"made-up": language},
        "auxiliary": {
            "small": {"kind": "fasttext", "dimensions": 8, "minimum_count": 1, "epochs": 1}
        },
        "initializers": {"vectors": {"base": "focus", "auxiliary": "small"}},
        "strategies": {
            "short": {
                "phases": [phase], "epochs": 1, "sentences": 40, "batch_sequences": 1,
                "curve": {"sentences": 10, "points": 2},
            }
        },
        "tasks": {"translation-short": {"base": "translation", "samples": 4, "max_new_tokens": 8}},
        "machine": {"save_minutes": 0},  # a checkpoint at every step
        "report": {"fonts": None, "items": ["results"]},
    }  # fmt: skip


class Run:
    """A study that runs in a separate folder.

    Attributes
    ----------
    results
        Its results folder.
    """

    def __init__(self, config: dict[str, Any], folder: Path):
        packages = ROOT / ".cache/packages"
        folder.mkdir()
        places = {"prefix": str(folder), "results": "results", "packages_folder": str(packages)}
        self._folder = folder
        self._study = folder / "study.yaml"
        self._study.write_text(yaml.safe_dump(config | places, allow_unicode=True))
        self._log = folder / "log.txt"
        self.results = folder / "results"

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Snakemake on the study, with its jobs in a new process group."""
        command = snakemake_command(str(self._study), ["--quiet", "all", *arguments])
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env=snakemake_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, *arguments: str) -> None:
        """Run it to the end; exit the benchmark if it fails."""
        if self.start(*arguments).wait():
            sys.exit(f"error: the study failed\n{self._log.read_text(errors='replace')[-4000:]}")

    def kill_after(self, seconds: float) -> list[str] | None:
        """Run it, kill it after some seconds and unlock it; return the rules of the running jobs.

        None if it finished before.
        """
        process = self.start()
        try:
            if process.wait(timeout=seconds):
                sys.exit(
                    f"error: the study failed\n{self._log.read_text(errors='replace')[-4000:]}"
                )
            return None
        except subprocess.TimeoutExpired:
            rules = self._at_work()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.end("--unlock")
        return rules

    def _at_work(self) -> list[str]:
        held = [file.parent for file in self.results.rglob(LOCK_FILE) if is_held(file.parent)]
        files = [folder / "job.json" for folder in held]
        return [json.loads(file.read_text())["rule"] for file in files if file.is_file()]


def soak(
    config: dict[str, Any], folder: Path, kills: int, seed: int, longest: float | None
) -> tuple[dict[str, Any], Counter[str], list[str]]:
    """Run the experiment; return facts, the number of kills per rule, and the differences."""
    began = time.monotonic()
    alone = Run(config, folder / "undisturbed")
    alone.end()
    took = time.monotonic() - began
    print(f"undisturbed: {took:.0f} s", flush=True)
    draw = random.Random(seed)
    hit: Counter[str] = Counter()
    wrong: list[str] = []
    done = rounds = outputs = 0
    for attempt in count():
        if done == kills:
            break
        run = Run(config, folder / f"killed-{attempt}")
        before = done
        while done < kills:
            rules = run.kill_after(draw.uniform(0, longest or took))
            if rules is None:
                break
            done += 1
            hit.update(rules or [NO_JOB])
            print(f"kill {done}: {', '.join(rules) or NO_JOB}", flush=True)
        if done == before:
            continue  # it finished before the first kill
        run.end()
        rounds += 1
        found = compare(alone.results, run.results)
        outputs = found.outputs
        wrong += [f"{one.kind} {one.place} {one.name}" for one in found.differences]
        verified = verify(run.results)
        wrong += [f"{fault.file}: {fault.what}" for fault in verified.faults]
        wrong += [f"{place}: unfinished" for place in verified.unfinished]
        wrong += [f"{left}: left behind" for left in run.results.rglob(".partial-*")]
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "study": config["study"],
        "revision": commit_of_code(),
        "version": versions()["lexigraft"],
        "kills": done,
        "rounds": rounds,
        "outputs": outputs,
        "differences": len(wrong),
        "seed": seed,
        "undisturbed_seconds": round(took),
        "seconds": round(time.monotonic() - began),
    }
    return facts, hit, wrong


def main() -> None:
    """Run the experiment, print its result, and record it if `--record` is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", nargs="?", help="a study; by default a small synthetic one")
    parser.add_argument("--kills", type=int, default=50, help="number of kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of the times of the kills")
    parser.add_argument(
        "--longest",
        type=float,
        help="maximum seconds before a kill; by default those of a whole run",
    )
    parser.add_argument("--record", action="store_true", help="write docs/results/soak.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder = Path(name)
        config = read_yaml(Path(given.study)) if given.study else made_up_study(folder)
        facts, hit, wrong = soak(config, folder, given.kills, given.seed, given.longest)
    print("\n".join(wrong), end="\n" if wrong else "")
    print(f"kills: {facts['kills']}, rounds: {facts['rounds']}, differences: {len(wrong)}")
    if given.record:
        table = [["rule", "kills"], *map(list, hit.most_common())]
        write_record("soak", {"run": facts, "tables": {"kills": table}})
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
