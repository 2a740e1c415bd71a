"""What a rule file calls: the functions of a stage for one study, and the job that a script gets.

A rule declares one output, a card. Other jobs read the card's folder, or a file in it: `Output`
holds both, as the text of the card, which Snakemake knows, and as `path`, which the script gets.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lexigraft.artifacts.cards import CARD
from lexigraft.artifacts.checksums import files_at, state_of
from lexigraft.artifacts.completion import input_checksum, leaves
from lexigraft.corpus.local_files import local_paths
from lexigraft.errors import UserError
from lexigraft.job import without_prefix
from lexigraft.plugins import with_digests
from lexigraft.settings import plain
from workflow.config.registries import WITHOUT_EFFECT
from workflow.study import Study

Wildcards = Mapping[str, str]
OfWildcards = Callable[[Wildcards], Any]
# Snakemake takes `{name}` in a path for a wildcard and `<name>` for a variable, without an escape
# for them, and cannot lock files whose names are not UTF-8. Such files are watched by their
# checksums alone, which are in the job's description.
_UNNAMEABLE = re.compile("[{<\ud800-\udfff]")


class Output(str):
    """The card of a job's output; `path` is its folder, or a file in it, which other jobs read."""

    path: str

    def __new__(cls, card: str, file: str = "") -> "Output":
        """The output that a card completes, or one `file` of it."""
        output = super().__new__(cls, card)
        folder = card.rpartition("/")[0]
        output.path = f"{folder}/{file}" if file else folder
        return output

    def file(self, name: str) -> "Output":
        """A file or folder in it, complete when the card is there."""
        return Output(self, name)


def output(study: Study, rule: str, wildcards: Mapping[str, Any]) -> Output:
    """The output of a rule for these wildcards; more wildcards than it has are ignored."""
    return Output(study.card(rule, **wildcards))


def of_study(stage: str, study: Study) -> SimpleNamespace:
    """The functions of a module of this package, as Snakemake calls them: without the study."""
    module = import_module(f"workflow.inputs.{stage}")

    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        # A plain function: Snakemake does not take a `partial` for an input function.
        def bound(wildcards: Wildcards, *arguments: Any) -> Any:
            return function(study, dict(wildcards.items()), *arguments)

        takes_wildcards = "wildcards" in inspect.signature(function).parameters
        return bound if takes_wildcards else partial(function, study)

    functions = inspect.getmembers(module, inspect.isfunction)
    own = (pair for pair in functions if pair[1].__module__ == module.__name__)
    return SimpleNamespace(**{name: bind(function) for name, function in own})


def tracked(inputs: OfWildcards) -> Callable[[Wildcards], list[str]]:
    """An input function: the cards of the outputs, and the existing files of the user, in `inputs`.

    For functions that return dictionaries or lists, or files of the user; a rule reads a function
    that returns an `Output` without it. The user's files are listed for their dates, since only the
    checkout that ran a job knows the earlier description, which has their checksums.
    """

    def paths(wildcards: Wildcards) -> list[str]:
        read = inputs(wildcards)
        files = (str(file) for path in user_paths(read) for file in files_at(path))
        nameable = [file for file in files if not _UNNAMEABLE.search(file)]
        cards = [card for card in leaves(read) if isinstance(card, Output)]
        return list(dict.fromkeys([*cards, *nameable]))

    return paths


def local_files(settings: OfWildcards) -> Callable[[Wildcards], list[str]]:
    """An input function: the existing files of the user that `settings` name."""
    return tracked(lambda wildcards: local_paths(plain(settings(wildcards))))


def one_of(names: Iterable[str]) -> str:
    """The constraint of a wildcard to some names; without any, it matches nothing.

    Snakemake would treat an empty pattern as no constraint.
    """
    return "|".join(map(re.escape, names)) or "(?!)"


def per_attempt(amount: int | OfWildcards) -> Callable[..., int]:
    """A resource that grows with each attempt of a job."""

    def resource(wildcards: Wildcards, attempt: int) -> int:
        first: int = amount(wildcards) if callable(amount) else amount
        return attempt * first

    return resource


def seed_of(study: Study, *parts: str) -> OfWildcards:
    """A `seed` of a job: that of the study, and parts with wildcards in braces."""
    return lambda wildcards: [study.settings.seed, *(part.format(**wildcards) for part in parts)]


