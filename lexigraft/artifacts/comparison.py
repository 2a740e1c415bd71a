"""Compare two results folders: outputs in only one of them, and jobs and contents of common ones.

Files with equal checksums are not read. In all others, numbers are compared one by one: in cards,
records, lines and tensors. Paths do not matter; reports and replaced outputs are left out.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError, safe_open

from lexigraft.artifacts.cards import INPUTS, SEAL, cards_of, described_files, read_card
from lexigraft.artifacts.completion import CIRCUMSTANCES, PATH_KEYS
from lexigraft.artifacts.records import read_json, read_jsonl
from lexigraft.artifacts.verification import job_folders
from lexigraft.errors import UserError

ALONE, SETTING, VERSION, SEED = "alone", "setting", "version", "seed"
CONTENT, NUMBER, CIRCUMSTANCE = "content", "number", "circumstance"
KINDS = (ALONE, SETTING, VERSION, SEED, CONTENT, NUMBER, CIRCUMSTANCE)

_SOURCE = "source.json"  # holds the path of a source model; its files are listed in the card
# Speed metrics: seconds, amounts per second, and the spread of repeats.
_TIMED = re.compile(r"(^|_)(seconds|per_second|spread)(_|$)")


@dataclass(frozen=True)
class Difference:
    """One difference between two results folders."""

    # Of `KINDS`. `alone`: an output or file in only one folder; `content`: values that are not
    # numbers; `circumstance`: times and facts about the machine.
    kind: str
    place: str  # the output or file, relative to both folders
    name: str  # the key, column or tensor; for several values, also how many of them differ
    first: Any  # of several values, the pair that differs most; None where there is none
    second: Any
    absolute: float | None = None  # of numbers; of tensors the largest
    relative: float | None = None  # divided by the larger magnitude, of tensors the largest


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`."""

    outputs: int  # number of outputs that both folders have
    differences: list[Difference]  # by kind in the order of `KINDS`, the largest first
    circumstances: list[Difference]  # times and facts about the machine, which may differ


class _Output(NamedTuple):
    folder: Path
    cards: dict[str, dict[str, Any]]  # file -> its content without paths, files and checksum
    files: dict[str, str]  # name -> SHA-256


def compare(
    first: str | Path,
    second: str | Path,
    tolerance: float = 0.0,
    advance: Callable[[], object] = lambda: None,
) -> Comparison:
    """Compare the outputs of finished jobs in two results folders, or in two of their subfolders.

    Numbers count as equal if their relative difference is at most `tolerance`; settings must be
    the same. `advance` is called after each compared output. Raises a UserError if a folder does
    not exist or has no outputs, or one of its files is missing or damaged.
    """
    left, right = _outputs(Path(first)), _outputs(Path(second))
    common = [place for place in left if place in right]
    differences = [_alone(place, "", in_first=True) for place in left if place not in right]
    differences += [_alone(place, "", in_first=False) for place in right if place not in left]
    for place in common:
        differences += _of_output(place, left[place], right[place])
        advance()
    large = (
        item for item in differences if item.kind != NUMBER or (item.relative or 0) > tolerance
    )
    differences = sorted(
        large,
        key=lambda item: (KINDS.index(item.kind), -(item.relative or 0), item.place, item.name),
    )
    circumstances = [item for item in differences if item.kind == CIRCUMSTANCE]
    results = [item for item in differences if item.kind != CIRCUMSTANCE]
    return Comparison(len(common), results, circumstances)


def _outputs(top: Path) -> dict[str, _Output]:
    """Path relative to a results folder -> the output there, sorted by name."""
    outputs: dict[str, _Output] = {}
    archives: set[str] = set()  # folders to which replaced outputs are moved
    for folder, is_finished in job_folders(top):
        if not is_finished:
            continue
        names = sorted(file.name for file in folder.glob("card*.json"))
        cards = {name: read_card(folder, name) for name in names}
        jobs = [card.get("job", {}) for card in cards.values()]
        if any(job.get("rule") == "build_report" for job in jobs):
            continue
        paths = [job.get("outputs", {}).get("replaced") for job in jobs]
        archives |= {Path(path).name for path in paths if path}
        files = {
            name: described["sha256"]
            for card in cards_of(folder)
            for name, described in described_files(card, "files")
        }
        for card in cards.values():
            for key in {"files", INPUTS, SEAL} & card.keys():
                del card[key]
            if isinstance(job := card.get("job"), dict):
                card["job"] = {key: value for key, value in job.items() if key not in PATH_KEYS}
        outputs[folder.relative_to(top).as_posix()] = _Output(folder, cards, files)
    outputs = {
        place: output
        for place, output in outputs.items()
        if not archives.intersection(Path(place).parts[:1])
    }
    if not outputs:
        raise UserError(f"{top}: contains no outputs of finished jobs; specify a results folder")
    return outputs


def _of_output(place: str, first: _Output, second: _Output) -> Iterator[Difference]:
    pairs = [(name, name) for name in first.cards if name in second.cards]
    unpaired = [
        [name for name in output.cards if (name, name) not in pairs] for output in (first, second)
    ]
    if list(map(len, unpaired)) == [1, 1]:  # cards of a renamed study
        pairs.append((unpaired[0][0], unpaired[1][0]))
    for name, other_name in pairs:
        yield from _of_values(f"{place}/{name}", first.cards[name], second.cards[other_name])
    for name in dict.fromkeys([*first.files, *second.files]):
        hashes = first.files.get(name), second.files.get(name)
        where, files = f"{place}/{name}", (first.folder / name, second.folder / name)
        if None in hashes:
            yield _alone(where, "", hashes[1] is None)
        elif hashes[0] != hashes[1] and name != _SOURCE:
            if missing := [file for file in files if not file.is_file()]:
                raise UserError(
                    f"{missing[0]}: missing; run `lexigraft verify` to list all missing files"
                )
            differences = _of_files(where, files)
            unread = [Difference(CONTENT, where, "", *hashes)]
            yield from unread if differences is None else differences


