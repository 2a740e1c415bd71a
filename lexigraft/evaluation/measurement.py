"""What a task hands back, and the record that is written of it."""

from dataclasses import dataclass, field
from typing import Any

from lexigraft.provenance import versions


@dataclass(frozen=True)
class Measurement:
    """What one run of a task measured.

    Attributes
    ----------
    metrics
        Flat name -> number. Each name is a column of the report.
    details
        What explains the numbers: counts, signatures, conditions. Builtin types only.
    """

    metrics: dict[str, float | int]
    details: dict[str, Any] = field(default_factory=dict)


def record(job: dict[str, Any], measured: Measurement) -> dict[str, Any]:
    """The evaluation record of a job, ready for JSON."""
    return {
        "task": job["task"],
        "kind": job["settings"]["kind"],
        "cell": job["cell"],
        "run": job["run"],
        # Of a checkpoint, which one; of a trained cell nothing.
        **({"checkpoint": job["checkpoint"]} if "checkpoint" in job else {}),
        "metrics": measured.metrics,
        "details": measured.details,
        "settings": job["settings"],
        "seed": job["seed"],
        "versions": versions(),
    }
