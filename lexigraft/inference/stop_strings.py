"""Finds strings that end a generated text, even if they span several tokens.

A stop string may begin in one token and end in a later one, and one of its characters may be spread
over several byte tokens. Therefore, the bytes of the tokens are searched: in UTF-8, a match never
begins within a character.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import token_bytes


class StopPosition(NamedTuple):
    """Where a text ends."""

    last: int  # index of the token that completes the stop string
    tokens_before: int  # how many tokens end before the string begins
    part: bytes  # bytes of the next token before the string, often empty


class StopStrings:
    """The stop strings of a task for one tokenizer.

    A text ends before the string that is completed first; if one token completes several strings,
    before the one that begins first. Raises a UserError if a string is empty.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, strings: Sequence[str]):
        if not all(strings):
            raise UserError("stop: an empty string would end every text before it begins")
        self.strings = tuple(strings)
        self._bytes = token_bytes(tokenizer)
        self._stops = [string.encode() for string in strings]
        self._longest = max(map(len, self._stops), default=0)
        self.cross_tokens = self._longest > 1  # a single byte cannot span several
        self.tokens = {  # tokens that contain a complete stop string
            token
            for token, data in enumerate(self._bytes)
            if any(stop in data for stop in self._stops)
        }

    def extend(self, text: bytes, token: int) -> tuple[bytes, int | None]:
        """The text with a token more, and where the earliest string that it completes begins."""
        # A model may have more rows than its tokenizer has tokens.
        longer = text + (self._bytes[token] if token < len(self._bytes) else b"")
        begins = (longer.find(stop, max(0, len(text) - len(stop) + 1)) for stop in self._stops)
        return longer, min((begin for begin in begins if begin >= 0), default=None)

    def find(self, ids: Sequence[int], after_text: bool = False) -> StopPosition | None:
        """The position of the first stop string in generated tokens; None if there is none.

        With `after_text`, strings that only white space precedes do not count.
        """
        text, starts = b"", []
        for index, token in enumerate(ids):
            starts.append(len(text))
            text, begin = self.extend(text, token)
            if after_text:
                blank = len(text) - len(text.lstrip())
                begins = (text.find(stop, blank) for stop in self._stops)
                begin = min((begin for begin in begins if begin >= 0), default=None)
            if begin is not None:
                before = max(n for n, start in enumerate(starts) if start <= begin)
                return StopPosition(index, before, text[starts[before] : begin])
        return None

    def after(self, tail: bytes, token: int) -> bytes | None:
        """The end of a text in which a stop string may have begun; None if one is complete.

        `tail` is the result for the previous token, and empty for the first token.
        """
        text, begin = self.extend(tail, token)
        return text[max(0, len(text) - self._longest + 1) :] if begin is None else None


class StopCriterion:
    """A stopping criterion of transformers for a batch of `rows` rows."""

    def __init__(self, stops: StopStrings, rows: int):
        self._stops = stops
        self._tails: list[bytes | None] = [b""] * rows

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Which rows have a complete stop string, bool [rows]."""
        self._tails = [
            None if tail is None else self._stops.after(tail, token)
            for tail, token in zip(self._tails, input_ids[:, -1].tolist(), strict=True)
        ]
        ended = [tail is None for tail in self._tails]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)
