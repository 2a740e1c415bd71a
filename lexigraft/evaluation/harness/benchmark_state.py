"""Find what this machine has for a benchmark, without the harness and without the hub.

Standard library only: the Snakefile calls this each time it is parsed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.checksums import file_checksum, files_in
from lexigraft.evaluation.learned.checkpoint import STATE, hub_cache, is_offline


def benchmark_state(data: str | None, folder: str | Path, locked: Mapping[str, str]) -> str:
    """Digest of what a benchmark's preparation depends on: it is stale when the digest changes.

    A failed preparation is repeated when its data may be available: a data set has appeared in the
    task's local folder `data` (if any) or in the hub's cache, or access to the hub is now allowed.
    A preparation from a local folder is repeated when files in it are replaced. The digest does not
    change when something disappears: existing scores are kept. A preparation from the hub is
    repeated when other commits are `locked` for it. `state.json` in the benchmark's `folder`
    records what was found before.
    """
    try:
        last = json.loads(Path(folder, STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _observed(data, None)
    commits = {key: locked.get(key, commit) for key, commit in last["commits"].items()}
    if commits != last["commits"]:
        return _digest(commits)
    used = last["used"]
    if used is not None and not all(Path(path).is_dir() for path in used):
        return str(last["state"])
    digest = _observed(data, used)
    return str(last["state"]) if digest == last["found"] else digest


def new_state(
    state: str, data: str | None, used: list[str] | None, commits: Mapping[str, str]
) -> dict[str, Any]:
    """The content of `state.json` after a successful or failed preparation in a state."""
    return {
        "state": state,
        "found": _observed(data, used),
        "used": used,
        "commits": commits,
    }


def _observed(data: str | None, used: list[str] | None) -> str:
    """Digest of the content of the local files used; of all data sets if preparation failed."""
    if used is None:
        local = Path(data).expanduser().glob("*/*") if data else ()
        folders = [sorted(map(str, paths)) for paths in (local, hub_cache().glob("datasets--*"))]
        return _digest({"hub": is_offline(), "folders": folders})
    files = [file for path in used for file in sorted(files_in(path)) if file.is_file()]
    return _digest({"files": [[str(file), file_checksum(file)] for file in files]})


def _digest(observation: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(observation).encode()).hexdigest()[:16]


def reason_not_available(job: Mapping[str, Any]) -> str | None:
    """Why a job of `evaluate` cannot be scored, found without a model; None if it can.

    A language with missing data stops the job: means over fewer languages would not be comparable.
    """
    benchmarks = job["inputs"].get("benchmarks", {})
    files = (Path(folder, "card.json") for folder in benchmarks.values())
    cards = [json.loads(file.read_text("utf-8")) for file in files]
    return "; ".join(dict.fromkeys(card["why"] for card in cards if not card["available"])) or None
