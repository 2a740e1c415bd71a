"""What becomes of English under a vocabulary: the mean over its cells, and its test."""

import math
import random
import re

import pytest

from lexigraft.report.frame import Model
from lexigraft.report.records import read_study
from lexigraft.report.significance import score_differences
from lexigraft.report.tables.fragmentation import fragmentation

SOURCE = ("tiny", "te-made", "source", "none", "none", 0)
COLUMN = ("te-made", "bits", "english_bits_per_byte")
BYTES = 1000


def cell(initializer, seed=0, strategy="full", vocabulary="expand-500"):
    return ("tiny", "te-made", vocabulary, initializer, strategy, seed)


def model(cell):
    return Model(cell[0], *cell[2:5])


@pytest.fixture
def made(made_study):
    """`write(cell, level)`: the bits per byte of a hundred English sentences, about this level."""
    made_study.vocabulary("te-made")

    def write(cell, level, kept=True):
        common, draw = random.Random("sentences"), random.Random(repr(cell))
        bits = [level * (1 + common.gauss(0, 0.2)) + draw.gauss(0, 0.05) for _ in range(100)]
        rows = [{"id": f"english-{at}", "test": "english", "nats": own * BYTES * math.log(2),
                 "tokens": 300, "bytes": BYTES} for at, own in enumerate(bits)]  # fmt: skip
        mean = sum(bits) / len(bits)
        made_study.record(cell, "bits", "perplexity", {"english_bits_per_byte": mean},
                          predictions=rows if kept else None)  # fmt: skip
        return mean

    made_study.write = write
    return made_study


def build(made):
    study = read_study(made.settings, made.inputs)
    return fragmentation(study)


def compared(made, *cells):
    """The mean of these models against Source."""
    name, source = Model("tiny", "expand-500", "*", "*"), model(SOURCE)
    study = read_study(made.settings, made.inputs)
    means = {(name, COLUMN): [model(one) for one in cells]}
    return score_differences(study, [(name, source, COLUMN)], means)


def test_the_change_is_the_mean_over_cells_and_has_stars_where_sentences_agree(made):
    source = made.write(SOURCE, 1.0)
    levels = [made.write(cell("align"), 1.2), made.write(cell("mean"), 1.4)]
    table = build(made)
    change = sum(levels) / 2 - source
    (row,) = table.rows
    assert row.cells[-1].text == f"+{change:.3f}"
    assert row.cells[-1].stars == "**"
    (found,) = table.data.to_dict("records")
    assert found["english_bits_per_byte_change"] == pytest.approx(change)
    low, high = (found[f"english_bits_per_byte_change_{end}"] for end in ("low", "high"))
    assert low < change < high
    assert found["english_bits_per_byte_p_corrected"] < 0.01
    assert found["english_bits_per_byte_effect_size"] > 0.8
    assert found["english_bits_per_byte_tested_examples"] == 100
    assert any(note.endswith("5,000 resamples.") for note in table.notes)  # of one, uncorrected


def test_a_change_that_sentences_do_not_agree_on_has_none(made):
    made.write(SOURCE, 1.0)
    made.write(cell("align"), 1.0)
    (row,) = build(made).rows
    assert row.cells[-1].value != 0
    assert row.cells[-1].stars == ""


def test_vocabularies_are_corrected_for_each_other(made):
    made.write(SOURCE, 1.0)
    made.write(cell("align"), 1.3)
    made.vocabulary("te-made", name="expand-50")
    made.write(cell("align", vocabulary="expand-50"), 1.0)
    table = build(made)
    assert any("corrected for the 2 changes of English over Source" in note for note in table.notes)
    found = table.data.set_index("vocabulary")
    ps = found["english_bits_per_byte_p"]
    # Of two the smaller is doubled, and the larger stays as it is (Benjamini and Hochberg).
    corrected = found["english_bits_per_byte_p_corrected"]
    assert corrected["expand-500"] == pytest.approx(2 * ps["expand-500"])
    assert corrected["expand-50"] == pytest.approx(ps["expand-50"])


def test_untrained_grafts_are_not_in_the_mean(made):
    source = made.write(SOURCE, 1.0)
    trained = made.write(cell("align"), 1.2)
    made.write(cell("align", strategy="none"), 3.0)
    (found,) = build(made).data.to_dict("records")
    assert found["english_bits_per_byte_change"] == pytest.approx(trained - source)


def test_models_count_alike_whatever_their_numbers_of_seeds(made):
    source = made.write(SOURCE, 1.0)
    align = [made.write(cell("align", seed), 1.2 + 0.02 * seed) for seed in range(3)]
    mean = made.write(cell("mean"), 1.5)
    (one,) = compared(made, cell("align"), cell("mean"))
    assert one.value == pytest.approx((sum(align) / 3 + mean) / 2 - source)
    assert (one.examples, one.outputs) == (100, 400)
    (found,) = build(made).data.to_dict("records")
    assert found["english_bits_per_byte_change"] == pytest.approx(one.value)


def test_seeds_change_a_mean_over_models_less_than_one_of_them(made):
    made.write(SOURCE, 1.0)
    names = ("align", "mean", "merge", "random")
    for name in names:
        for seed, shift in enumerate((-0.2, 0.0, 0.2)):
            made.write(cell(name, seed), 1.2 + shift)
    (one,) = compared(made, cell("align"))
    (mean,) = compared(made, *map(cell, names))

    def width(found):
        return found.high - found.low

    study = read_study(made.settings, made.inputs)
    (alone,) = score_differences(study, [(model(cell("align")), model(SOURCE), COLUMN)])
    assert width(one) == pytest.approx(width(alone), rel=0.1)
    # Four models of three seeds each vary as twelve seeds do: half as much as three.
    assert width(mean) == pytest.approx(width(one) / 2, rel=0.15)
    assert mean.freedom == one.freedom == 8


def test_a_mean_of_which_one_model_kept_no_sentences_is_shown_and_not_tested(made):
    made.write(SOURCE, 1.0)
    made.write(cell("align"), 1.4)
    made.write(cell("mean"), 1.4, kept=False)
    table = build(made)
    (row,) = table.rows
    assert row.cells[-1].value == pytest.approx(0.4, abs=0.05)
    assert row.cells[-1].stars == ""
    assert any(re.search("English not tested.*Telugu expand-500", note) for note in table.notes)
    assert "english_bits_per_byte_p" not in table.data
