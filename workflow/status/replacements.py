"""Which finished jobs a run will replace, and what they took: said before anything is replaced.

An edit of a registry, of a study or of the code makes finished cells stale, and the next run makes
them anew. Judged as the jobs judge themselves (`lexigraft.completion`): what Snakemake starts for
another reason ends at once and replaces nothing. What a job reads may be made anew with the same
content, which nobody knows before: the numbers are upper bounds.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from lexigraft.completion import completed, fingerprint, input_checksum, keeps_replaced
from lexigraft.provenance import leaves
from lexigraft.usage import DONE, read_usage
from workflow.stages import STAGES, Output, Study

SHOWN = 3  # cells are named, up to this many


@dataclass(frozen=True)
class Replaced:
    """A finished job whose outputs will be replaced, and what it took.

    The attempt that ended well, and failed ones before it; attempts of an evaluation complete each
    other.
    """

    output: Output
    job_hours: float
    gpu_hours: float
    gigabytes: float


def replacements(study: Study, planned: Iterable[Output]) -> list[Replaced]:
    """The finished jobs among planned ones that will be replaced.

    Local ones are left out, which take seconds, and those whose inputs only their scripts know:
    the report and learned metrics, which score what is new.
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
    """What to say of them before a run begins, in two lines; nothing where there are none."""
    found = replacements(study, planned)
    if not found:
        return ""
    rules = Counter(one.output.rule for one in found).items()
    lines = [
        f"Settings, code or texts have changed: this run replaces up to {len(found)} finished "
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
    """What becomes of each planned job, by its card."""

    def __init__(self, study: Study, planned: Iterable[Output]):
        self._study, self.planned = study, {output.card: output for output in planned}
        self._known: dict[str, bool] = {}
        self.cards: dict[str, dict[str, Any]] = {}  # of jobs that are complete
        # Many jobs read the same.
        self._checksum, self._exists = cache(input_checksum), cache(os.path.exists)

    def replaces(self, output: Output) -> bool:
        """Whether a planned job will make its outputs anew, those that it has."""
        if output.card not in self.planned:
            return False
        if output.card not in self._known:
            self._known[output.card] = self._judge(output)
        return self._known[output.card]

    def _judge(self, output: Output) -> bool:
        found = completed({"outputs": {"folder": str(output), "card": output.card}})
        if found is None:
            return True  # made for the first time
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
            return False  # put back before this job begins
        return bool(fingerprint(job, self._checksum) != found["fingerprint"])

    def _replaces_runs(self, job: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
        """Whether an evaluation repeats runs; tasks and runs that are new replace nothing."""
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
