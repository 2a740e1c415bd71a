"""Strings at which a generated text ends, wherever tokens cut them.

A stop string may begin in one token and end in a later one, and a letter of it may lie in several
tokens that are a byte each. So strings are looked for in the bytes that tokens stand for: in UTF-8
no text is found in the midst of another's letters.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from lexigraft.errors import UserError
from lexigraft.vocabulary.token_bytes import token_bytes

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast


class StopPosition(NamedTuple):
    """Where a text ends.

    Attributes
    ----------
    last
        Place of the token that completes the stop string.
    whole
        How many tokens lie wholly before the string.
    part
        What the next token holds before the string: bytes, often none.
    """

    last: int
    whole: int
    part: bytes


class StopStrings:
    """The stop strings of a task, in the tokens of one tokenizer.

    Parameters
    ----------
    strings
        A text ends before the string that is complete first and, of several that the same token
        completes, before the one that begins first.

    Attributes
    ----------
    tokens
        Ids of the tokens that hold a whole stop string: each ends a text by itself.

    Raises
    ------
    UserError
        A stop string is empty.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", strings: Sequence[str]):
        if not all(strings):
            raise UserError("stop: an empty string would end every text before it begins")
        self.strings = tuple(strings)
        self._bytes = token_bytes(tokenizer)
        self._stops = [string.encode() for string in strings]
        self._longest = max(map(len, self._stops), default=0)
        self.tokens = {
            token
            for token, data in enumerate(self._bytes)
            if any(stop in data for stop in self._stops)
        }

    @property
    def cross_tokens(self) -> bool:
        """Whether a stop string may lie in several tokens; one of a single byte never does."""
        return self._longest > 1

    def find(self, ids: Sequence[int]) -> StopPosition | None:
        """Where generated tokens come to the first stop string; None if they never do."""
        text, starts = b"", []
        for place, token in enumerate(ids):
            starts.append(len(text))
            text += self._of(token)
            begin = self._completed(text, starts[place])
            if begin is not None:
                whole = max(at for at in range(place + 1) if starts[at] <= begin)
                return StopPosition(place, whole, text[starts[whole] : begin])
        return None

    def criterion(self, rows: int) -> "StopCriterion":
        """What says of each of so many rows, while they are generated, when it has come to one."""
        return StopCriterion(self, rows)

    def after(self, tail: bytes, token: int) -> bytes | None:
        """The end of a text in which a stop string may have begun; None where one is complete.

        Parameters
        ----------
        tail
            What this function gave after the token before `token`; no bytes before the first.
        """
        text = tail + self._of(token)
        if self._completed(text, len(tail)) is not None:
            return None
        return text[max(0, len(text) - self._longest + 1) :]

    def _completed(self, text: bytes, before: int) -> int | None:
        """Where the earliest stop string begins that ends beyond the first `before` bytes."""
        places = [text.find(stop, max(0, before - len(stop) + 1)) for stop in self._stops]
        return min((place for place in places if place >= 0), default=None)

    def _of(self, token: int) -> bytes:
        # A model may have more rows than its tokenizer has tokens.
        return self._bytes[token] if token < len(self._bytes) else b""


class StopCriterion:
    """A stopping criterion for `transformers`: called after each step, it says which rows end."""

    def __init__(self, stops: StopStrings, rows: int):
        self._stops = stops
        self._tails: list[bytes | None] = [b""] * rows

    def __call__(self, input_ids: "torch.Tensor", scores: Any, **_: Any) -> "torch.Tensor":
        """Which rows have come to a stop string: bools [rows]."""
        import torch

        tokens = input_ids[:, -1].tolist()
        self._tails = [
            None if tail is None else self._stops.after(tail, token)
            for tail, token in zip(self._tails, tokens, strict=True)
        ]
        ended = [tail is None for tail in self._tails]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)
