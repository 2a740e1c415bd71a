"""Finds strings that end a generated text, even if they span several tokens.

The bytes of the tokens are searched, since one character may be spread over several byte tokens: in
UTF-8, a match never begins within a character.
"""

from collections.abc import Sequence
from typing import NamedTuple

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
    before the one that begins first. `tokens` are those that contain a complete string. Raises a
    UserError if a string is empty.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, strings: Sequence[str]):
        if not all(strings):
            raise UserError("stop: an empty string would end every text before it begins")
        self.strings = tuple(strings)
        self._bytes = token_bytes(tokenizer)
        self._stops = [string.encode() for string in strings]
        self.tokens = {
            token
            for token, data in enumerate(self._bytes)
            if any(stop in data for stop in self._stops)
        }

    def find(self, ids: Sequence[int], after_text: bool = False) -> StopPosition | None:
        """The position of the first stop string in generated tokens; None if there is none.

        With `after_text`, strings that only white space precedes do not count.
        """
        text, starts = b"", []
        for index, token in enumerate(ids):
            starts.append(len(text))
            # A model may have more rows than its tokenizer has tokens.
            text += self._bytes[token] if token < len(self._bytes) else b""
            first = len(text) - len(text.lstrip()) if after_text else 0
            found = [begin for stop in self._stops if (begin := text.find(stop, first)) >= 0]
            if found:
                before = max(n for n, start in enumerate(starts) if start <= min(found))
                return StopPosition(index, before, text[starts[before] : min(found)])
        return None