def _of_files(where: str, files: tuple[Path, Path]) -> list[Difference] | None:
    """The differences in the values of two files; None if they have no values that differ."""
    suffix = files[0].suffix
    if suffix == ".jsonl":
        return _of_values(where, *({"": read_jsonl(file)} for file in files))
    if suffix == ".json":
        contents = [read_json(file) for file in files]
        if all(isinstance(content, dict) and "metrics" in content for content in contents):
            return _of_values(where, *contents)
    return list(_of_arrays(where, files)) or None if suffix in (".safetensors", ".npz") else None


def _of_values(where: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """One difference per name and kind; indices of list items are not part of the name."""
    values = dict(_leaves(first)), dict(_leaves(second))
    counts: Counter[tuple[str, ...]] = Counter()
    # Also by kind: a small relative difference must not hide values that are not numbers.
    differing: dict[tuple[tuple[str, ...], str], list[Difference]] = {}
    for keys in dict.fromkeys([*values[0], *values[1]]):
        names = tuple(key for key in keys if isinstance(key, str) and key)
        counts[names] += 1
        left, right = (value.get(keys) for value in values)
        if left != right:
            difference = _difference(where, names, left, right)
            differing.setdefault((names, difference.kind), []).append(difference)
    largest_of_names = []
    for (names, _), differences in differing.items():
        largest = max(differences, key=lambda difference: difference.relative or 0)
        count = f" ({len(differences)} of {counts[names]})" if counts[names] > 1 else ""
        largest_of_names.append(replace(largest, name=largest.name + count))
    return largest_of_names


def _leaves(
    value: Any, keys: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The values in nested mappings and lists, each with the keys that lead to it."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, (*keys, str(name)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*keys, number))
    else:
        yield keys, value


def _difference(where: str, names: tuple[str, ...], first: Any, second: Any) -> Difference:
    name = ".".join(names).removeprefix("job.")
    if names[:1] in (("job",), ("settings",), ("seed",)):
        kind = VERSION if "versions" in names else SEED if "seed" in names else SETTING
        return Difference(kind, where, name, first, second)
    if any(part in CIRCUMSTANCES or _TIMED.search(part) for part in names):
        return Difference(CIRCUMSTANCE, where, name, first, second)
    if not all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (first, second)
    ):
        return Difference(CONTENT, where, name, first, second)
    return _of_numbers(where, name, first, second, max(abs(first), abs(second)))


def _alone(where: str, name: str, in_first: bool) -> Difference:
    return Difference(ALONE, where, name, *(("there", None) if in_first else (None, "there")))


def _of_numbers(where: str, name: str, first: float, second: float, largest: float) -> Difference:
    absolute = abs(first - second)
    relative = absolute / largest
    if not math.isfinite(relative):
        return Difference(CONTENT, where, name, first, second)
    return Difference(NUMBER, where, name, first, second, absolute, relative)


def _of_arrays(where: str, files: tuple[Path, Path]) -> Iterator[Difference]:
    """One difference per tensor that differs; none if only the bytes of the files differ."""
    names = []
    for file in files:
        with _arrays(file) as arrays:
            names.append(list(arrays.keys()))
    for name in dict.fromkeys([*names[0], *names[1]]):
        if name not in names[0] or name not in names[1]:
            yield _alone(where, name, name in names[0])
            continue
        (first_type, first), (second_type, second) = (_array(file, name) for file in files)
        if (first_type, first.shape) != (second_type, second.shape):
            shapes = f"{first_type}{[*first.shape]}", f"{second_type}{[*second.shape]}"
            yield Difference(CONTENT, where, name, *shapes)
        elif first.dtype.kind != "f":  # texts
            if not np.array_equal(first, second):
                yield Difference(CONTENT, where, name, None, None)
        elif (gaps := np.abs(first - second)).any():
            index = np.unravel_index(gaps.argmax(), gaps.shape)
            largest = max(float(np.abs(values).max()) for values in (first, second))
            yield _of_numbers(where, name, float(first[index]), float(second[index]), largest)


def _array(file: Path, name: str) -> tuple[str, np.ndarray]:
    """The type and the values of an array in a file; numbers are converted to floating point."""
    with _arrays(file) as arrays:
        if file.suffix == ".npz":
            array = arrays[name]
            return str(array.dtype), array.astype(float) if array.dtype.kind in "fiub" else array
        import torch  # takes seconds, and files with equal checksums are not read

        tensor = arrays.get_tensor(name)
        is_wide = tensor.dtype in (torch.float64, torch.int64)
        values = tensor.to(torch.float64 if is_wide else torch.float32).numpy()
        return str(tensor.dtype).removeprefix("torch."), values


@contextmanager
def _arrays(file: Path) -> Iterator[Any]:
    """Open a file of arrays; raises a UserError if it cannot be read."""
    is_npz = file.suffix == ".npz"
    try:
        opened = np.load(file, allow_pickle=False) if is_npz else safe_open(file, framework="pt")
        with opened as arrays:
            yield arrays
    except (OSError, ValueError, BadZipFile, SafetensorError) as error:
        raise UserError(f"{file}: cannot be read ({error}); recompute it") from None
