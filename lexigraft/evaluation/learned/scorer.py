"""The program that the metrics environment's Python runs: reads texts and writes scores as JSON.

It does not import lexigraft, whose libraries are not installed there. It only reads local folders.
Argument: JSON with `kind` (the file of a kind of metric), the folders of its parts (`checkpoint`,
`encoder`), `batch_size` and `uses_source`. Each line of its input is a text with the number of its
`run`. The first line of its output is {"device", "versions"}; then one line per run is written as
soon as it is scored, in order: {"scores": numbers in the order of its texts, "seconds"}. {"failed":
why} is the last line after an error.
"""

import json
import os
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
    """Score the texts of the input, run by run."""
    import torch
    from tqdm import tqdm

    job = json.loads(sys.argv[1])
    job["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what packages print goes to the log

    def write(line):
        output.write(json.dumps(line) + "\n")
        output.flush()

    spec = spec_from_file_location("learned_metric", job["kind"])
    assert spec and spec.loader
    kind = module_from_spec(spec)
    spec.loader.exec_module(kind)
    rows = [json.loads(line) for line in sys.stdin.buffer]
    activity = f"{job['checkpoint']} cannot be loaded"
    title = Path(job["kind"]).stem
    with tqdm(total=len(rows), desc=title, unit="text", mininterval=5) as progress:
        try:
            model, missing = kind.load(job)
            if missing:  # packages initialize them at random, with a warning
                lost = f"{len(missing)} of the model's tensors are missing, such as {missing[0]}"
                raise ValueError(lost)
            activity = "scoring failed"
            versions = {"python": platform.python_version()}
            versions |= {name: metadata.version(name) for name in (*PACKAGES, *kind.PACKAGES)}
            write({"device": job["device"], "versions": versions})
            for _, rows_of_run in groupby(rows, key=lambda row: row["run"]):
                run, start = list(rows_of_run), time.perf_counter()
                scores = kind.score(model, run, job)
                write({"scores": scores, "seconds": time.perf_counter() - start})
                progress.update(len(run))
        except ModuleNotFoundError as error:
            write({"failed": f"the metrics environment has no {error.name}; run `make metrics`"})
        # A checkpoint is an external file: no error in it may stop a study.
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip().splitlines() or ["no message"])[0]
            write({"failed": f"{activity} ({type(error).__name__}: {first})"})


if __name__ == "__main__":
    main()
