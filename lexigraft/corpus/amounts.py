"""How much of a corpus vocabularies, vectors and initializers read.

The Snakefile imports the settings, so `read_amount` imports the tokenizer when it counts tokens.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import model_validator

from lexigraft.corpus.lines import read_lines
from lexigraft.corpus.mixture import read_part, text_file, text_shares
from lexigraft.settings import Settings, optional, validate


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


def text_amount_field(what: str) -> Any:
    """A key `text` for the amount of a corpus that is read."""
    return optional(
        f"how much of the corpus {what} ([amounts](#amounts-of-text)). By default all of it"
    )


def read_amount(
    corpus: str | Path, settings: Mapping[str, Any], source: str | Path
) -> Iterator[str]:
    """Read the training text of a corpus up to the amount `settings["text"]`, by default all of it.

    `source` is the source model, whose tokenizer counts tokens. A number of tokens is exceeded by
    at most the last text. Amounts per language are read one language after the other.
    """
    if "text" not in settings:
        yield from read_part(corpus)
        return
    amount = validate(TextAmount, settings["text"], "text")
    (limit,) = amount.model_dump(exclude_unset=True).values()
    members = [read_part(corpus)]
    if amount.sentences_per_language or amount.tokens_per_language:
        members = [read_lines(text_file(corpus, member)) for member in text_shares(corpus)]
    if amount.sentences or amount.sentences_per_language:
        for texts in members:
            yield from islice(texts, limit)
        return
    from lexigraft.source.encoding import batches, encoder
    from lexigraft.source.model import open_tokenizer

    encode = encoder(open_tokenizer(source))
    for texts in members:
        tokens = 0
        for batch in batches(texts):
            for text, ids in zip(batch, encode(batch), strict=True):
                if tokens < limit:
                    yield text
                tokens += len(ids)
            if tokens >= limit:
                break
