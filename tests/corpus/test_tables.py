"""Rows of JSON Lines, Parquet and CSV files, and one clear error for each kind of bad row."""

import pytest

from lexigraft.corpus.readers import read_pairs, read_sentences
from lexigraft.errors import UserError
from tests.corpus.text_files import write, write_parquet


def read_table(loader, path, column, **options):
    key = "field" if loader == "jsonl" else "column"
    return list(read_sentences({"loader": loader, "path": path, key: column, **options}))


def test_a_nested_field_is_reached_with_a_dot(tmp_path):
    file = write(tmp_path, "a.jsonl", '{"translation": {"en": "yes", "te": "అవును"}}')
    assert read_table("jsonl", file, "translation.te") == ["అవును"]


@pytest.mark.bad_input(
    "text",
    "a JSON line that is not valid JSON, is not an object, or lacks the field",
    "a one-line error message names the file and the line",
)
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"txt": "x"}', r"line 2: has no field 'text'; it has txt"),
        ('{"text": 3}', r"line 2: field 'text' contains a int, not text"),
        ('{"text": "x"', r"line 2 is not JSON"),
        ('["x"]', r"line 2 is not a JSON object"),
        pytest.param("[" * 200_000, r"line 2 is not JSON", id="nested deeply"),
        pytest.param(f'{{"text": {"9" * 5000}}}', r"line 2 is not JSON", id="a long number"),
    ],
)
def test_a_bad_json_line_is_named(second, message, tmp_path):
    file = write(tmp_path, "a.jsonl", '{"text": "fine"}\n' + second)
    with pytest.raises(UserError, match=message):
        read_table("jsonl", file, "text")


@pytest.mark.bad_input(
    "text",
    "a Parquet column that does not exist or contains no text",
    "a one-line error message names the column or lists the existing ones",
)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"body": ["a"]}, r"has no column 'text'; it has body"),
        ({"text": [1, 2]}, r"field 'text' contains a int, not text"),
    ],
)
def test_a_bad_parquet_column_is_named(columns, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_table("parquet", write_parquet(tmp_path, columns), "text")


@pytest.mark.bad_input(
    "text",
    "an empty file, a file of blank lines, a Parquet file without rows",
    "a one-line error message names the file",
)
def test_an_empty_parquet_file_is_reported(tmp_path):
    import pyarrow

    file = write_parquet(tmp_path, {"text": pyarrow.array([], pyarrow.string())})
    with pytest.raises(UserError, match="the file has no rows"):
        read_table("parquet", file, "text")


CSV = 'id,text\r\n1,"one, ""two"""\r\n2,"a line\r\nand another"\r\n\r\n3,\r\n'


def test_quoted_fields_of_csv_may_contain_separators_quotes_and_lines(tmp_path):
    file = write(tmp_path, "a.csv.gz", CSV)
    assert read_table("csv", file, "text") == ['one, "two"', "a line\r\nand another", ""]


@pytest.mark.parametrize(
    ("name", "separator", "options"),
    [("a.tsv", "\t", {}), ("a.csv", ";", {"separator": ";"}), ("a.txt", ",", {})],
)
def test_columns_of_csv_are_separated_as_the_name_or_the_settings_say(
    name, separator, options, tmp_path
):
    file = write(tmp_path, name, f"\ufeffen{separator}te\nyes{separator}అవును\n")
    columns = {"source_column": "en", "target_column": "te"}
    pairs = read_pairs({"loader": "csv", "path": file, **columns, **options})
    assert list(pairs) == [("yes", "అవును")]


@pytest.mark.bad_input(
    "text",
    "a CSV file without the column, with a line of another length, or with an open quote",
    "a one-line error message names the file and the line, or lists the columns",
)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("body\nx\n", r"a\.csv: has no column 'text'; it has body"),
        ("id,text\n1,x\n2\n", r"line 3 has 1 columns, but the first line names 2"),
        ('text\n"x\n', r"a\.csv: line 2 is not CSV"),
        ("text\n", r"the file has no rows"),
    ],
)
def test_a_bad_csv_file_is_named(content, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read_table("csv", write(tmp_path, "a.csv", content), "text")
