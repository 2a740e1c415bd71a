"""Pages with numbers are rendered from the records of studies in docs/results."""

import json

import pytest

from lexigraft.errors import UserError
from workflow import pages
from workflow.pages import Record, render

SCORES = [
    ["language", "initializer", "metric", "mean"],
    ["te", "mean", "bits_per_byte", 1.5],
    ["te", "random", "bits_per_byte", 2.25],
    ["te", "mean", "chrf", 0.125],
]


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A documentation of one record, and a function that renders a text with it."""
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "TEMPLATES", tmp_path / "templates")
    (tmp_path / "results").mkdir()
    (tmp_path / "templates").mkdir()
    content = {"study": "one", "run": {"version": "0.2.0"}, "tables": {"scores": SCORES}}
    (tmp_path / "results/one.json").write_text(pages._as_text(content))

    def rendered(text: str) -> str:
        (tmp_path / "templates/page.md").write_text(text)
        return render("page.md")

    rendered.record = Record(tmp_path / "results/one.json")
    return rendered


@pytest.mark.parametrize("template", pages.pages())
def test_every_page_is_what_its_template_and_the_records_give(template):
    page = pages.pages()[template].read_text(encoding="utf-8")
    assert render(template) == page, "run `make pages`"


def test_a_page_shows_a_number_of_its_record(docs):
    text = '{{ record("one").score("bits_per_byte", initializer="mean") | digits(2) }}'
    assert docs(f"{text} {{{{ -0.5 | digits(1) }}}} {{{{ 0.25 | percent }}}}") == "1.50 −0.5 25 %"


def test_rows_are_chosen_by_a_value_or_several(docs):
    record = docs.record
    assert [row["mean"] for row in record.rows("scores", metric="chrf")] == [0.125]
    assert len(record.rows("scores", initializer=["mean", "random"])) == 3


def test_a_number_that_several_rows_could_be_is_refused(docs):
    with pytest.raises(UserError, match=r"one.json: 2 rows of scores match .*'mean'.*expected"):
        docs.record.value("scores", "mean", initializer="mean")
    with pytest.raises(UserError, match="there is no table speed"):
        docs.record.rows("speed")


def test_a_sentence_that_the_numbers_no_longer_bear_out_names_its_line(docs):
    text = '{% set one = record("one") %}\n{{ require(one.score("chrf") > 1) }}\nBetter.\n'
    with pytest.raises(UserError, match=r"docs/templates/page.md, line 2: the numbers no longer"):
        docs(text)
    assert docs(text.replace("> 1", "< 1")) == "\nBetter.\n"
    macro = "{% macro surely(claim) %}{{ require(claim) }}{% endmacro %}\nBest.{{ surely(1 > 2) }}"
    with pytest.raises(UserError, match=r"page\.md, line 2: the numbers no longer"):
        docs(macro)


def test_each_row_of_a_record_has_a_line_of_its_own():
    content = {"study": "one", "run": {}, "tables": {"scores": SCORES, "speed": SCORES[:2]}}
    text = pages._as_text(content)
    assert json.loads(text) == content
    assert '["te", "mean", "bits_per_byte", 1.5],\n' in text


def test_a_study_that_has_not_run_cannot_be_recorded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="there is no report; run study default first"):
        pages.main(str(pages.ROOT / "config/config.yaml"))


def test_a_speed_up_is_recorded_once_with_the_interval_of_any_table(tmp_path):
    head = "source,language,vocabulary,initializer,strategy,task,metric,mean,speed_up"
    row = "m,te,big,align,full,speed,rate,20.0,2.5"
    (tmp_path / "empty.csv").write_text("\n")
    (tmp_path / "narrow.csv").write_text(f"{head}\n{row}\nm,te,big,align,full,mt,chrf,9.0,\n")
    assert pages._speed_up(tmp_path)["speed_up"].tolist() == [2.5]
    interval = f"{head},p,speed_up_low,speed_up_high\n{row},0.1,2.25,2.75\n"
    (tmp_path / "speed.csv").write_text(interval)
    (found,) = pages._speed_up(tmp_path).to_dict("records")
    assert (found["speed_up"], found["speed_up_low"], found["speed_up_high"]) == (2.5, 2.25, 2.75)


def test_the_differences_of_all_tables_are_recorded(tmp_path):
    columns = [*pages._DIFFERENCES[1:], "baseline_score", "p"]
    for name, initializer in (("significance", "none"), ("initializers-compared", "random")):
        row = ["m", "te", "big", "align", "full", "ppl", "bits", "big", initializer, "full",
               -0.5, -0.6, -0.4, 0.01, 2.0, 0.005]  # fmt: skip
        lines = [",".join(columns), ",".join(map(str, row))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    (tmp_path / "results.csv").write_text("language,metric,mean\nte,bits,1.5\n")
    found = pages._differences(tmp_path)
    assert dict(zip(found["item"], found["baseline_initializer"], strict=True)) == {
        "initializers-compared": "random", "significance": "none"}  # fmt: skip
    assert found[["difference", "p_corrected"]].to_numpy().tolist() == 2 * [[-0.5, 0.01]]
