"""Letters that matplotlib's own font lacks are drawn with fonts of a folder."""

import logging

import matplotlib
import numpy

from lexigraft.report.drawing import figure_style, new_figure


def test_fonts_of_the_folder_follow_for_the_letters_of_names_alone(noto, tmp_path, caplog):
    with figure_style(noto, ["తెలుగు", "မြန်မာ"]):
        families = matplotlib.rcParams["font.family"]
    assert families == ["DejaVu Sans", "Noto Sans Myanmar", "Noto Sans Telugu"]
    with figure_style(noto, ["bits per byte", "Ελληνικά"]):
        assert matplotlib.rcParams["font.family"] == ["DejaVu Sans"]
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    with caplog.at_level(logging.WARNING), figure_style(tmp_path, ["తెలుగు"]):
        assert matplotlib.rcParams["font.family"] == ["DejaVu Sans"]
    assert "damaged.ttf: not a readable font" in caplog.text


def test_telugu_conjuncts_are_shaped(noto):
    """Shaped, క్ష్మి is one cluster; its letters side by side are several times as wide."""

    def width(text):
        with figure_style(noto, [text]):
            figure = new_figure(3, 1)
            figure.text(0.1, 0.5, text, fontsize=20)
            figure.draw_without_rendering()
            figure.canvas.draw()
            brightness = numpy.asarray(figure.canvas.buffer_rgba())[..., 0]
        columns = (brightness < 128).any(axis=0).nonzero()[0]
        return columns[-1] - columns[0]

    assert width("క్ష్మి") < 0.5 * width("క\u200b్\u200bష\u200b్\u200bమ\u200bి")
