"""Fonts that cover the scripts of a study: matplotlib falls back from one to the next, by glyph."""

import logging
import unicodedata
from pathlib import Path

from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font

logger = logging.getLogger(__name__)

_BUNDLED = "DejaVu Sans"  # included in matplotlib
_ASCII = frozenset(range(0x20, 0x7F))


def font_families(folder: str | Path | None, text: str) -> tuple[list[str], list[str]]:
    """Values of matplotlib's `font.family` for a text, and the scripts that no font covers.

    The first font covers Latin letters; then follow the fewest regular fonts of the folder, and
    fonts of the system, that cover the text.
    """
    fonts: dict[Path, frozenset[int]] = {}  # the code points of each font of the folder
    for path in sorted(Path(folder).iterdir()) if folder else ():
        if path.suffix.lower() in (".woff", ".ttf", ".otf"):
            try:
                font = FT2Font(path)
            except (OSError, RuntimeError) as error:
                logger.warning("%s: not a readable font (%s)", path, error)
                continue
            if "Regular" in font.style_name and "Condensed" not in font.style_name:
                fonts[path] = frozenset(font.get_charmap())
    missing = {ord(char) for char in text if unicodedata.category(char)[0] not in "CZ"}
    families = []
    best = max((path for path in fonts if fonts[path] >= _ASCII), key=lambda path: len(fonts[path]),
               default=None)  # fmt: skip
    while best is not None:
        fontManager.addfont(str(best))
        # Before a system font of the same name, so that figures are the same on all machines.
        fontManager.ttflist.insert(0, fontManager.ttflist.pop())
        families.append(FontProperties(fname=str(best)).get_name())
        missing -= fonts[best]
        covering = [path for path in fonts if fonts[path] & missing]
        best = max(covering, key=lambda path: len(fonts[path] & missing), default=None)
    missing -= FT2Font(fontManager.findfont(_BUNDLED)).get_charmap().keys()
    for entry in sorted(fontManager.ttflist, key=lambda entry: entry.name) if missing else ():
        # The font of last resort has a box for every character.
        if entry.style == "normal" and not entry.name.startswith("Last Resort"):
            covered = missing & FT2Font(entry.fname).get_charmap().keys()
            families += [entry.name] if covered else []
            missing -= covered
    scripts = sorted({unicodedata.name(chr(c), f"U+{c:04X}").split()[0].title() for c in missing})
    for script in scripts:
        logger.warning("no font covers %s; specify a folder with a font that does", script)
    return list(dict.fromkeys([*families, _BUNDLED])), scripts
