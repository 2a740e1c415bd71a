"""Find what this machine has for a benchmark, without the harness and without the hub.

Standard library only: the Snakefile calls this each time it is parsed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexigraft.artifacts.checksums import file_checksum, files_in
from lexigraft.evaluation.learned.checkpoint import STATE, digest_of, hub_cache, is_offline


def benchmark_state(data: str | None, folder: str | Path, locked: Mapping[str, str]) -> str:
    """Digest of what a benchmark's preparation depends on: it is stale when the digest changes.

    A failed preparation is repeated when data sets appear in the local folder `data` or the hub's
    cache, or access to the hub is allowed; one from a local folder when files in it are replaced,
    one from the hub when other commits are `locked` for it. When something disappears, existing
    scores are kept. `state.json` in `folder` records what was found before.
    """
    try:
        last = json.loads(Path(folder, STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _observed(data, None)
    commits = {key: locked.get(key, commit) for key, commit in last["commits"].items()}
    if commits != last["commits"]:
        return digest_of(commits)
    used = last["used"]
    if used is not None and not all(Path(path).is_dir() for path in used):
        return str(last["state"])
    digest = _observed(data, used)
    return str(last["state"]) if digest == last["found"] else digest


def new_state(
    state: str, data: str | None, used: list[str] | None, commits: Mapping[str, str]
) -> dict[str, Any]:
    """The content of `state.json` after a successful or failed preparation in a state."""
    return {"state": state, "found": _observed(data, used), "used": used, "commits": commits}


def _observed(data: str | None, used: list[str] | None) -> str:
    """Digest of the content of the local files used; of all data sets if preparation failed."""
    if used is None:
        local = Path(data).expanduser().glob("*/*") if data else ()
        folders = [sorted(map(str, paths)) for paths in (local, hub_cache().glob("datasets--*"))]
        return digest_of({"hub": is_offline(), "folders": folders})
    files = [file for path in used for file in sorted(files_in(path)) if file.is_file()]
    return digest_of({"files": [[str(file), file_checksum(file)] for file in files]})