def describe_job(
    study: Study,
    rule: str,
    *,
    version: int | None,
    settings: Any = None,
    inputs: Any = None,
    outputs: Mapping[str, Any] | None = None,
    unlisted: Sequence[str] = (),
    versions: Any = None,
    **facts: Any,
) -> Callable[..., str]:
    """A `params` function: the job description that the script of a rule reads, as JSON.

    It contains everything that the output depends on and that Snakemake cannot see: settings,
    versions, and the checksums of the user's files, whose dates may be older than the output. It is
    one text, since Snakemake compares strings as a whole, unlike the values of a dict or list.
    Paths are relative to the study's prefix, if it has one.

    Every argument is a value, or a function of the wildcards; None is left out. `version` is that
    of the rule's results, None if they are pinned by a checksum, and `versions` those of kinds that
    compute them. `settings` say what to compute; local files that they name are the input `files`.
    The script gets the folders of the rule's inputs. `inputs` replace those of the same names by
    single files, dictionaries and the user's files; those in `unlisted` it finds itself (ten
    thousand paths do not fit on a command line). `outputs` are folders in addition to that of the
    card, and `facts` what else the script reads, such as `seed`.
    """

    # Snakemake does not compare parameters whose functions have an argument `input` or `output`.
    def describe(wildcards: Wildcards, **paths: Any) -> str:
        card = str(paths["output"][0])

        def value(part: Any) -> Any:
            return part(wildcards) if callable(part) else part

        read: dict[str, Any] = {
            name: [Output(card) for card in cards] if isinstance(cards, list) else Output(cards)
            for name, cards in paths["input"].items()
            if name not in unlisted and name != "files" and cards
        }
        read |= {name: value(part) for name, part in (value(inputs) or {}).items()}
        described = {name: value(part) for name, part in facts.items()}
        chosen = plain(value(settings) or {})
        if rule != "build_report":  # whose settings repeat the study
            known = user_paths(read)
            of_tasks = [task["settings"] for task in described.get("tasks", {}).values()]
            read["files"] = [path for path in local_paths([chosen, *of_tasks]) if path not in known]
        kinds = value(versions) or {}
        folder, _, card_name = card.rpartition("/")
        parts = {
            "rule": rule,
            "settings": {key: chosen[key] for key in chosen if key != WITHOUT_EFFECT},
            "inputs": _paths({name: part for name, part in read.items() if part not in ([], {})}),
            **described,
            "outputs": {
                "folder": folder,
                **({} if card_name == CARD else {"card": card}),
                **{name: _paths(value(part)) for name, part in (outputs or {}).items()},
            },
            "contents": _contents(study, card, user_paths(read)) or None,
            "versions": version and with_digests({"stage": version, **kinds}, chosen),
        }
        text = json.dumps({k: v for k, v in parts.items() if v is not None}, ensure_ascii=False)
        return without_prefix(text, study.settings.prefix)

    return describe


def user_paths(inputs: Any) -> list[str]:
    """The user's files, folders and patterns among the inputs of a job, each once.

    For learned metrics, the card of the metric stands for the Python of their environment.
    """
    paths: dict[str, None] = {}
    if isinstance(inputs, Mapping) and "hub" not in inputs:
        inputs = [inputs[key] for key in inputs if key != "python"]
    if isinstance(inputs, list | tuple):
        for value in inputs:
            paths |= dict.fromkeys(user_paths(value))
    elif isinstance(inputs, str) and not isinstance(inputs, Output):
        paths[inputs] = None
    return list(paths)


def _paths(inputs: Any) -> Any:
    """The same inputs with the path of each output, as the script reads it."""
    if isinstance(inputs, Mapping):
        return {name: _paths(value) for name, value in inputs.items()}
    if isinstance(inputs, list | tuple):
        return [_paths(value) for value in inputs]
    return inputs.path if isinstance(inputs, Output) else inputs


def _contents(study: Study, card: str, paths: Sequence[str]) -> dict[str, str | None]:
    """File or folder of the user -> its checksum; a missing one keeps that in the job's card.

    So a plan works without the data, and what was made from deleted files stays valid.
    """
    checksums: dict[str, str | None] = dict.fromkeys(paths)
    for path in paths:
        with suppress(OSError, UserError):  # the job that reads it says what is wrong
            if files_at(path):
                # Once for many jobs that read the same file. A run plans its jobs one by one, so
                # that files may change in between: the key has their state.
                key = (path, state_of(path))
                if key[1] is None or key not in study.shared:
                    study.shared[key] = input_checksum(path)
                checksums[path] = study.shared[key]
    if None in checksums.values():
        with suppress(OSError, ValueError, KeyError, TypeError):
            recorded = json.loads(Path(card).read_text("utf-8"))["job"]["contents"]
            missing = [path for path in paths if checksums[path] is None]
            checksums |= {path: recorded.get(path) for path in missing}
    return checksums
