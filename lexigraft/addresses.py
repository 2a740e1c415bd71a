"""Addresses without the logins and tokens that they may contain.

Standard library only: errors use it.
"""

import logging
import re

# A login may contain an unescaped slash; then what looks like a port is not a number.
_LOGIN = re.compile(r"(?<=://)(?:[^/?#\s]*@|[^/?#\s:]+:(?!\d{1,5}(?:[/?#\s'\"),]|$))\S*@)")
# The query of an address, or of the path alone, as in the messages of urllib3; or a fragment.
_QUERY = re.compile(
    r"(://[^\s'\"?;#]*[?;])[^\s'\")>\]]+|(/[^\s'\"?;#]*[?;#])[^\s'\")>\]]*=[^\s'\")>\]]*"
)
# Parameters that hold a secret. `key`, `code` and `tokenizer` alone also name public files.
_SECRET = re.compile(
    r"[?&;#](?:"
    r"[^=&;#\s]*(?:secret|passw|pwd|signature|credential|apikey|accesskey|jwt|session)[^=&;#\s]*"
    r"|[^=&;#\s]*token(?:[^a-z=&;#\s][^=&;#\s]*)?"
    r"|(?:[^=&;#\s]*[^a-z=&;#\s])?(?:sig|auth|authorization)"
    r"|[^=&;#\s]*[^a-z=&;#\s]key)=",
    re.IGNORECASE,
)


def has_secret(text: str) -> bool:
    """Whether a text contains an address with a login, or with a token in its query."""
    return "://" in text and bool(_LOGIN.search(text) or _SECRET.search(text.partition("://")[2]))


def without_secrets(text: str) -> str:
    """A text with its addresses as they may be shown: without login and query.

    Any query may hold a secret, such as those of addresses to which a server redirects.
    """
    return _QUERY.sub(r"\1\2…", _LOGIN.sub("", text))


class Formatter(logging.Formatter):
    """A formatter of log lines that leaves out the secrets of addresses, of any library."""

    def format(self, record: logging.LogRecord) -> str:
        """The line without logins and queries."""
        return without_secrets(super().format(record))
