"""What new tokens are made of is shown as text where it is text, else as bytes."""

import pytest

from lexigraft.report.figures.new_tokens import compositions, new_tokens, part_label
from lexigraft.report.records import read_study
from tests.report.drawing import drawn_figure


@pytest.mark.parametrize(
    ("text", "label"),
    [("\\xe0\\xb0", "E0 B0"), (" the", "␣the"), ("క", "క"), ("a\\xe0", "61 E0"),
     (" \\xcf", "␣ CF")],
)  # fmt: skip
def test_spaces_are_seen_and_text_with_bytes_is_hex(text, label):
    assert part_label(text) == label


def test_the_best_recipe_is_shown_and_parts_that_are_not_listed_weigh_the_rest(built):
    made = built[2]
    composed = compositions(read_study(made.settings, made.inputs))
    assert [(c.language, c.initializer) for c in composed] == [
        ("te-made", "align"), ("el-made", "align"),
    ]  # fmt: skip
    first = composed[0].tokens[0]
    assert first.text == "లక్ష్మి"
    assert [label for label, _ in first.parts] == ["E0 B0", "95"]
    for token in composed[0].tokens:
        assert abs(sum(weight for _, weight in token.parts) + token.others - 1) < 1e-9
        assert (token.others > 0) == (token.more > 0)


def test_recipes_of_several_source_models_say_whose_they_are(made_study):
    for source in ("m", "n"):
        cell = (source, "el-made", "expand-500", "align", "none", 0)
        made_study.record(cell, "ppl", "perplexity", {"bits_per_byte": 1.0})
        made_study.initialized("el-made", "align", source=source)
    titles = [axis.get_title(loc="left") for axis in drawn_figure(new_tokens, made_study).axes]
    assert titles == ["Greek, Align, m", "Greek, Align, n"]
