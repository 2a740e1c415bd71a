"""The commits that a results folder locks for what it reads from the hub without one.

A name without a commit means other files when its branch moves. So what is read first is looked up
and written to `revisions.json`, and from then on all jobs read that commit. Studies that share a
results folder share its commits, as they share its cells.

The Snakefile reads this file each time it is parsed: no imports that take time at the top.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from lexigraft.atomic import write_json
from lexigraft.errors import UserError
from lexigraft.source.hub_check import COMMIT, HubAsset, ask_hub, cached_commit

LOCK = "revisions.json"
_THREADS = 8  # requests to the hub at a time


def read_lock(results: str | Path) -> dict[str, str]:
    """The commits that a results folder locks, by `HubAsset.key`; empty where it locks none.

    Raises a UserError that names the file, and the key that is wrong.
    """
    file = Path(results, LOCK)
    remedy = "restore it, or delete it to look the commits up again"
    try:
        locked = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}); {remedy}") from None
    for key, commit in locked.items() if isinstance(locked, dict) else [("the file", None)]:
        if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
            raise UserError(f"{file}: {key} has no commit of 40 hexadecimal digits; {remedy}")
    return dict(locked)


def lock(results: str | Path, assets: Iterable[HubAsset]) -> dict[str, str]:
    """Lock the commits that assets have today, and return all that are locked.

    What is locked or pinned already stays. A commit that the hub does not say is taken from its
    cache, which holds what was read last; what is not there either stays without one.
    """
    known = read_lock(results)
    wanted = {one.key: one for one in assets if not one.is_pinned and one.key not in known}
    if not wanted:
        return known
    with ThreadPoolExecutor(_THREADS) as pool:
        found = zip(wanted, pool.map(_commit, wanted.values()), strict=True)
        return add(results, {key: commit for key, commit in found if commit})


def add(results: str | Path, commits: dict[str, str]) -> dict[str, str]:
    """Lock commits by their keys and return all that are locked; of two the first one stays."""
    with _alone_in(Path(results)):
        locked = commits | read_lock(results)
        if commits:
            write_json(Path(results, LOCK), dict(sorted(locked.items())))
    return locked


def _commit(asset: HubAsset) -> str | None:
    return ask_hub(asset).commit or cached_commit(asset)


@contextmanager
def _alone_in(results: Path) -> Iterator[None]:
    """Hold the lock file from other processes that add to it, where the file system has locks."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / f".{LOCK}.lock").open("w") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
