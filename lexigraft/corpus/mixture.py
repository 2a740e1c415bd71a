"""The texts in a corpus folder: those of one language, or of a group's members, mixed by shares.

The corpus of a language has `train.txt`. The corpus of a group has `members/<language>/train.txt`
and `mixture.json`: member -> its share of the text. Shares refer to characters when text is read,
and to tokens in training. Standard library only: settings import this module.
"""

import heapq
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from lexigraft.corpus.lines import read_lines
from lexigraft.errors import UserError

MIXTURE, MEMBERS = "mixture.json", "members"
ROUNDING = 1e-6  # tolerance for sums of shares with few digits
MEASURED = 100_000  # maximum number of training texts on which a vocabulary is measured


def text_shares(corpus: str | Path) -> dict[str, float]:
    """The share of each member of a group; for the corpus of a language, only that of `""`.

    >>> text_shares("results/corpus/telugu")
    {'': 1.0}
    """
    file = Path(corpus, MIXTURE)
    if not file.is_file():
        return {"": 1.0}
    shares: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return shares


def text_file(corpus: str | Path, member: str, part: str = "train") -> Path:
    """The file of a member's `train` or `heldout` text; with member `""`, that of a language.

    >>> str(text_file("corpus/both", "telugu"))
    'corpus/both/members/telugu/train.txt'
    """
    return Path(corpus, MEMBERS, member, f"{part}.txt") if member else Path(corpus, f"{part}.txt")


def read_part(corpus: str | Path, part: str = "train") -> Iterator[str]:
    """The lines of the part `train`, `heldout` or `english` of a corpus, see `read_lines`.

    The training text of a group is mixed: any prefix of it has the shares of characters, to within
    one line per member. It ends when the text of one member is used up.
    """
    shares = text_shares(corpus) if part == "train" else {"": 1.0}
    if set(shares) == {""}:
        yield from read_lines(Path(corpus, f"{part}.txt"))
        return
    texts = {name: read_lines(text_file(corpus, name)) for name in shares}
    # For each member: characters read, divided by its share; the one with the fewest is next.
    queue = [(0.0, position, name) for position, name in enumerate(shares)]
    while True:
        read, position, name = queue[0]
        line = next(texts[name], None)
        if line is None:
            return
        yield line
        heapq.heapreplace(queue, (read + max(1, len(line)) / shares[name], position, name))


def measured_texts(corpus: str | Path) -> list[str]:
    """The first training texts, on which a vocabulary is measured when it is built."""
    return list(islice(read_part(corpus), MEASURED))


def all_texts(corpus: str | Path) -> Iterator[str]:
    """All training text of a corpus; for a group, one member after the other."""
    for member in text_shares(corpus):
        yield from read_lines(text_file(corpus, member))


def check_shares(members: list[str], shares: Mapping[str, float]) -> None:
    """Check that shares belong to members and leave a positive share for the other members.

    Raises `UserError` for a share of an unknown member, and for shares that do not add up to 1 or
    leave nothing for the other members.
    """
    for name in shares:
        if name not in members:
            raise UserError(
                f"shares: '{name}' is not a member; the members are {', '.join(members)}"
            )
    total, missing = sum(shares.values()), [name for name in members if name not in shares]
    if not missing and abs(total - 1) > ROUNDING:
        raise UserError(f"shares: they add up to {total:g}, not 1; change them or leave one out")
    if missing and total > 1 - ROUNDING:
        raise UserError(
            f"shares: they add up to {total:g}, which leaves nothing for {', '.join(missing)}; "
            "lower them or give these a share"
        )
