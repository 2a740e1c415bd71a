"""Fonts are chosen by what a text needs, and what none shows is said."""

import base64
import io
import logging
import shutil

from fontTools.ttLib import TTFont

from lexigraft.report.fonts import open_fonts
from lexigraft.report.style import look, new_figure


def ink(text, fonts):
    """Brightness [height, width] of a text as drawn."""
    import numpy

    with look(fonts):
        figure = new_figure(3, 1)
        figure.text(0.1, 0.5, text, fontsize=20, fontfamily=fonts.families(text))
        figure.draw_without_rendering()
        figure.canvas.draw()
        return numpy.asarray(figure.canvas.buffer_rgba())[..., 0].copy()


def test_latin_text_needs_the_base_font_alone(noto):
    fonts = open_fonts(noto)
    assert fonts.families("bits per byte")[0] == "Noto Sans"
    assert fonts.base == "Noto Sans"


def test_each_script_gets_the_font_that_covers_it(noto):
    fonts = open_fonts(noto)
    for text, family in (
        ("తెలుగు", "Noto Sans Telugu"),
        ("မြန်မာ", "Noto Sans Myanmar"),
        ("हिन्दी", "Noto Sans Devanagari"),
        ("العربية", "Noto Sans Arabic"),
    ):
        assert family in fonts.families(text)
    assert fonts.missing == set()


def test_bold_fonts_of_the_folder_are_not_taken_for_the_regular_one(noto):
    paths = [font.path.name for font in open_fonts(noto).folder]
    assert paths
    assert all(".400-" in name for name in paths)


def test_a_font_of_the_folder_goes_before_the_systems_of_its_name(noto, tmp_path, monkeypatch):
    from matplotlib.font_manager import FontProperties, fontManager

    family = "Noto Sans Telugu"
    [file] = [font.path for font in open_fonts(noto).folder if font.family == family]
    (tmp_path / "folder").mkdir()
    others = [entry for entry in fontManager.ttflist if entry.name != family]
    monkeypatch.setattr(fontManager, "ttflist", others)
    with TTFont(file) as font:
        font.flavor = None
        font.save(tmp_path / "system.ttf")
    fontManager.addfont(tmp_path / "system.ttf")
    shutil.copy(file, tmp_path / "folder")
    assert family in open_fonts(tmp_path / "folder").families("తెలుగు")
    assert fontManager.findfont(FontProperties(family)) != str(tmp_path / "system.ttf")


def test_a_script_that_no_font_shows_is_said_once(noto, caplog, monkeypatch):
    monkeypatch.setattr("lexigraft.report.fonts._system_fonts", list)  # a system may show all
    fonts = open_fonts(noto)
    with caplog.at_level(logging.WARNING, logger="lexigraft.report.fonts"):
        fonts.families("𒀀𒀁")
        fonts.families("𒀂")
    assert fonts.missing == {"Cuneiform"}
    assert len(caplog.records) == 1


def test_without_a_folder_latin_text_is_shown_by_the_systems_font():
    fonts = open_fonts(None)
    assert fonts.families("abc → ± Ω")[0] == "DejaVu Sans"
    assert fonts.missing == set()


def test_telugu_conjuncts_are_shaped(noto):
    """Shaped, క్ష్మి is one cluster; its letters set side by side are several times as wide."""
    fonts = open_fonts(noto)

    def width(text):
        columns = (ink(text, fonts) < 128).any(axis=0).nonzero()[0]
        return columns[-1] - columns[0]

    assert width("క్ష్మి") < 0.5 * width("క\u200b్\u200bష\u200b్\u200bమ\u200bి")


def test_an_embedded_font_holds_the_letters_asked_for_and_few_others(noto):
    uri = open_fonts(noto).embedded(["తెలుగు"])["Noto Sans Telugu"]
    data = base64.b64decode(uri.split(",", 1)[1])
    characters = set(TTFont(io.BytesIO(data)).getBestCmap())
    assert {ord(char) for char in "తెలుగు"} <= characters
    assert ord("క") not in characters
    assert len(data) < 60_000


def test_embedded_fonts_are_the_same_bytes_each_time(noto):
    first, second = open_fonts(noto).embedded(["తెలుగు"]), open_fonts(noto).embedded(["తెలుగు"])
    assert first == second
