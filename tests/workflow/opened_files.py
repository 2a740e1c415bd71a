"""Run jobs of a study, each in a fork of this process, and tell which files they open.

    python opened_files.py study.yaml

Prints a JSON object: the card of each job -> `opened`, all files that its script opened, and
`listed`, the user's files and folders in its description and in that of the sources it depends on.
Of rules that read only what other jobs made, one job is run, and the report is not built.
"""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

from lexigraft.artifacts.checksums import files_at
from lexigraft.installation import ROOT
from workflow.jobs import jobs_of
from workflow.preloaded_python import run_as_python

ONCE = ("train", "evaluate", "measure_fragmentation", "measure_alignment")
NEVER = ("build_report", "score_predictions")  # which read the others, or need another Python


def absolute(path: str | os.PathLike) -> str:
    """A path without `..`; links in it are not followed."""
    return os.path.normpath(Path(path).absolute())


def opened_by(script: str, job: str, log: str) -> list[str]:
    """The files that a job opens; it ends this process if the job fails."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as names:
        if not (child := os.fork()):
            recorded = os.open(names.name, os.O_WRONLY)
            Path(log).parent.mkdir(parents=True, exist_ok=True)
            os.dup2(os.open(log, os.O_CREAT | os.O_WRONLY), 1)
            os.dup2(1, 2)

            def record(event: str, arguments: tuple) -> None:
                if event == "open" and isinstance(arguments[0], str | os.PathLike):
                    os.write(recorded, f"{absolute(arguments[0])}\n".encode())

            sys.addaudithook(record)
            run_as_python([script, job], safe_path=True)
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{script}: {Path(log).read_text(encoding='utf-8')}")
        return sorted({*names.read().splitlines()})


def main(file: str) -> None:
    jobs = jobs_of(file)
    found: dict[str, dict[str, list[str]]] = {}

    def run(card: str) -> None:
        if card in found:
            return
        job, listed = jobs[card], set()
        for need in filter(jobs.__contains__, job.inputs):
            run(need)
            # Cards of sources have the checksums of the models' files, which are read in place.
            listed |= {*found[need]["sources"]}
        described = job.description
        own = {absolute(file) for path in described.get("contents", {}) for file in files_at(path)}
        if "state" in described:  # a digest of the content of the files of a metric
            named = (described["settings"][key] for key in ("checkpoint", "encoder"))
            own |= {absolute(file) for path in named for file in files_at(path)}
        script = re.search(r"scripts/\w+\.py", job.command)[0]
        opened = opened_by(f"{ROOT}/{script}", json.dumps(described), job.log)
        sources = own if job.rule == "prepare_source" else listed
        found[card] = {
            "opened": opened, "listed": sorted(own | listed), "sources": sorted(sources)
        }  # fmt: skip

    for card, job in jobs.items():
        others = {jobs[one].rule for one in found}
        if job.rule not in NEVER and not (job.rule in ONCE and job.rule in others):
            run(card)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
