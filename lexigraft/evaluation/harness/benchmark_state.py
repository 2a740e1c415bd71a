"""What this machine has for a benchmark, found without the harness and without asking the hub.

Only the standard library: the Snakefile asks this each time it is parsed.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.evaluation.learned.checkpoint import STATE, hub_cache, is_offline


def benchmark_state(data: str | None, folder: str | Path, locked: Mapping[str, str]) -> str:
    """What a benchmark's preparation depends on, as a digest: it is stale when this changes.

    One that failed is tried again once its data may have come: a data set appeared in the local
    folder `data` that the task may name or in the hub's cache, or the hub may be asked now. One
    that was prepared from a local folder is prepared again when files there are replaced. It does
    not change when something vanishes: scores that are there stay there. One that was read from the
    hub is prepared again when other commits are `locked` for it. In the `folder` where the
    benchmark is prepared, `state.json` says what was found there before.
    """
    try:
        before = json.loads(Path(folder, STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _observed(data, None)
    other = {key: locked.get(key, commit) for key, commit in before["commits"].items()}
    if other != before["commits"]:
        return _digest(other)
    used = before["used"]
    if used is not None and not all(Path(place).is_dir() for place in used):
        return before["state"]
    now = _observed(data, used)
    # A copy of the project has other times than the first; what it holds is the same.
    same = now == before["found"] or (used and _content(used) == before["content"])
    return before["state"] if same else now


def new_state(
    state: str, data: str | None, used: list[str] | None, commits: Mapping[str, str]
) -> dict[str, Any]:
    """What `state.json` holds of a benchmark that was prepared, or could not be, in a state."""
    return {
        "state": state,
        "found": _observed(data, used),
        "content": _content(used or []),
        "used": used,
        "commits": commits,
    }


def _content(used: list[str]) -> str:
    """A digest of what is in the local files that were used."""
    digest = hashlib.sha256()
    for file in _files(used):
        digest.update(f"{file}\n{file.stat().st_size}\n".encode())
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]


def _observed(data: str | None, used: list[str] | None) -> str:
    """A digest of a look at the local files that were used, or at all data where none could be."""
    found: dict[str, Any]
    if used is None:
        places = [Path(data).expanduser().glob("*/*")] if data else []
        places.append(hub_cache().glob("datasets--*"))
        found = {"hub": is_offline(), "there": [sorted(map(str, place)) for place in places]}
    else:
        facts = ((file, file.stat()) for file in _files(used))
        found = {"files": [[str(file), at.st_size, at.st_mtime_ns] for file, at in facts]}
    return _digest(found)


def _digest(found: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]


def _files(places: list[str]) -> list[Path]:
    every = (file for place in places for file in sorted(Path(place).rglob("*")))
    return [file for file in every if file.is_file()]


def reason_not_available(job: Mapping[str, Any]) -> str | None:
    """Why a job of `evaluate` cannot be scored, which needs no model to see; None where it can.

    What is missing in one language stops all of them: means over other languages would not compare.
    """
    benchmarks = job["inputs"].get("benchmarks", {})
    files = (Path(place, "card.json") for place in benchmarks.values())
    cards = [json.loads(file.read_text("utf-8")) for file in files]
    return "; ".join(dict.fromkeys(card["why"] for card in cards if not card["available"])) or None
