"""Readers of each format, and one clear error for each kind of bad file."""

import gzip
import json
import lzma
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lexigraft.corpus.lines import corpus_sentences, read_lines
from lexigraft.corpus.loaders.text import read_texts
from lexigraft.corpus.readers import read_pairs, read_sentences
from lexigraft.errors import UserError
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.train import train_tokenizer


def read_table(loader, path, column):
    key = "field" if loader == "jsonl" else "column"
    return list(read_sentences({"loader": loader, "path": path, key: column}))


def read_dataset(name, column, split="train", **options):
    options |= {"name": name, "column": column, "split": split}
    return list(read_sentences({"loader": "datasets", **options}))


def read_files(source, target):
    return list(read_pairs({"loader": "files", "source": source, "target": target}))


LINES = ["మొదటి వాక్యం", "δεύτερη πρόταση", "third"]


def zstd(content):
    import pyarrow

    return pyarrow.compress(content, "zstd", asbytes=True)


def write(folder, name, content):
    file = folder / name
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd}.get(file.suffix, bytes)
    file.write_bytes(pack(content))
    return file


@pytest.fixture
def address(tmp_path):
    """The address at which this machine serves `tmp_path`."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def write_parquet(folder, columns):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), folder / "a.parquet", row_group_size=2)
    return folder / "a.parquet"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.xz", "a.txt.zst"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_are_read_plain_and_compressed(name, end, tmp_path):
    assert list(read_lines(write(tmp_path, name, "\n".join(LINES) + end))) == LINES


def test_carriage_returns_and_byte_order_marks_are_left_to_cleaning(tmp_path):
    file = write(tmp_path, "a.txt", b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert list(read_lines(file)) == ["\ufeffone\r", "two\r"]


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


def test_several_files_are_read_one_after_the_other(tmp_path):
    files = [write(tmp_path, "a.txt", "one\n"), write(tmp_path, "b.txt.gz", "two\n")]
    assert list(read_sentences({"loader": "text", "paths": files})) == ["one", "two"]


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


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.txt: there is no such file"):
        list(read_lines(tmp_path / "nowhere.txt"))


@pytest.mark.bad_input(
    "text",
    "a compressed file (gz, xz, zst) that is truncated or not in that format",
    "a one-line error message names the file",
)
@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.xz", "a.txt.zst"])
@pytest.mark.parametrize("damage", [lambda b: b"plain text", lambda b: b[:-10]])
def test_a_damaged_compressed_file_is_reported(damage, name, tmp_path):
    file = write(tmp_path, name, "\n".join(LINES))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UserError, match="the compressed file is damaged"):
        list(read_lines(file))


def json_lines(field="text"):
    return "\n".join(json.dumps({"id": 1, field: line}) for line in LINES)


@pytest.mark.parametrize(
    "name", ["a.txt", "a.gz", "a.devtest", "a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "a.parquet"]
)
def test_a_text_is_the_same_in_every_format(name, tmp_path):
    if name == "a.parquet":
        write_parquet(tmp_path, {"id": [1, 2, 3], "text": LINES})
    else:
        write(tmp_path, name, json_lines() if "jsonl" in name else "\n".join(LINES))
    assert list(read_texts([tmp_path / name])) == LINES
    assert list(read_sentences({"loader": "text", "paths": [str(tmp_path / name)]})) == LINES


def test_a_folder_is_its_texts_by_name_and_nothing_else(tmp_path):
    (tmp_path / "b").mkdir()
    write(tmp_path, "b/c.jsonl.xz", '{"title": "third"}')
    write(tmp_path, "b/a.txt", "second\n")
    write(tmp_path, "a.txt.zst", "first\n")
    for name in ("README.md", ".hidden.txt", "card.json"):
        write(tmp_path, name, "not a text\n")
    assert list(read_texts([tmp_path], "title")) == ["first", "second", "third"]
    (empty := tmp_path / "none").mkdir()
    with pytest.raises(
        UserError, match=r"none: the folder contains no text files; their names must end in \.txt"
    ):
        list(read_texts([empty]))


@pytest.mark.bad_input(
    "text",
    "a Parquet column that does not exist or contains no text",
    "a one-line error message names the column or lists the existing ones",
)
def test_what_is_wrong_in_a_file_of_a_folder_has_its_name_and_place(tmp_path):
    write(tmp_path, "a.jsonl", '{"text": "good"}\n{"content": "x"}\n')
    with pytest.raises(UserError, match=r"a\.jsonl: line 2: has no field 'text'; it has content"):
        list(read_texts([tmp_path]))
    write_parquet(tmp_path, {"text": ["a", "b", "c"], "number": [1, 2, 3]})
    with pytest.raises(UserError, match=r"a\.parquet: row 1: field 'number' contains a int"):
        list(read_texts([tmp_path / "a.parquet"], "number"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_field_of_json_lines_is_read(name, tmp_path):
    content = "\n".join(json.dumps({"text": line, "id": 1}) for line in LINES)
    assert read_table("jsonl", write(tmp_path, name, content + "\n\n"), "text") == LINES


def test_a_nested_field_is_reached_with_a_dot(tmp_path):
    file = write(tmp_path, "a.jsonl", '{"translation": {"en": "yes", "te": "అవును"}}')
    assert read_table("jsonl", file, "translation.te") == ["అవును"]


def test_null_reads_as_blank(tmp_path):
    assert read_table("jsonl", write(tmp_path, "a.jsonl", '{"text": null}'), "text") == [""]


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


def test_a_column_of_parquet_is_read_across_row_groups(tmp_path):
    file = write_parquet(tmp_path, {"text": [*LINES, None], "number": [1, 2, 3, 4]})
    assert read_table("parquet", file, "text") == [*LINES, ""]


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


def test_a_file_that_is_no_parquet_is_reported(tmp_path):
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table("parquet", write(tmp_path, "a.parquet", "text"), "text")


def test_a_missing_parquet_file_is_named(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        read_table("parquet", tmp_path / "a.parquet", "text")


def test_a_column_of_a_saved_dataset_is_read(tmp_path):
    from datasets import Dataset, DatasetDict

    rows = Dataset.from_dict({"text": LINES, "id": [1, 2, 3]})
    rows.save_to_disk(tmp_path / "one")
    DatasetDict({"test": rows}).save_to_disk(tmp_path / "splits")
    assert read_dataset(str(tmp_path / "one"), "text") == LINES
    assert read_dataset(str(tmp_path / "splits"), "text", "test") == LINES


def test_a_column_of_a_folder_of_data_files_is_read(tmp_path):
    write_parquet(tmp_path, {"text": LINES})
    assert read_dataset(str(tmp_path), "text") == LINES


def test_a_translation_column_gives_pairs(tmp_path):
    from datasets import Dataset

    Dataset.from_list([{"translation": {"en": "yes", "te": "అవును"}}]).save_to_disk(tmp_path / "a")
    pairs = read_pairs(
        {"loader": "datasets", "name": str(tmp_path / "a"), "source_column": "translation.en",
         "target_column": "translation.te"}
    )  # fmt: skip
    assert list(pairs) == [("yes", "అవును")]


@pytest.mark.bad_input(
    "text",
    "a column or split that a data set does not have",
    "a one-line error message lists the existing ones",
)
@pytest.mark.parametrize(
    ("column", "split", "message"),
    [
        ("body", "train", r"split train: has no column 'body'; it has text"),
        ("text", "dev", r"split dev: cannot be read"),
    ],
)
def test_a_bad_column_or_split_of_a_dataset_is_named(column, split, message, tmp_path):
    write_parquet(tmp_path, {"text": LINES})
    with pytest.raises(UserError, match=message):
        read_dataset(str(tmp_path), column, split)


@pytest.mark.fault(
    "network", "a data set is unreachable", "a one-line error message names the data set"
)
def test_a_dataset_that_cannot_be_reached_is_reported():
    with pytest.raises(UserError, match=r"dataset nobody/nothing, split train: cannot be read"):
        read_dataset("nobody/nothing", "text")


@pytest.mark.fault(
    "network", "a data set is unreachable", "a one-line error message names the data set"
)
def test_a_connection_to_the_hub_that_breaks_is_reported(tmp_path, monkeypatch):
    from fsspec.implementations.local import LocalFileSystem
    from huggingface_hub.errors import HTTPError

    def broken(*_, **__):
        raise HTTPError("peer closed connection")

    file = write(tmp_path, "a.jsonl.zst", json_lines())
    assert read_dataset("json", "text", data_files=str(file)) == LINES
    monkeypatch.setattr(LocalFileSystem, "_open", broken)
    with pytest.raises(UserError, match=r"dataset json, .*: cannot be read \(peer closed"):
        read_dataset("json", "text", data_files=str(file))


def test_pairs_of_a_table_are_its_first_two_columns(tmp_path):
    file = write(tmp_path, "a.tsv", 'yes\tఅవును\n\n"no"\tకాదు\t0.9\n')
    assert list(read_pairs({"loader": "tsv", "path": file})) == [("yes", "అవును"), ('"no"', "కాదు")]


@pytest.mark.bad_input(
    "text",
    "a table line without a tab, a pair without the required columns",
    "a one-line error message names the file and the line",
)
def test_a_table_line_without_a_tab_is_named(tmp_path):
    with pytest.raises(UserError, match="line 2 has 1 columns, but columns 1 and 2 are needed"):
        list(read_pairs({"loader": "tsv", "path": write(tmp_path, "a.tsv", "a\tb\nc d\n")}))


def test_aligned_files_give_pairs(tmp_path):
    source, target = write(tmp_path, "a.en", "yes\nno\n"), write(tmp_path, "a.te", "అవును\nకాదు")
    assert read_files(source, target) == [("yes", "అవును"), ("no", "కాదు")]


@pytest.mark.parametrize("swap", [False, True])
def test_aligned_files_of_different_length_are_reported_with_both_lengths(swap, tmp_path):
    files = [write(tmp_path, "long", "1\n2\n3\n4\n"), write(tmp_path, "short", "1\n2\n")]
    with pytest.raises(UserError, match=r"short: has 2 lines but .*long has 4"):
        read_files(*(files[::-1] if swap else files))


def test_pairs_of_json_lines_and_parquet_agree(tmp_path):
    rows = [{"en": "yes", "te": "అవును"}, {"en": "no", "te": "కాదు"}]
    lines = write(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows)))
    table = write_parquet(tmp_path, {key: [row[key] for row in rows] for key in ("en", "te")})
    expected = [("yes", "అవును"), ("no", "కాదు")]
    fields = {"source_field": "en", "target_field": "te"}
    assert list(read_pairs({"loader": "jsonl", "path": lines, **fields})) == expected
    columns = {"source_column": "en", "target_column": "te"}
    assert list(read_pairs({"loader": "parquet", "path": table, **columns})) == expected


@pytest.mark.parametrize("name", ["a.txt.xz", "a.txt.gz"])
def test_lines_of_a_compressed_file_are_read_by_path_and_by_address(name, tmp_path, address):
    write(tmp_path, name, "\n".join([*LINES, "", "last"]) + "\n")
    for place in (str(tmp_path / name), f"{address}/{name}"):
        rows = read_dataset("text", "text", data_files=place)
        assert rows == [*LINES, "", "last"]


@pytest.mark.fault(
    "network", "a remote file is truncated or missing", "a one-line error message gives its URL"
)
def test_an_address_without_content_is_named(address):
    with pytest.raises(UserError, match=r"gone\.xz: the server returned status 404"):
        read_dataset("text", "text", data_files=f"{address}/gone.xz")


@pytest.mark.fault(
    "network", "a remote file is truncated or missing", "a one-line error message gives its URL"
)
def test_a_cut_off_file_behind_an_address_is_reported(tmp_path, address):
    file = write(tmp_path, "a.txt.xz", "\n".join(LINES * 100))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"a\.txt\.xz: the compressed file is damaged"):
        read_dataset("text", "text", data_files=f"{address}/a.txt.xz")


def test_files_of_several_splits_are_read_as_one(tmp_path):
    for split, texts in (("test", LINES[:2]), ("validation", LINES[2:])):
        (tmp_path / "te" / split).mkdir(parents=True)
        write_parquet(tmp_path / "te" / split, {"text": texts})
    patterns = ["te/test/*.parquet", "te/validation/*.parquet"]
    assert read_dataset(str(tmp_path), "text", data_files=patterns) == LINES


@pytest.fixture
def flores(tmp_path):
    """A folder laid out like FLORES+ on the hub: a configuration a language, two splits."""
    texts = {"eng_Latn": ["yes", "no"], "tel_Telu": ["అవును", "కాదు"]}
    lines = ["---", "configs:"]
    for code, words in texts.items():
        lines += [f"- config_name: {code}", "  data_files:"]
        for split in ("dev", "devtest"):
            rows = [{"id": at, "text": word + split} for at, word in enumerate(words)]
            file = tmp_path / split / f"{code}.jsonl"
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
            lines += [f"  - split: {split}", f"    path: {split}/{code}.jsonl"]
    (tmp_path / "README.md").write_text("\n".join([*lines, "---", ""]))
    return tmp_path


def aligned(folder, split="devtest"):
    pair = {"source_config": "eng_Latn", "target_config": "tel_Telu"}
    columns = {"column": "text", "id_column": "id"}
    dataset = {"loader": "datasets", "name": str(folder), "split": split}
    return list(read_pairs({**dataset, **pair, **columns}))


@pytest.mark.parametrize("split", ["dev", "devtest"])
def test_two_configurations_of_a_dataset_give_pairs(split, flores):
    assert aligned(flores, split) == [
        ("yes" + split, "అవును" + split),
        ("no" + split, "కాదు" + split),
    ]


@pytest.mark.parametrize(
    "rows", ['{"id": 0, "text": "x"}', '{"id": 0, "text": "x"}\n{"id": 5, "text": "y"}']
)
def test_rows_that_are_no_pair_are_reported(rows, flores):
    (flores / "devtest" / "tel_Telu.jsonl").write_text(rows)
    with pytest.raises(UserError, match="row 2 of eng_Latn and of tel_Telu differ in 'id'"):
        aligned(flores)


def test_flores_files_are_read_by_their_names_on_disk(tmp_path):
    source = write(tmp_path, "eng_Latn.devtest", "yes\nno\n")
    target = write(tmp_path, "tel_Telu.devtest", "అవును\nకాదు\n")
    assert read_files(source, target) == [("yes", "అవును"), ("no", "కాదు")]


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ude00\\ud83d"])
def test_half_an_emoji_is_left_out_of_a_text(half, tmp_path):
    rows = '{"text": "mto \\ud83d\\ude00 na ' + half + 'maji"}\n'
    file = write(tmp_path, "half.jsonl", rows)
    assert list(read_texts([file])) == ["mto 😀 na maji"]


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00"])
def test_a_tokenizer_learns_from_texts_with_half_an_emoji(half, tmp_path):
    rows = ['{"text": "mto na mvua"}'] * 5 + ['{"text": "mto ' + half + ' na maji"}']
    file = write(tmp_path, "half.jsonl", "\n".join(rows))
    source = train_tokenizer(read_texts([file]), "byte-level-bpe", size=262)
    assert len(expand_tokenizer(source, read_texts([file]), new_tokens=2)) == 264
    assert len(prune_tokenizer(source, read_texts([file]))) == 262
