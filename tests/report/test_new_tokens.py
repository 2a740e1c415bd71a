"""What new tokens are made of is shown as text where it is text, else as bytes."""

import pytest

from lexigraft.report.records import read_study
from lexigraft.report.tables.new_tokens import new_tokens, part_label


@pytest.mark.parametrize(
    ("text", "label"),
    [("\\xe0\\xb0", "E0 B0"), (" the", "␣the"), ("క", "క"), ("a\\xe0", "61 E0"),
     (" \\xcf", "␣ CF")],
)  # fmt: skip
def test_spaces_are_seen_and_text_with_bytes_is_hex(text, label):
    assert part_label(text) == label


def test_the_best_recipe_is_shown_and_parts_that_are_not_listed_weigh_the_rest(built):
    made = built[2]
    table = new_tokens(read_study(made.settings, made.inputs))
    assert {row.stub[:3] for row in table.rows} == {
        ("Telugu", "expand-500", "Align"), ("Greek", "expand-500", "Align"),
    }  # fmt: skip
    first = table.rows[0]
    assert first.stub[3] == "లక్ష్మి"
    assert [cell.text for cell in first.cells if cell.text] == ["E0 B0", "95"]
    for row in table.rows:
        weights = [float(cell.change) for cell in row.cells if cell.change]
        assert sum(weights) == pytest.approx(1, abs=0.02)
    assert {row.cells[-1].text for row in table.rows} == {"", "3 more"}
