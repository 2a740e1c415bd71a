"""Time until training has its blocks of tokens, compared with `datasets.map`.

Both use the same tokenizer. `datasets` is used as in transformers' example run_clm.py, with as many
processes as threads; its memory is that of the main process only, so compare memory with one
thread. Both are measured in the first job, which tokenizes, and in the next one with the same
tokenizer.
"""

import json
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from benchmarks.inputs import add_options, opened
from benchmarks.measuring import in_its_own_process, measured
from benchmarks.record import Measurements, described, parser, rounds

NAME, LENGTH = "tokenization", 2048
FIRST = "first"
JOBS = (FIRST, "next")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure this library and `datasets`, each in both jobs."""
    options = _parser().parse_args(arguments)
    with opened(options) as given, TemporaryDirectory() as place:
        sizes = {"threads": options.threads, **given.facts}
        run = described("datasets", "transformers", "tokenizers", **sizes)
        found = Measurements(options, NAME, run, keys=1, order=[(job,) for job in JOBS])
        for (job,) in rounds(options, JOBS):
            if job == FIRST:  # in a folder where nothing has been tokenized
                corpus = mkdtemp(dir=place)
                shutil.copyfile(given.text, Path(corpus, "train.txt"))
            own, other = (
                in_its_own_process(
                    NAME, way, given.source, corpus, str(options.threads), threads=options.threads
                )
                for way in ("ours", "theirs")
            )
            if not found.note_errors(job, own, other):
                beside = {"other_wall": other["wall"], "other_mib": other["mib"]}
                found.add({"job": job, "wall": own["wall"], "mib": own["mib"], **beside})
    found.end()


def ours(tokenizer: Any, corpus: Path, threads: int) -> Callable[[], Any]:
    """Blocks from the tokens stored next to the corpus."""
    from lexigraft.training.data import pack
    from lexigraft.training.tokenized_corpus import tokenize_corpus

    return lambda: pack(tokenize_corpus(tokenizer, corpus), LENGTH)


def theirs(tokenizer: Any, corpus: Path, threads: int) -> Callable[[], Any]:
    """Blocks from `datasets`, which has its own cache."""
    import datasets

    datasets.disable_progress_bars()

    def tokenized(batch: dict[str, list]) -> dict[str, list]:
        return {"input_ids": tokenizer(batch["text"])["input_ids"]}

    def cut(batch: dict[str, list]) -> dict[str, list]:
        ids = list(chain(*batch["input_ids"]))
        return {"input_ids": [ids[at : at + LENGTH] for at in range(0, len(ids), LENGTH)]}

    def work() -> Any:
        files, cache = str(corpus / "train.txt"), str(corpus / "datasets")
        data: Any = datasets.load_dataset("text", data_files=files, split="train", cache_dir=cache)
        how: dict[str, Any] = {"batched": True, "num_proc": threads if threads > 1 else None}
        return data.map(tokenized, remove_columns=["text"], **how).map(cut, **how)

    return work


def _parser() -> ArgumentParser:
    found = parser(NAME, __doc__)
    add_options(found)
    found.add_argument("--threads", type=int, default=1)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] in (["ours"], ["theirs"]):
        from lexigraft.source.tokenizer import load_tokenizer

        way = {"ours": ours, "theirs": theirs}[sys.argv[1]]
        work = way(load_tokenizer(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        print(json.dumps(measured(work)))
    else:
        main()
