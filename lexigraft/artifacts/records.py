"""Read records: JSON objects, and files with one JSON object per line."""

import json
from pathlib import Path
from typing import Any

from lexigraft.errors import UserError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; raises a UserError if the file is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: does not exist; run the stage that writes it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path}: cannot be read as JSON ({error}); run the stage that writes it again"
        ) from None


def read_jsonl(path: Path, *, skip_incomplete: bool = False) -> list[dict[str, Any]]:
    """Read one JSON object per line; empty without a file, a UserError if it is damaged.

    With `skip_incomplete`, a last line without a line feed, at which a process was killed while it
    wrote, is left out.
    """
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        if skip_incomplete:
            lines.pop()
        return [json.loads(line) for line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: cannot be read as JSON lines ({error})") from None
