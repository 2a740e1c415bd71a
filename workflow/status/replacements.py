"""Which finished jobs a run will replace, and how long they took, reported before it starts.

An edit of a registry, a study or the code makes finished cells stale, and the next run recomputes
them. The criterion is that of the jobs themselves (`lexigraft.artifacts.completion`): jobs that
Snakemake starts for another reason end at once and replace nothing. A job's inputs may be
recomputed with the same content, which cannot be known before: the numbers are upper bounds.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lexigraft.artifacts.cards import leaves
from lexigraft.artifacts.completion import completed, fingerprint, input_checksum, keeps_replaced
from lexigraft.usage import DONE, read_usage
from workflow.stages import STAGES, Output, Study

SHOWN = 3  # maximum number of cells that are named


@dataclass(frozen=True)
class Replaced:
    """A finished job whose outputs will be replaced, and its cost.

    The cost includes the successful attempt and failed ones before it; attempts of an evaluation
    complement each other.
    """

    output: Output
    job_hours: float
    gpu_hours: float
    gigabytes: float


def replacements(study: Study, planned: Iterable[Output]) -> list[Replaced]:
    """The finished jobs among planned ones that will be replaced.

    Excluded are local jobs, which take seconds, and jobs whose inputs only their scripts know: the
    report and learned metrics, which only score new predictions.
    """
    forecast, found = _Forecast(study, planned), []
    for output in forecast.planned.values():
        stage = STAGES[output.rule]
        if stage.is_local or stage.requires or not forecast.replaces(output):
            continue
        if card := forecast.cards.get(output.card):
            found.append(_taken(output, card))
    return found


def notice(study: Study, planned: Iterable[Output]) -> str:
    """The message about them before a run starts, in two lines; empty if there are none."""
    found = replacements(study, planned)
    if not found:
        return ""
    rules = Counter(one.output.rule for one in found).items()
    lines = [
        f"Settings, versions or texts have changed: this run replaces up to {len(found)} finished "
        f"jobs, which took {sum(one.gpu_hours for one in found):.1f} GPU-hours and "
        f"{sum(one.job_hours for one in found):.1f} job-hours "
        f"({', '.join(f'{rule}: {count}' for rule, count in rules)})."
    ]
    cells = [one for one in found if one.output.rule == "train"]
    if cells:
        names = [one.output.removeprefix(f"{study.results}/") for one in cells[:SHOWN]]
        more = f" and {len(cells) - SHOWN} more" if len(cells) > SHOWN else ""
        size = sum(one.gigabytes for one in cells)
        kept = f"are moved to {study.results}/replaced ({size:.1f} GB)"
        lines.append(
            f"Cells that are trained again {kept if keeps_replaced() else 'are not kept'}: "
            f"{', '.join(names)}{more}. See docs/status.md."
        )
    return "\n".join(lines)


class _Forecast:
    """Whether each planned job will be replaced, by its card."""

    def __init__(self, study: Study, planned: Iterable[Output]):
        self._study, self.planned = study, {output.card: output for output in planned}
        self._known: dict[str, bool] = {}
        self.cards: dict[str, dict[str, Any]] = {}  # of complete jobs
        # Many jobs read the same files.
        self._checksum, self._exists = cache(input_checksum), cache(os.path.exists)

    def replaces(self, output: Output) -> bool:
        """Whether a planned job will recompute its existing outputs."""
        if output.card not in self.planned:
            return False
        if output.card not in self._known:
            self._known[output.card] = self._judge(output)
        return self._known[output.card]

    def _judge(self, output: Output) -> bool:
        found = completed({"outputs": {"folder": str(output), "card": output.card}})
        if found is None:
            return True  # created for the first time
        self.cards[output.card] = found["card"]
        job = self._study.described(output.rule, output.wildcards)
        old = found["card"].get("job", {})
        if "tasks" in job:
            job["tasks"] = json.loads(json.dumps(job["tasks"]))  # lists and tuples are the same
            if job["tasks"] != old.get("tasks"):
                return self._replaces_runs(job, old)
        needs = {need.card: need for need in _outputs(job["inputs"])}
        if any(self.replaces(need) for need in needs.values()):
            return True
        if not all(map(self._exists, needs)):
            return False  # recreated before this job starts
        return bool(fingerprint(job, self._checksum) != found["fingerprint"])

    def _replaces_runs(self, job: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
        """Whether an evaluation repeats runs; new tasks and runs replace nothing."""
        read, tasks = job["inputs"]["read"], old.get("tasks", {})
        both = [task for task in job["tasks"] if task in tasks]
        if any(job["tasks"][task] | {"runs": 0} != tasks[task] | {"runs": 0} for task in both):
            return True
        needs = _outputs([job["inputs"]["cell"], *(read[task] for task in both)])
        return any(self.replaces(need) for need in needs)


def _taken(output: Output, card: Mapping[str, Any]) -> Replaced:
    lines: list[dict[str, Any]] = []
    for line in read_usage(output):
        if lines and lines[-1].get("ended") == DONE and "tasks" not in card.get("job", {}):
            lines = []
        lines.append(line)
    files = card.get("files", {}).values()
    return Replaced(
        output,
        job_hours=sum(line["seconds"] for line in lines) / 3600,
        gpu_hours=sum(line["seconds"] * line.get("gpus", 0) for line in lines) / 3600,
        gigabytes=sum(file["bytes"] for file in files if isinstance(file, dict)) / 1e9,
    )


def _outputs(inputs: Any) -> Iterator[Output]:
    """The outputs of other jobs among the inputs of one."""
    return (one for one in leaves(inputs) if isinstance(one, Output))
