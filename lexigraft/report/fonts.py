"""Fonts that cover the scripts of a study: matplotlib falls back from one to the next, by glyph."""

import logging
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font

logger = logging.getLogger(__name__)

_SUFFIXES = (".woff", ".ttf", ".otf")
_BUNDLED = "DejaVu Sans"  # included in matplotlib
_ASCII = frozenset(range(0x20, 0x7F))


def font_families(folder: str | Path | None, text: str) -> tuple[list[str], list[str]]:
    """Values of matplotlib's `font.family` for a text, and the scripts that no font covers.

    The first font has the most characters of those that cover Latin letters; then follow the fewest
    fonts of the folder and of the system that cover the text.
    """
    fonts = list(_fonts_of_folder(Path(folder))) if folder else []
    latin = max(
        (font for font in fonts if font[1] >= _ASCII), key=lambda f: len(f[1]), default=None
    )
    families = [_register(latin[0])] if latin else []
    missing = {ord(char) for char in text if unicodedata.category(char)[0] not in "CZ"}
    missing -= latin[1] if latin else _characters(fontManager.findfont(_BUNDLED))
    while missing:
        best = max(fonts, key=lambda font: len(font[1] & missing), default=None)
        if best is None or not best[1] & missing:
            break
        families.append(_register(best[0]))
        missing -= best[1]
    missing -= _characters(fontManager.findfont(_BUNDLED))
    for family, path in _system_fonts() if missing else ():
        if characters := missing & _characters(path):
            families.append(family)
            missing -= characters
    scripts = sorted({unicodedata.name(chr(c), f"U+{c:04X}").split()[0].title() for c in missing})
    for script in scripts:
        logger.warning("no font covers %s; specify a folder with a font that does", script)
    return list(dict.fromkeys([*families, _BUNDLED])), scripts


def _fonts_of_folder(folder: Path) -> Iterator[tuple[str, frozenset[int]]]:
    """The regular fonts of a folder and their code points."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _SUFFIXES:
            try:
                font = FT2Font(path)
                regular = "Regular" in font.style_name and "Condensed" not in font.style_name
                if regular:
                    yield str(path), _characters(str(path))
            except (OSError, RuntimeError) as error:
                logger.warning("%s: not a readable font (%s)", path, error)


def _register(path: str) -> str:
    """Add a font to matplotlib; returns its family."""
    fontManager.addfont(path)
    # Before a system font of the same name, so that figures are the same on all machines.
    fontManager.ttflist.insert(0, fontManager.ttflist.pop())
    return FontProperties(fname=path).get_name()


def _characters(path: str) -> frozenset[int]:
    return frozenset(FT2Font(path).get_charmap())


def _system_fonts() -> Iterator[tuple[str, str]]:
    """Family and path of each upright font of the system."""
    for entry in sorted(fontManager.ttflist, key=lambda entry: entry.name):
        # The font of last resort has a box for every character.
        if entry.style == "normal" and not entry.name.startswith("Last Resort"):
            yield entry.name, entry.fname
