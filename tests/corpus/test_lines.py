"""Lines of files, plain and compressed, and one clear error for each kind of bad file."""

import lzma
import os

import pytest

from lexigraft.corpus.lines import corpus_sentences, read_lines
from lexigraft.corpus.readers import read_pairs, read_sentences
from lexigraft.errors import UserError
from tests.corpus.text_files import LINES, write, write_parquet


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "a.txt.bz2", "a.txt.zst"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_are_read_plain_and_compressed(name, end, tmp_path):
    assert list(read_lines(write(tmp_path, name, "\n".join(LINES) + end))) == LINES


def test_only_line_feeds_end_a_line(tmp_path):
    assert list(read_lines(write(tmp_path, "a.txt", "a\x0bb\u2028c\x85d\n"))) == [
        "a\x0bb\u2028c\x85d"
    ]


def test_sentences_of_a_corpus_are_its_first_lines_with_text(tmp_path):
    # Neither U+2028 nor a carriage return ends a sentence.
    write(tmp_path, "heldout.txt", "a\u2028b\nc\rd\n\ne\n")
    write(tmp_path, "english.txt", "")
    assert corpus_sentences(tmp_path, "heldout", 2) == ["a\u2028b", "c\rd"]
    assert corpus_sentences(tmp_path, "heldout") == ["a\u2028b", "c\rd", "e"]
    assert corpus_sentences(tmp_path, "english") == []


@pytest.mark.bad_input(
    "text",
    "a prepared text that was deleted",
    "a one-line error message names the file and says what to run",
)
def test_a_prepared_text_that_was_deleted_is_named(tmp_path):
    with pytest.raises(UserError, match=r"english\.txt: missing; run the corpus stage"):
        corpus_sentences(tmp_path, "english")


@pytest.mark.bad_input(
    "text",
    "a text with a byte that is not UTF-8",
    "a one-line error message gives the file, the line and the position of the byte",
)
def test_a_byte_that_is_not_utf_8_is_named_with_its_line_and_place(tmp_path):
    file = write(tmp_path, "a.txt", b"good\nna" + b"\xefve\n")
    with pytest.raises(UserError, match=r"a\.txt: line 2 is not UTF-8 \(byte 7 .* 0xef\)"):
        list(read_lines(file))


@pytest.mark.bad_input(
    "text", "a text in UTF-16", "a one-line error message gives the command that converts it"
)
def test_utf_16_is_named(tmp_path):
    with pytest.raises(UserError, match=r"iconv -f UTF-16 -t UTF-8"):
        list(read_lines(write(tmp_path, "a.txt", "text".encode("utf-16"))))


@pytest.mark.bad_input(
    "text",
    "an empty file, a file of blank lines, a Parquet file without rows",
    "a one-line error message names the file",
)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_an_empty_file_is_reported(name, tmp_path):
    with pytest.raises(UserError, match="the file is empty"):
        list(read_lines(write(tmp_path, name, "")))


@pytest.mark.bad_input(
    "text",
    "a compressed file (gz, xz, bz2, zst) that is truncated or not in that format",
    "a one-line error message names the file",
)
@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.bz2", "a.txt.zst"])
@pytest.mark.parametrize("damage", [lambda b: b"plain text", lambda b: b[:-10]])
def test_a_damaged_compressed_file_is_reported(damage, name, tmp_path):
    file = write(tmp_path, name, "\n".join(LINES))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match="the compressed file is damaged"):
        list(read_lines(file))


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


def test_text_after_the_padding_of_an_xz_file_is_not_lost_without_a_word(tmp_path):
    streams = [lzma.compress(os.urandom(20_000).hex().encode() + b"\n") for _ in range(2)]
    path = tmp_path / "text.xz"
    path.write_bytes(streams[0] + streams[1])
    assert len(list(read_lines(path))) == 2
    path.write_bytes(streams[0] + bytes(4) + streams[1])
    with pytest.raises(UserError, match="more text follows padding after line 1"):
        list(read_lines(path))
