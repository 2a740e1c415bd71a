"""Burmese in the Zawgyi encoding: told from Unicode, and turned into it.

Zawgyi writes Burmese with Unicode's code points, but in the order in which the strokes are drawn
and with code points of its own for shapes. Until 2019 most Burmese on the web was written so, and
some test sets still are. The detector is Google's (a Markov model over code points), the conversion
is that of the Unicode CLDR, as ICU carries it out.
"""

import re
from functools import cache
from typing import Any

# The detector's authors advise 0.95 where nobody looks at what is converted. Interface messages are
# short: of Kolibri's 1,660 in Burmese that takes two in Unicode for Zawgyi, and 0.99 takes none.
_CERTAIN = 0.99
_BURMESE = re.compile("[\u1000-\u109f]")


def is_zawgyi(text: str) -> bool:
    """Whether a text with Burmese letters is almost certainly in Zawgyi, and would be read wrongly.

    Short texts may be the same in both encodings; they count as Unicode.
    """
    if not _BURMESE.search(text):
        return False
    return _detector().get_zawgyi_probability(text) >= _CERTAIN and to_unicode(text) != text


def to_unicode(text: str) -> str:
    """A Zawgyi text in Unicode; other scripts in it stay."""
    return _converter().transliterate(text)


@cache
def _detector() -> Any:
    from myanmartools import ZawgyiDetector

    return ZawgyiDetector()


@cache
def _converter() -> Any:
    from icu import Transliterator

    return Transliterator.createInstance("Zawgyi-my")
