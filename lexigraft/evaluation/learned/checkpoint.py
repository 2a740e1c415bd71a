"""Find a learned metric's files on this machine, without asking the hub.

Standard library only: the Snakefile calls this each time it is parsed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexigraft.artifacts.checksums import file_checksum

# A separate file, since Snakemake deletes the card before it rebuilds it.
STATE = "state.json"
# Kind of metric -> version of its results, raised when code changes them.
METRIC_VERSIONS = {"bleurt": 1, "comet": 1}


@dataclass(frozen=True)
class Part:
    """One folder that a metric is loaded from."""

    # Its key in config/metrics.yaml: `checkpoint`, or COMET's `encoder`, of which only the
    # tokenizer and the configuration are read.
    key: str
    name: str | None  # a folder or a hub name; None if the registry names none
    revision: str | None  # a commit, tag or branch of a hub name
    # Groups of file names; one file of each group must exist, and the first that exists is used.
    needs: tuple[tuple[str, ...], ...]
    optional: tuple[str, ...] = ()  # names of files that are used if they exist

    @property
    def is_local(self) -> bool:
        """Whether the name is a path: it begins with `/`, `.` or `~`, which no hub name does."""
        return self.name is not None and self.name.startswith(("/", ".", "~"))

    def folder(self) -> Path | None:
        """The folder itself, or its snapshot in the hub cache if there is one."""
        if self.name is None:
            return None
        if self.is_local:
            return Path(self.name).expanduser()
        repository = hub_cache() / f"models--{self.name.replace('/', '--')}"
        revision = self.revision or "main"
        reference = repository / "refs" / revision
        commit = reference.read_text("utf-8").strip() if reference.is_file() else revision
        snapshot = repository / "snapshots" / commit
        return snapshot if snapshot.is_dir() else None

    def missing(self) -> tuple[str, ...] | None:
        """The first group of which no file exists; None if the part is complete."""
        return next((group for group in self.needs if not self._first(group)), None)

    def files(self) -> list[Path]:
        """The existing files that are used."""
        groups = (*self.needs, *((name,) for name in self.optional))
        return [file for group in groups if (file := self._first(group))]

    def _first(self, group: tuple[str, ...]) -> Path | None:
        folder = self.folder()
        files = (folder / name for name in group) if folder else ()
        return next((file for file in files if file.is_file()), None)


def parts(settings: Mapping[str, Any]) -> list[Part]:
    """The folders that a metric in config/metrics.yaml is loaded from."""
    optional = ("tokenizer_config.json", "special_tokens_map.json")
    weights: tuple[tuple[str, ...], ...] = (("hparams.yaml",), ("checkpoints/model.ckpt",))
    if settings["kind"] == "bleurt":
        weights = (
            ("config.json",),
            ("model.safetensors", "pytorch_model.bin"),
            ("spm.model", "vocab.txt"),
        )
        return [Part("checkpoint", settings["checkpoint"], settings["revision"], weights, optional)]
    tokenizer = (("config.json",), ("tokenizer.json", "sentencepiece.bpe.model"))
    return [
        Part("checkpoint", settings["checkpoint"], settings["revision"], weights),
        Part("encoder", settings["encoder"], settings["encoder_revision"], tokenizer, optional),
    ]


def state(settings: Mapping[str, Any], python: str, folder: str) -> str:
    """Digest of what a metric's preparation depends on: it is stale when the digest changes.

    It changes when something appears that a failed preparation lacked (the environment, a file,
    access to the hub), and when a file was replaced. It does not change when something disappears:
    existing scores are kept. `settings` are the metric's entry in config/metrics.yaml, `python` is
    that of the metrics environment; `state.json` in the metric's `folder` records what was found
    before.
    """
    now, complete = observed(settings, python)
    try:
        before = json.loads(Path(folder, STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return now
    if now == before["found"] or (before["available"] and not complete):
        return before["state"]
    return now


def observed(settings: Mapping[str, Any], python: str) -> tuple[str, bool]:
    """Digest of what this machine has for a metric, and whether that is complete."""
    wanted = parts(settings)
    missing = [part for part in wanted if part.missing()]
    environment = [Path(python).exists(), installed(python)]
    found = {
        "environment": environment,
        "hub": is_offline() if any(part.name and not part.is_local for part in missing) else None,
        # A commit on the hub never changes.
        "files": [
            [part.key, file.name, file_checksum(file) if part.is_local else None]
            for part in wanted
            for file in part.files()
        ],
    }
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
    return digest, environment[0] and not missing


def installed(python: str) -> bool:
    """Whether `make metrics` finished; environments built in another way do not have its marker."""
    return (Path(python).parent.parent / "main").exists()


def hub_cache() -> Path:
    """The hub cache of huggingface_hub, which is not imported because that takes long."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def is_offline() -> bool:
    """Whether the environment forbids access to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
