"""Check on the hub and the web whether what a study will read exists and is accessible.

Nothing is downloaded. huggingface_hub handles the user's token and `HF_ENDPOINT`.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from lexigraft.source.download import RefusedError, Remote, ask_file

if TYPE_CHECKING:
    from huggingface_hub import HfApi

OK, NOT_PINNED, GATED, MISSING, UNUSABLE, NO_ANSWER, CHANGED = (
    "ok", "not pinned", "gated", "missing", "unusable", "no answer", "changed",
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
_ATTEMPTS, _LONGEST = 5, 60.0  # attempts of a request, and maximum seconds between two of them
_SECONDS = 20.0  # timeout of an answer


@dataclass(frozen=True)
class HubAsset:
    """Something that a study reads from the hub; `where` names the place that uses it."""

    kind: str  # model, tokenizer, pieces, encoder, hypernetwork, metric or data set
    name: str
    revision: str | None = None
    files: tuple[str, ...] = ()  # patterns of the files that are read; (): those of the kind
    where: str = ""

    @property
    def repository_type(self) -> str:
        """`dataset` or `model`."""
        return "dataset" if self.kind == "data set" else "model"

    @property
    def key(self) -> str:
        """The repository and its branch, tag or commit: `models/org/name@main`."""
        return f"{self.repository_type}s/{self.name}@{self.revision or 'main'}"

    @property
    def is_pinned(self) -> bool:
        """Whether its revision is a commit."""
        return COMMIT.fullmatch(self.revision or "") is not None


@dataclass(frozen=True)
class HubAnswer:
    """An answer: a state, what is wrong or what to do; bytes to read, commit if known."""

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
    attempt = 0
    while True:
        attempt += 1
        try:
            return _ask(api, asset)
        except errors.GatedRepoError:
            page = f"datasets/{asset.name}" if asset.kind == "data set" else asset.name
            terms = f"accept its terms at {address}/{page}, then run `hf auth login`"
            return HubAnswer(GATED, terms)
        except errors.RevisionNotFoundError:
            return HubAnswer(MISSING, f"no revision {asset.revision}")
        except errors.RepositoryNotFoundError:
            return HubAnswer(MISSING, "no such repository, or it is private: run `hf auth login`")
        except errors.HfHubHTTPError as error:
            status = error.response.status_code
            if status in (401, 403):
                advice = f"access denied ({status}): run `hf auth login`, or accept its terms"
                return HubAnswer(GATED, advice)
            if attempt == _ATTEMPTS or (status != 429 and status < 500):
                return HubAnswer(NO_ANSWER, f"the hub returned status {status}; try again later")
            seconds = error.response.headers.get("Retry-After") or ""
            sleep(min(float(seconds) if seconds.isdigit() else 2.0**attempt, _LONGEST))
        except (errors.HTTPError, OSError) as error:  # HTTPError: from the library's connections
            return HubAnswer(NO_ANSWER, f"{address} cannot be reached ({type(error).__name__})")


def ask_web(url: str, recorded: Remote | None = None) -> HubAnswer:
    """Query a server for a file; `recorded` is its answer at the download, if it was fetched."""
    try:
        remote = ask_file(url)
    except RefusedError as error:
        if error.status in (401, 403):
            return HubAnswer(GATED, f"the server denies access ({error.status})")
        return HubAnswer(MISSING, f"the server returned status {error.status}")
    except UserError as error:
        return HubAnswer(NO_ANSWER, str(error).removeprefix(f"{without_secrets(url)}: "))
    if recorded and any(
        None not in pair and pair[0] != pair[1]
        for pair in ((recorded.bytes, remote.bytes), (recorded.etag, remote.etag))
    ):
        detail = "the file on the server differs from the downloaded one"
        return HubAnswer(CHANGED, detail, remote.bytes)
    return HubAnswer(OK, "", remote.bytes)


def is_folder(place: str) -> bool:
    """Whether a string is a folder (begins with `/`, `.` or `~`) and not a hub name."""
    return place.startswith(("/", ".", "~"))


def cached_commit(asset: HubAsset) -> str | None:
    """The commit that a branch or tag had when it was last read; None if it is not in the cache."""
    from huggingface_hub import constants

    name = "--".join([f"{asset.repository_type}s", *asset.name.split("/")])
    reference = Path(constants.HF_HUB_CACHE, name, "refs", asset.revision or "main")
    try:
        commit = reference.read_text("utf-8").strip()
    except OSError:
        return None
    return commit if COMMIT.fullmatch(commit) else None


def _ask(api: "HfApi", asset: HubAsset) -> HubAnswer:
    kind, revision = asset.repository_type, asset.revision
    info = api.repo_info(
        asset.name, revision=revision, repo_type=kind, files_metadata=True, timeout=_SECONDS
    )
    if getattr(info, "gated", False) or getattr(info, "private", False):
        api.auth_check(asset.name, repo_type=kind)
    files = {file.rfilename: file.size or 0 for file in getattr(info, "siblings", None) or ()}
    # Each of these tuples of patterns must match a file.
    needed = [(pattern,) for pattern in asset.files] or _NEEDED[asset.kind]
    for patterns in needed:
        if not any(_matches(name, patterns, asset) for name in files):
            problem = f"no file {' or '.join(patterns)}"
            is_script = asset.kind == "data set" and any(name.endswith(".py") for name in files)
            if is_script and not asset.files:
                problem = SCRIPT_ALONE
            return HubAnswer(UNUSABLE, problem, commit=info.sha)
    patterns = asset.files or _READ.get(asset.kind, ("*",))
    size = sum(size for name, size in files.items() if _matches(name, patterns, asset))
    if asset.is_pinned:
        return HubAnswer(OK, "", size, info.sha)
    named = f"revision {revision}" if revision else "no revision"
    return HubAnswer(NOT_PINNED, f"{named}; the current commit is {info.sha}", size, info.sha)


def _matches(name: str, patterns: Sequence[str], asset: HubAsset) -> bool:
    """Whether a file matches a pattern; files in subfolders of models are for other programs."""
    if "/" in name and not asset.files and asset.kind not in ("metric", "data set"):
        return False
    return any(fnmatch(name, pattern) for pattern in patterns)
