"""The perplexity table of a group of languages: a column for each member."""

from lexigraft.report.records import read_study
from lexigraft.report.tables.perplexity import _HEADS as HEADS
from lexigraft.report.tables.perplexity import perplexity

FULL = "full-clm-512"
SOURCE = ("m", "te-made", "source", "none", "none", 0)
ADAPTED = ("m", "te-made", "big", "align", FULL, 0)
UNTRAINED = (*ADAPTED[:4], "none", 0)


def test_members_stand_behind_their_group_without_a_before_of_their_own(made_study):
    made_study.settings["reference"] = {"strategy": FULL}
    for cell, bits, ppl in ((SOURCE, 2.0, 4.0), (ADAPTED, 1.5, 90.0), (UNTRAINED, 3.0, 99.0)):
        made_study.record(cell, "ppl", "perplexity", {
            "perplexity": ppl, "bits_per_byte": bits,
            "perplexity_sw": ppl + 1, "bits_per_byte_sw": bits + 1,
            "perplexity_el-made": ppl + 2, "bits_per_byte_el-made": bits + 2,
        })  # fmt: skip
    study = read_study(made_study.settings, made_study.inputs)
    table = perplexity(study)
    names = [study.language(name) for name in ("te-made", "sw", "el-made")]
    expected = [(names[0], heading) for heading in HEADS.values()]
    own = [HEADS[column] for column in ("perplexity", "bits_per_byte")]
    expected += [(name, column) for name in names[1:] for column in own]
    assert list(table.columns) == expected
    rows = {row.stub[-1]: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["Align"] == ["90.0", "3.000", "1.500", "91.0", "2.500", "92.0", "3.500"]
    assert rows["Source"][3:] == ["5.0†", "3.000", "6.0†", "4.000"]
    assert set(table.data["metric"]) == {
        f"{name}{member}"
        for name in ("perplexity", "bits_per_byte")
        for member in ("", "_sw", "_el-made")
    } | {"bits_per_byte_before"}
