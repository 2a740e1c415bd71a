"""Check on the hub whether what a study will read exists and is accessible, and at which commit.

The user's token and `HF_ENDPOINT` are handled by huggingface_hub. Nothing is downloaded.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lexigraft.addresses import without_secrets

if TYPE_CHECKING:
    from huggingface_hub import HfApi

OK, NOT_PINNED, GATED, MISSING, UNUSABLE, NO_ANSWER = (
    "ok", "not pinned", "gated", "missing", "unusable", "no answer",
)  # fmt: skip
USABLE = (OK, NOT_PINNED)
PARQUET = "refs/convert/parquet"  # the branch with the hub's own copy of a data set
SCRIPT_ALONE = f"has only a loading script; use its branch {PARQUET}"
# Files that an asset must have: at least one of each tuple.
_NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "model": (("*.safetensors",), ("config.json",), ("tokenizer.json", "tokenizer.model")),
    "tokenizer": (("tokenizer.json",),),
    "pieces": (("tokenizer.json", "*.model"),),  # a tokenizer for metrics that compare texts
    "encoder": (("*.safetensors",), ("config.json",)),
    "hypernetwork": (("*.safetensors",), ("config.json",)),
    "metric": (("*.ckpt", "*.safetensors", "*.bin", "config.json"),),
    "data set": (("*.parquet", "*.jsonl*", "*.json*", "*.csv*", "*.tsv*", "*.txt*", "*.arrow"),),
}
_READ = {  # the files of each kind that are downloaded, to compute their size
    "model": ("*.safetensors", "*.json", "*.model", "*.txt"),
    "tokenizer": ("tokenizer*.json", "special_tokens_map.json", "added_tokens.json"),
    "pieces": ("tokenizer*.json", "*.model", "special_tokens_map.json", "added_tokens.json"),
}
COMMIT = re.compile("[0-9a-f]{40}")
MAIN = "main"  # the branch of an asset without a revision
_ATTEMPTS, _LONGEST = 5, 60.0  # attempts of a request, and maximum seconds between two of them
_SECONDS = 20.0  # timeout of an answer
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class HubAsset:
    """Something that a study reads from the hub; `where` names the place that uses it."""

    kind: Literal["model", "tokenizer", "pieces", "encoder", "hypernetwork", "metric", "data set"]
    name: str
    revision: str | None = None
    files: tuple[str, ...] = ()  # patterns of the files that are read; (): those of the kind
    where: str = ""

    @property
    def key(self) -> str:
        """The repository and its branch, tag or commit: `models/org/name@main`."""
        return f"{_type(self)}s/{self.name}@{self.revision or MAIN}"

    @property
    def is_pinned(self) -> bool:
        """Whether its revision is a commit."""
        return COMMIT.fullmatch(self.revision or "") is not None


@dataclass(frozen=True)
class HubAnswer:
    """The hub's answer: a state, what is wrong or what to do; bytes to read, commit if known."""

    state: str
    detail: str = ""
    size: int | None = None
    commit: str | None = None


