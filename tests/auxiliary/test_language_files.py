import pytest

from lexigraft.auxiliary.language_files import read_dictionary
from lexigraft.errors import UserError


@pytest.fixture
def dictionary(tmp_path):
    def write(content):
        (tmp_path / "words.txt").write_bytes(content)
        return tmp_path / "words.txt"

    return write


def test_entries_separated_by_a_tab_may_have_several_words(dictionary):
    file = dictionary("sugar cane\tచెరకు\nday\tపండుగ రోజు\n".encode())
    assert read_dictionary(file) == [("sugar cane", "చెరకు"), ("day", "పండుగ రోజు")]


def test_line_ends_byte_order_mark_and_repeated_or_empty_lines_are_ignored(dictionary):
    file = dictionary(b"\xef\xbb\xbfdog\thund\r\n\r\ndog\thund\r\ndog\tdogge\r\n")
    assert read_dictionary(file) == [("dog", "hund"), ("dog", "dogge")]


no_dictionary = pytest.mark.bad_input(
    "vectors",
    "a dictionary that is missing, has no pairs, or has a line that is not a pair",
    "a one-line error message names the file and the line",
)


@no_dictionary
@pytest.mark.parametrize(
    "content, message",
    [
        (b"dog\thund\nthree little words\n", "line 2: not an English word"),
        (b"dog\thund\thunde\n", "line 1: not an English word"),
        (b"dog\n", "line 1: not an English word"),
        (b"\n \n", "contains no word pairs"),
        (b"", "the file is empty"),
        (b"dog\thund\xff\n", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_dictionary_is_refused_by_line(dictionary, content, message):
    with pytest.raises(UserError, match=message) as error:
        read_dictionary(dictionary(content))
    assert "words.txt" in str(error.value)


@no_dictionary
def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"dictionary: .*none\.txt: there is no such file"):
        read_dictionary(tmp_path / "none.txt")
