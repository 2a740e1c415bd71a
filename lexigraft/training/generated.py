"""What a model wrote, kept on disk while the rest is still generated."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lexigraft.atomic import replacing


@dataclass(frozen=True)
class Generated:
    """What a model wrote after one prompt.

    Attributes
    ----------
    text
        The text up to its first stop string, without spaces around it.
    tokens
        The ids that make up this text: neither the end-of-text token nor one that only belongs to a
        stop string.
    steps
        Decoding steps taken: all generated tokens, those that ended the text included.
    finished
        Whether the model ended the text itself, before it ran out of tokens.
    """

    text: str
    tokens: list[int]
    steps: int
    finished: bool


def open_partial(partial: Path, digest: str) -> dict[str, Generated]:
    """Finished outputs of the same work; otherwise `partial` is begun anew.

    A line that an interruption cut off is dropped, from the file too, so that the next one does
    not continue it.

    Parameters
    ----------
    partial
        A file that may be there.
    digest
        Of all that decides the outputs.
    """
    kept = partial.read_bytes() if partial.exists() else b""
    lines = kept.split(b"\n")[:-1]
    header = json.dumps({"digest": digest}).encode()
    if lines[:1] != [header]:
        lines = [header]
    done: dict[str, Generated] = {}
    for line in lines[1:]:
        row: dict[str, Any] = json.loads(line)
        name = row.pop("id")
        done[name] = Generated(**row)
    whole = b"".join(line + b"\n" for line in lines)
    if whole != kept:
        partial.parent.mkdir(parents=True, exist_ok=True)
        with replacing(partial) as file:
            file.write_bytes(whole)
    return done


def as_lines(outputs: Iterable[tuple[str, Generated]]) -> str:
    """JSON lines of `(id, output)`, to be appended to what `open_partial` opened."""
    return "".join(json.dumps({"id": name, **asdict(output)}) + "\n" for name, output in outputs)
