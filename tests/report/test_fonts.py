"""Fonts are chosen by the letters of a text, and scripts without a font are named."""

import logging

import numpy
import pytest
from matplotlib.ft2font import FT2Font

from lexigraft.report.drawing import figure_style, new_figure
from lexigraft.report.fonts import _fonts_of_folder, font_families


def brightness(text, families):
    """Brightness [height, width] of a text as drawn."""
    with figure_style(families):
        figure = new_figure(3, 1)
        figure.text(0.1, 0.5, text, fontsize=20)
        figure.draw_without_rendering()
        figure.canvas.draw()
        return numpy.asarray(figure.canvas.buffer_rgba())[..., 0].copy()


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("bits per byte", "Noto Sans"),
        ("తెలుగు", "Noto Sans Telugu"),
        ("မြန်မာ", "Noto Sans Myanmar"),
        ("ภาษาไทย", "Noto Sans Thai"),
        ("العربية", "Noto Sans Arabic"),
    ],
)
def test_a_font_of_the_folder_covers_each_script(noto, text, family):
    families, missing = font_families(noto, text)
    assert families[0] == "Noto Sans" and families[-1] == "DejaVu Sans"
    assert family in families
    assert missing == []


def test_only_the_regular_fonts_of_a_folder_are_used(noto):
    styles = {FT2Font(path).style_name for path, _ in _fonts_of_folder(noto)}
    assert styles == {"Regular"}


def test_a_script_without_a_font_is_named_once(noto, caplog, monkeypatch):
    monkeypatch.setattr("lexigraft.report.fonts._system_fonts", list)  # a system may have all
    with caplog.at_level(logging.WARNING, logger="lexigraft.report.fonts"):
        _, missing = font_families(noto, "𒀀𒀁𒀂")
    assert missing == ["Cuneiform"]
    assert len(caplog.records) == 1


def test_without_a_folder_latin_text_has_the_bundled_font():
    assert font_families(None, "abc → ± Ω") == (["DejaVu Sans"], [])


def test_telugu_conjuncts_are_shaped(noto):
    """Shaped, క్ష్మి is one cluster; its letters side by side are several times as wide."""
    families, _ = font_families(noto, "క్ష్మి")

    def width(text):
        columns = (brightness(text, families) < 128).any(axis=0).nonzero()[0]
        return columns[-1] - columns[0]

    assert width("క్ష్మి") < 0.5 * width("క\u200b్\u200bష\u200b్\u200bమ\u200bి")
