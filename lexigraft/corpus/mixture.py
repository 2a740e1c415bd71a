"""The texts in a corpus folder, and how much of them vocabularies, vectors and initializers read.

The corpus of a language has `train.txt`. The corpus of a group has `members/<language>/train.txt`
and `mixture.json`: member -> its share of the text. Shares refer to characters when text is read,
and to tokens in training. The Snakefile imports this module: no heavy imports at the top.
"""

import heapq
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import model_validator

from lexigraft.corpus.lines import read_lines
from lexigraft.errors import UserError
from lexigraft.settings import Settings, optional, validate
from lexigraft.source.encoding import batches, encoder

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


def all_texts(corpus: str | Path) -> Iterator[str]:
    """All training text of a corpus; for a group, one member after the other."""
    for member in text_shares(corpus):
        yield from read_lines(text_file(corpus, member))


class TextAmount(Settings):
    """The maximum amount of a corpus to read; exactly one key is set."""

    sentences: int = optional("the first N sentences or documents", ge=1)
    tokens: int = optional("the first N tokens, counted with the source model's tokenizer", ge=1)
    sentences_per_language: int = optional("like `sentences`, for each member of a group", ge=1)
    tokens_per_language: int = optional("like `tokens`, for each member of a group", ge=1)

    @model_validator(mode="after")
    def _is_one_amount(self) -> "TextAmount":
        if len(self.model_fields_set) != 1:
            raise ValueError(f"needs exactly one of: {', '.join(type(self).model_fields)}")
        return self


class AmountForCell(TextAmount):
    """The amount that is read for a cell, whose vocabulary exists."""

    target_tokens_per_language: int = optional(
        "like `tokens_per_language`, counted with the tokenizer of the cell's vocabulary; not for "
        "vocabularies",
        ge=1,
    )


def text_amount_field(what: str) -> Any:
    """A key `text` for the amount of a corpus that is read."""
    return optional(
        f"how much of the corpus {what} ([amounts](#amounts-of-text)). By default all of it"
    )


def read_amount(
    corpus: str | Path,
    settings: Mapping[str, Any],
    source: str | Path,
    target: str | Path = "",
) -> Iterator[str]:
    """Read the training text of a corpus up to the amount `settings["text"]`, by default all of it.

    `source` and `target` are the folders of the source model and of the cell's vocabulary, whose
    tokenizers count tokens. A number of tokens is exceeded by at most the last text. Amounts per
    language are read one language after the other.
    """
    if "text" not in settings:
        yield from read_part(corpus)
        return
    amount = validate(AmountForCell, settings["text"], "text")
    ((unit, limit),) = amount.model_dump(exclude_unset=True).items()
    members = [read_part(corpus)]
    if unit.endswith("per_language"):
        members = [read_lines(text_file(corpus, member)) for member in text_shares(corpus)]
    if unit.startswith("sentences"):
        for texts in members:
            yield from islice(texts, limit)
        return
    from lexigraft.source.model import open_tokenizer

    encode = encoder(open_tokenizer(target if unit.startswith("target") else source))
    for texts in members:
        tokens = 0
        for batch in batches(texts):
            for text, ids in zip(batch, encode(batch), strict=True):
                if tokens < limit:
                    yield text
                tokens += len(ids)
            if tokens >= limit:
                break


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
