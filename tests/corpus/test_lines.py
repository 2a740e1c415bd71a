"""Lines of files, plain and compressed, and one clear error for each kind of bad file."""

import pytest

from lexigraft.corpus.lines import corpus_sentences, read_lines
from lexigraft.errors import UserError
from tests.corpus.text_files import LINES, write


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
