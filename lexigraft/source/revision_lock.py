"""Lock the commits of hub assets that a study names without a commit.

A branch can change between two reads. So its commit is looked up before the first read and written
to `revisions.json` in the results folder, and all jobs read that commit.
"""

import fcntl
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from lexigraft.artifacts.atomic import write_json
from lexigraft.errors import UserError
from lexigraft.source.hub_check import COMMIT, HubAsset, ask_hub, cached_commit

REVISIONS_FILE = "revisions.json"
_THREADS = 8  # requests to the hub at a time


def read_lock(results: str | Path) -> dict[str, str]:
    """The locked commits of a results folder by `HubAsset.key`; empty if it locks none.

    Raises a UserError that names the file and, if a commit is invalid, its key.
    """
    file = Path(results, REVISIONS_FILE)
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
    """Lock the current commits of assets, and return all locked commits.

    Assets that are already locked or pinned do not change. If the hub does not answer, the commit
    is taken from its local cache, which holds the last read; otherwise the asset stays unlocked.
    """
    known = read_lock(results)
    unlocked = {
        asset.key: asset for asset in assets if not asset.is_pinned and asset.key not in known
    }
    if not unlocked:
        return known

    def current_commit(asset: HubAsset) -> str | None:
        return ask_hub(asset).commit or cached_commit(asset)

    with ThreadPoolExecutor(_THREADS) as pool:
        commits = zip(unlocked, pool.map(current_commit, unlocked.values()), strict=True)
        return add(results, {key: commit for key, commit in commits if commit})


def add(results: str | Path, commits: dict[str, str]) -> dict[str, str]:
    """Lock commits by their keys and return all locked commits; existing locks do not change."""
    Path(results).mkdir(parents=True, exist_ok=True)
    # Against other processes that add to the file, if the file system supports locks.
    with Path(results, f".{REVISIONS_FILE}.lock").open("w") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        locked = commits | read_lock(results)
        if commits:
            write_json(Path(results, REVISIONS_FILE), dict(sorted(locked.items())))
    return locked
