"""How much of a corpus vocabularies, vectors and initializers read.

The Snakefile imports the settings, so `read_amount` imports the tokenizer when it counts tokens.
"""

from collections.abc import Callable, Iterator, Mapping
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
    """Read the training text of a corpus (`mixture.read_part`) up to the amount `settings["text"]`.

    Without `text`, all of it is read. `source` is the source model, whose tokenizer counts tokens.
    A number of tokens is exceeded by at most the last text. For a group, amounts per language are
    read one language after the other.
    """
    if "text" not in settings:
        yield from read_part(corpus)
        return
    amount = validate(TextAmount, settings["text"], "text")
    counts = amount.tokens or amount.tokens_per_language
    encode = None
    if counts:
        from lexigraft.source.encoding import encoder
        from lexigraft.source.model import open_tokenizer

        encode = encoder(open_tokenizer(source))
    if most := amount.sentences or amount.tokens:
        yield from _up_to(read_part(corpus), most, encode)
    else:
        most = amount.sentences_per_language or amount.tokens_per_language or 0
        for member in text_shares(corpus):
            yield from _up_to(read_lines(text_file(corpus, member)), most, encode)


def _up_to(
    texts: Iterator[str], most: int, encode: Callable[[list[str]], list[list[int]]] | None
) -> Iterator[str]:
    if encode is None:
        yield from islice(texts, most)
        return
    from lexigraft.source.encoding import batches

    for batch in batches(texts):
        for text, ids in zip(batch, encode(batch), strict=True):
            yield text
            most -= len(ids)
            if most <= 0:
                return
