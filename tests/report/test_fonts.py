"""Fonts are chosen by the letters of a text, and scripts without a font are named."""

import logging

import numpy
import pytest
from matplotlib.font_manager import fontManager

from lexigraft.report.drawing import figure_style, new_figure
from lexigraft.report.fonts import font_families


@pytest.mark.parametrize(
    ("text", "family"),
    [("bits per byte", "Noto Sans"), ("తెలుగు", "Noto Sans Telugu"),
     ("မြန်မာ", "Noto Sans Myanmar"), ("العربية", "Noto Sans Arabic")],
)  # fmt: skip
def test_a_font_of_the_folder_covers_each_script(noto, text, family):
    families, missing = font_families(noto, text)
    assert families[0] == "Noto Sans" and families[-1] == "DejaVu Sans"
    assert family in families
    assert missing == []


def test_a_script_without_a_font_is_named_once(noto, caplog, monkeypatch):
    bundled = [entry for entry in fontManager.ttflist if entry.name == "DejaVu Sans"]
    monkeypatch.setattr(fontManager, "ttflist", bundled)  # a system may have all scripts
    with caplog.at_level(logging.WARNING, logger="lexigraft.report.fonts"):
        _, missing = font_families(noto, "𒀀𒀁𒀂")
    assert missing == ["Cuneiform"]
    assert len(caplog.records) == 1
    assert font_families(None, "abc → ± Ω") == (["DejaVu Sans"], [])


def test_telugu_conjuncts_are_shaped(noto):
    """Shaped, క్ష్మి is one cluster; its letters side by side are several times as wide."""
    families, _ = font_families(noto, "క్ష్మి")

    def width(text):
        with figure_style(families):
            figure = new_figure(3, 1)
            figure.text(0.1, 0.5, text, fontsize=20)
            figure.draw_without_rendering()
            figure.canvas.draw()
            brightness = numpy.asarray(figure.canvas.buffer_rgba())[..., 0]
        columns = (brightness < 128).any(axis=0).nonzero()[0]
        return columns[-1] - columns[0]

    assert width("క్ష్మి") < 0.5 * width("క\u200b్\u200bష\u200b్\u200bమ\u200bి")
