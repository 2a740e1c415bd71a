"""How soon a training has its blocks of tokens, beside `datasets.map` with the same tokenizer.

python benchmarks/tokenization.py TOKENIZER_FOLDER TEXT_FILE [THREADS]

That of `datasets` is as in transformers' example run_clm.py, in as many processes as there are
threads; its CPU seconds and memory are those of its main process alone, so compare them with one.
Both are measured in the first job, which tokenizes, and in the next one with the same tokenizer.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from measuring import in_its_own_process, measured

LENGTH = 2048


def ours(tokenizer: Any, corpus: Path, threads: int) -> Callable[[], Any]:
    """Blocks from the tokens beside the corpus."""
    from lexigraft.training.data import pack
    from lexigraft.training.tokenized_corpus import tokenize_corpus

    return lambda: pack(tokenize_corpus(tokenizer, corpus), LENGTH)


def theirs(tokenizer: Any, corpus: Path, threads: int) -> Callable[[], Any]:
    """Blocks from `datasets`, which has a cache of its own."""
    import datasets

    datasets.disable_progress_bars()

    def tokenized(batch: dict[str, list]) -> dict[str, list]:
        return {"input_ids": tokenizer(batch["text"])["input_ids"]}

    def cut(batch: dict[str, list]) -> dict[str, list]:
        ids = list(chain(*batch["input_ids"]))
        return {"input_ids": [ids[at : at + LENGTH] for at in range(0, len(ids), LENGTH)]}

    def work() -> Any:
        files, cache = str(corpus / "train.txt"), str(corpus / "datasets")
        data = datasets.load_dataset("text", data_files=files, split="train", cache_dir=cache)
        how: dict[str, Any] = {"batched": True, "num_proc": threads if threads > 1 else None}
        return data.map(tokenized, remove_columns=["text"], **how).map(cut, **how)

    return work


def main(folder: str, text: str, threads: str = "1") -> None:
    """Print seconds and MiB of both, and their ratios."""
    print(f"{'':12} {'wall s':>8} {'CPU s':>8} {'MiB':>6}   of datasets.map")
    with tempfile.TemporaryDirectory() as corpus:
        shutil.copyfile(text, Path(corpus, "train.txt"))
        for job in ("first job", "next job"):
            arguments = (folder, corpus, threads)
            other, own = (
                in_its_own_process(__file__, way, *arguments, threads=int(threads))
                for way in ("theirs", "ours")
            )
            ratios = "  ".join(f"{own[key] / other[key]:.2f}" for key in ("wall", "cpu", "mib"))
            print(f"{job:12} {own['wall']:8.2f} {own['cpu']:8.2f} {own['mib']:6.0f}   {ratios}")


if __name__ == "__main__":
    if sys.argv[1] in ("ours", "theirs"):
        from lexigraft.source.model import load_tokenizer

        way = {"ours": ours, "theirs": theirs}[sys.argv[1]]
        work = way(load_tokenizer(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
        print(json.dumps(measured(work)))
    else:
        main(*sys.argv[1:])
