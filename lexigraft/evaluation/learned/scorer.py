"""The program that the metrics environment's Python runs: reads texts and writes scores as JSON.

It does not import lexigraft, whose libraries are not installed there. It only reads local folders.
Argument: JSON with `kind` (the file of a kind of metric), the folders of its parts (`checkpoint`,
`encoder`), `batch_size`, `uses_source`, and the files `texts` and `scores`. Each line of `texts`
has the number of its `run`. The first line of `scores` is {"device", "versions"}; then one line per
run is written as soon as it is scored, in order: {"scores": numbers in the order of its texts,
"seconds"}. {"failed": why} is the last line after an error.
"""

import json
import platform
import sys
import time
import traceback
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path

PACKAGES = ("torch", "transformers", "tokenizers", "numpy")


def main() -> None:
    """Score the texts that the command line names, run by run."""
    import torch
    from tqdm import tqdm

    job = json.loads(sys.argv[1])
    job["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    spec = spec_from_file_location("learned_metric", job["kind"])
    assert spec and spec.loader
    kind = module_from_spec(spec)
    spec.loader.exec_module(kind)
    texts = Path(job["texts"]).read_text(encoding="utf-8")
    rows = [json.loads(line) for line in texts.split("\n") if line]
    runs = [list(run) for _, run in groupby(rows, key=lambda row: row["run"])]
    activity = f"{job['checkpoint']} cannot be loaded"
    name = Path(job["kind"]).stem
    with (
        Path(job["scores"]).open("w", encoding="utf-8") as file,
        tqdm(total=len(rows), desc=name, unit="text", mininterval=5) as progress,
    ):
        try:
            model, missing = kind.load(job)
            if missing:  # packages initialize them at random, with a warning
                lost = f"{len(missing)} of the model's tensors are missing, such as {missing[0]}"
                raise ValueError(lost)
            activity = "scoring failed"
            versions = {"python": platform.python_version()}
            versions |= {name: metadata.version(name) for name in (*PACKAGES, *kind.PACKAGES)}
            write(file, {"device": job["device"], "versions": versions})
            for run in runs:
                start = time.perf_counter()
                scores = kind.score(model, run, job)
                write(file, {"scores": scores, "seconds": time.perf_counter() - start})
                progress.update(len(run))
        except ModuleNotFoundError as error:
            reason = f"the metrics environment has no {error.name}; run `make metrics`"
            write(file, {"failed": reason})
        # A checkpoint is an external file: no error in it may stop a study.
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip().splitlines() or ["no message"])[0]
            write(file, {"failed": f"{activity} ({type(error).__name__}: {first})"})


def write(file, line):
    """Write a line that the other process can read immediately."""
    file.write(json.dumps(line) + "\n")
    file.flush()


if __name__ == "__main__":
    main()