def ask_hub(
    asset: HubAsset,
    endpoint: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> HubAnswer:
    """Query the hub for one asset; retries if the hub is busy (429) or fails (5xx)."""
    from huggingface_hub import HfApi, errors

    api = HfApi(endpoint=endpoint)
    address = without_secrets(api.endpoint)
    try:
        return _retried(lambda: _ask(api, asset), sleep)
    except errors.GatedRepoError:
        return HubAnswer(
            GATED, f"accept its terms at {address}/{_path(asset)}, then run `hf auth login`"
        )
    except errors.RevisionNotFoundError:
        return HubAnswer(MISSING, f"no revision {asset.revision}")
    except errors.RepositoryNotFoundError:
        return HubAnswer(MISSING, "no such repository, or it is private: run `hf auth login`")
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            return HubAnswer(
                GATED, f"access denied ({status}): run `hf auth login`, or accept its terms"
            )
        return HubAnswer(NO_ANSWER, f"the hub returned status {status}; try again later")
    except (errors.HTTPError, OSError) as error:  # HTTPError: from the library's connections
        return HubAnswer(NO_ANSWER, f"{address} cannot be reached ({type(error).__name__})")


def is_folder(place: str) -> bool:
    """Whether a string is a folder (begins with `/`, `.` or `~`) and not a hub name."""
    return place.startswith(("/", ".", "~"))


def cached_commit(asset: HubAsset) -> str | None:
    """The commit that a branch or tag had when it was last read; None if it is not in the cache."""
    from huggingface_hub import constants

    name = "--".join([f"{_type(asset)}s", *asset.name.split("/")])
    reference = Path(constants.HF_HUB_CACHE, name, "refs", asset.revision or MAIN)
    try:
        commit = reference.read_text("utf-8").strip()
    except OSError:
        return None
    return commit if COMMIT.fullmatch(commit) else None


def _ask(api: "HfApi", asset: HubAsset) -> HubAnswer:
    kind = _type(asset)
    info = api.repo_info(
        asset.name,
        revision=asset.revision,
        repo_type=kind,
        files_metadata=True,
        timeout=_SECONDS,
    )
    if getattr(info, "gated", False) or getattr(info, "private", False):
        api.auth_check(asset.name, repo_type=kind)
    siblings = getattr(info, "siblings", None) or ()
    files = {file.rfilename: file.size or 0 for file in siblings}
    if problem := _missing_files(asset, files):
        return HubAnswer(UNUSABLE, problem, commit=info.sha)
    patterns = asset.files or _READ.get(asset.kind, ("*",))
    size = sum(size for name, size in files.items() if _matches(name, patterns, asset))
    if not asset.is_pinned:
        revision = f"revision {asset.revision}" if asset.revision else "no revision"
        return HubAnswer(
            NOT_PINNED, f"{revision}; the current commit is {info.sha}", size, info.sha
        )
    return HubAnswer(OK, "", size, info.sha)


def _missing_files(asset: HubAsset, files: dict[str, int]) -> str:
    """The files that an asset needs and lacks, as a message; empty if none."""
    if asset.files:
        missing = [
            pattern for pattern in asset.files if not any(fnmatch(name, pattern) for name in files)
        ]
        return f"no file {', '.join(missing)}" if missing else ""
    for patterns in _NEEDED[asset.kind]:
        if not any(_matches(name, patterns, asset) for name in files):
            if asset.kind == "data set" and any(name.endswith(".py") for name in files):
                return SCRIPT_ALONE
            return f"no file {' or '.join(patterns)}"
    return ""


def _matches(name: str, patterns: Sequence[str], asset: HubAsset) -> bool:
    """Whether a file matches a pattern; files in subfolders of models are for other programs."""
    if "/" in name and asset.kind not in ("metric", "data set"):
        return False
    return any(fnmatch(name, pattern) for pattern in patterns)


def _type(asset: HubAsset) -> str:
    return "dataset" if asset.kind == "data set" else "model"


def _path(asset: HubAsset) -> str:
    return f"datasets/{asset.name}" if asset.kind == "data set" else asset.name


def _retried(ask: Callable[[], Answer], sleep: Callable[[float], None]) -> Answer:
    from huggingface_hub.errors import HfHubHTTPError

    for attempt in range(1, _ATTEMPTS):
        try:
            return ask()
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status != 429 and status < 500:
                raise
            sleep(_pause(error.response.headers.get("Retry-After"), attempt))
    return ask()


def _pause(retry_after: Any, attempt: int) -> float:
    """Seconds until the next attempt: the hub's `Retry-After`, or exponential backoff."""
    seconds = float(retry_after) if str(retry_after or "").isdigit() else 2.0**attempt
    return min(seconds, _LONGEST)
