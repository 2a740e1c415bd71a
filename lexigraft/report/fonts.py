"""Fonts that cover the scripts of a study, so that figures and the page show no empty boxes."""

import base64
import hashlib
import io
import logging
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lexigraft.artifacts.atomic import replacing

logger = logging.getLogger(__name__)
# Keep its lists of all glyphs out of the log.
logging.getLogger("fontTools").setLevel(logging.WARNING)

_REGULAR = 400
_SUFFIXES = (".woff", ".ttf", ".otf")
_OWN = "DejaVu Sans"  # included in matplotlib


@dataclass(frozen=True)
class _Font:
    path: Path
    family: str
    characters: frozenset[int]


@dataclass
class Fonts:
    """The fonts of a folder, then those of the system; `families(text)` are those a text needs."""

    folder: list[_Font] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def families(self, text: str) -> list[str]:
        """Font families in the order in which they are tried, character by character.

        The base font comes first, then the fewest further fonts that cover the text. Scripts that
        no font covers are stored in `missing` and logged once.
        """
        latin = self._latin
        chosen = [self.base]
        wanted = _printing(text) - (latin.characters if latin else dict(_system_fonts())[_OWN])
        while wanted:
            font = max(self.folder, key=lambda f: len(f.characters & wanted), default=None)
            if font is None or not font.characters & wanted:
                break
            chosen.append(_register(font))
            wanted -= font.characters
        for family, characters in _system_fonts() if wanted else ():
            if characters & wanted:
                chosen.append(family)
                wanted -= characters
        for code in wanted:
            script = script_of(chr(code))
            if script not in self.missing:
                self.missing.add(script)
                logger.warning("no font covers %s; specify a folder with a font that does", script)
        return list(dict.fromkeys([*chosen, _OWN]))

    @property
    def base(self) -> str:
        """The font of all Latin text: from the folder if it has one, otherwise matplotlib's."""
        return _register(self._latin) if self._latin else _OWN

    @property
    def _latin(self) -> _Font | None:
        best = max(self.folder, key=lambda font: len(font.characters), default=None)
        return best if best and set(range(0x20, 0x7F)) <= best.characters else None

    def embedded(self, texts: Iterable[str]) -> dict[str, str]:
        """`@font-face` sources for the non-Latin characters: family -> data URI of a subset.

        Only fonts of the folder are embedded: system fonts may not be redistributed.
        """
        everything = "".join(texts)
        found = {}
        for family in self.families(everything)[1:]:
            font = next((f for f in self.folder if _register(f) == family), None)
            if font is not None:
                found[family] = _subset(font, _printing(everything))
        return found


def open_fonts(folder: str | Path | None) -> Fonts:
    """Index the regular fonts (.woff, .ttf, .otf) of a folder; None: system fonts only."""
    if folder is None:
        return Fonts()
    files = sorted(p for p in Path(folder).iterdir() if p.suffix.lower() in _SUFFIXES)
    fonts = [font for font in map(_read, files) if font is not None]
    # Equal families (looped Thai and unjoined Adlam are separate families) are kept once.
    return Fonts(list({font.family: font for font in fonts}.values()))


def script_of(char: str) -> str:
    """A character's script as Unicode names it, e.g. `Telugu`."""
    return unicodedata.name(char, f"U+{ord(char):04X}").split()[0].capitalize()


def _printing(text: str) -> set[int]:
    invisible = ("C", "Z")
    return {ord(char) for char in text if unicodedata.category(char)[0] not in invisible}


@cache
def _read(path: Path) -> _Font | None:
    from fontTools.ttLib import TTFont, TTLibError

    try:
        with TTFont(path, lazy=True) as font:
            if font["OS/2"].usWeightClass != _REGULAR or "fvar" in font:
                return None
            return _Font(path, font["name"].getBestFamilyName(), frozenset(font.getBestCmap()))
    except (TTLibError, KeyError, OSError) as error:
        logger.warning("%s: not a readable font (%s)", path, error)
        return None


@cache
def _register(font: _Font) -> str:
    """Register a font with matplotlib, which reads .ttf but not .woff; returns its family."""
    import matplotlib
    from fontTools.ttLib import TTFont
    from matplotlib.font_manager import FontProperties, fontManager

    path = font.path
    if path.suffix.lower() == ".woff":
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        path = Path(matplotlib.get_cachedir()) / "lexigraft-fonts" / f"{digest}.ttf"
        if not path.exists():
            with TTFont(font.path) as opened, replacing(path) as temporary:
                opened.flavor = None
                opened.save(temporary)
    fontManager.addfont(path)
    # Before a system font of the same name, so that figures are the same on all machines.
    fontManager.ttflist.insert(0, fontManager.ttflist.pop())
    return FontProperties(fname=path).get_name()


@cache
def _system_fonts() -> list[tuple[str, frozenset[int]]]:
    """Font families of the system, with their code points; matplotlib's own first."""
    from matplotlib.font_manager import fontManager
    from matplotlib.ft2font import FT2Font

    found: dict[str, frozenset[int]] = {}
    for entry in sorted(fontManager.ttflist, key=lambda e: (e.name != _OWN, e.name)):
        # The font of last resort has a box for every character.
        if entry.name.startswith("Last Resort"):
            continue
        if entry.name not in found and entry.style == "normal":
            try:
                found[entry.name] = frozenset(FT2Font(entry.fname).get_charmap())
            except (OSError, RuntimeError):
                continue
    return list(found.items())


def _subset(font: _Font, characters: set[int]) -> str:
    from fontTools import subset

    options = subset.Options(layout_features=["*"], flavor="woff", notdef_outline=True)
    opened = subset.load_font(str(font.path), options)
    cut = subset.Subsetter(options)
    cut.populate(unicodes=characters | {0x20, 0x200C, 0x200D, 0x25CC})
    cut.subset(opened)
    # A fixed time, so that the same study yields the same page.
    opened["head"].modified = opened["head"].created
    opened.recalcTimestamp = False
    buffer = io.BytesIO()
    opened.save(buffer)
    return "data:font/woff;base64," + base64.b64encode(buffer.getvalue()).decode()
