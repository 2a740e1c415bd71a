"""Where a learned metric's files lie on this machine, found without asking the hub.

Only the standard library: the Snakefile asks this each time it is parsed.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# What Snakemake compares must outlive the card, which it deletes before it has the card remade.
STATE = "state.json"


@dataclass(frozen=True)
class Part:
    """One folder that a metric loads from."""

    # Its key in config/metrics.yaml: `checkpoint`, or COMET's `encoder`, of which only the
    # tokenizer and the configuration are read.
    key: str
    name: str | None  # a folder or a hub name; None where the registry names none
    revision: str | None  # a commit, tag or branch of a hub name
    # Groups of file names; of each group one must be there, the first that is there is used.
    needs: tuple[tuple[str, ...], ...]
    optional: tuple[str, ...] = ()  # names of files that are used where they are there

    @property
    def is_local(self) -> bool:
        """Whether the name is a path: it begins with `/`, `.` or `~`, which no hub name does."""
        return self.name is not None and self.name.startswith(("/", ".", "~"))

    def folder(self) -> Path | None:
        """Where it lies: the folder itself, or its snapshot in the hub cache if there is one."""
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
        """The first group of which no file is there; None where all is there."""
        return next((group for group in self.needs if not self._first(group)), None)

    def files(self) -> list[Path]:
        """The files that are used, of those that are there."""
        groups = (*self.needs, *((name,) for name in self.optional))
        return [file for group in groups if (file := self._first(group))]

    def _first(self, group: tuple[str, ...]) -> Path | None:
        folder = self.folder()
        files = (folder / name for name in group) if folder else ()
        return next((file for file in files if file.is_file()), None)


def parts(settings: Mapping[str, Any]) -> list[Part]:
    """The folders that a metric of config/metrics.yaml loads from."""
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
    """What a metric's preparation depends on, as a digest: it is stale when this changes.

    It changes when something appears that a failed preparation lacked (the environment, a file,
    permission to ask the hub), and when a file was replaced. It does not change when something
    vanishes: scores that are there stay there. `settings` are the metric's entry of
    config/metrics.yaml, `python` is the metrics environment's; in the `folder` where the metric is
    prepared, `state.json` says what was found there before.
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
    """A digest of what this machine has for a metric, and whether it is all that it needs."""
    wanted = parts(settings)
    files = [(part, file, file.stat()) for part in wanted for file in part.files()]
    missing = [part for part in wanted if part.missing()]
    environment = [Path(python).exists(), installed(python)]
    found = {
        "environment": environment,
        "hub": is_offline() if any(part.name and not part.is_local for part in missing) else None,
        # A commit of the hub never changes, and its copies have other times than the first.
        "files": [
            [part.key, file.name, at.st_size, at.st_mtime_ns if part.is_local else None]
            for part, file, at in files
        ],
    }
    digest = hashlib.sha256(json.dumps(found).encode()).hexdigest()[:16]
    return digest, environment[0] and not missing


def installed(python: str) -> bool:
    """Whether `make metrics` came to its end; an environment made otherwise has no such mark."""
    return (Path(python).parent.parent / "main").exists()


def hub_cache() -> Path:
    """The hub's cache, where huggingface_hub has it (which takes long to import)."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()


def is_offline() -> bool:
    """Whether the environment forbids the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
