"""Loaders give the same texts, pairs and rows from any format; data sets and folders of texts."""

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lexigraft.corpus.loaders.text import read_texts
from lexigraft.corpus.readers import read_pairs, read_scored_pairs, read_sentences
from lexigraft.errors import UserError
from tests.corpus.text_files import LINES, write, write_json_lines, write_parquet


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


PAIRS = list(zip(["One house", "Two dogs", "Three cats"], LINES, strict=True))
SCORES = [0.5, 0.75, 1.25]
FIELDS = {"source_field": "en", "target_field": "te"}
COLUMNS = {"source_column": "en", "target_column": "te"}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three pairs with scores in every format, in the current folder."""
    rows = [
        {"en": source, "te": target, "score": score}
        for (source, target), score in zip(PAIRS, SCORES, strict=True)
    ]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    write_json_lines(tmp_path, "a.jsonl", rows)
    (tmp_path / "folder").mkdir()
    write_parquet(tmp_path / "folder", columns)
    table = "".join(
        f"{en}\t{te}\t{score}\n" for en, te, score in zip(*columns.values(), strict=True)
    )
    write(tmp_path, "a.tsv", table)
    write(tmp_path, "a.csv", "en,te,score\n" + table.replace("\t", ","))
    for key, values in columns.items():
        write(tmp_path, key, "".join(f"{value}\n" for value in values))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "text",
    [
        {"loader": "text", "paths": ["te"]},
        {"loader": "text", "paths": ["a.jsonl"], "field": "te"},
        {"loader": "text", "paths": ["a.csv"], "field": "te"},
        {"loader": "jsonl", "path": "a.jsonl", "field": "te"},
        {"loader": "parquet", "path": "folder/a.parquet", "column": "te"},
        {"loader": "csv", "path": "a.csv", "column": "te"},
        {"loader": "datasets", "name": "folder", "column": "te", "config": None, "split": "train"},
        {"loader": "datasets", "name": "text", "data_files": "te"},
        {"loader": "datasets", "name": "json", "data_files": ["*.jsonl"], "column": "te"},
    ],
)
def test_every_loader_reads_the_same_texts(text, files):
    assert list(read_sentences(text)) == LINES


@pytest.mark.parametrize(
    ("text", "quality"),
    [
        ({"loader": "tsv", "path": "a.tsv"}, {"quality_column": 3}),
        ({"loader": "files", "source": "en", "target": "te"}, {"quality": "score"}),
        ({"loader": "jsonl", "path": "a.jsonl", **FIELDS}, {"quality_field": "score"}),
        ({"loader": "csv", "path": "a.csv", **COLUMNS}, {"quality_column": "score"}),
        (
            {"loader": "parquet", "path": "folder/a.parquet", **COLUMNS},
            {"quality_column": "score"},
        ),
        ({"loader": "datasets", "name": "folder", **COLUMNS}, {"quality_column": "score"}),
    ],
)
def test_every_loader_reads_the_same_pairs_and_their_qualities(text, quality, files):
    assert list(read_pairs(text)) == PAIRS
    rated = [(pair, float(score)) for pair, score in read_scored_pairs(text | quality)]
    assert rated == list(zip(PAIRS, SCORES, strict=True))


@pytest.mark.bad_input(
    "config",
    "an unknown text loader",
    "rejected with a message that lists the loaders",
)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"loader": "xml", "path": "te"}, r"text\.loader: 'xml' is not one of"),
        ({"loader": "tsv", "path": "a.tsv"}, r"text\.loader: 'tsv' is not one of"),
    ],
)
def test_a_loader_that_cannot_read_a_text_is_reported(text, message, files):
    with pytest.raises(UserError, match=message):
        list(read_sentences(text))


def read_dataset(name, column, split="train", **options):
    options |= {"name": name, "column": column, "split": split}
    return list(read_sentences({"loader": "datasets", **options}))


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


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
@pytest.mark.parametrize("names", ["id,text,en", "id,sentence,en", "id,te,1"])
def test_a_table_is_read_by_its_text_column(names, ending, tmp_path):
    third = '"a, ""b"""' if "en" in names else "7"
    table = f"{names}\n" + "".join(
        f'{number},"{line}, yes",{third}\n' for number, line in enumerate(LINES)
    )
    if ending == "tsv":
        table = table.replace(",", "\t")
    texts = list(read_texts([write(tmp_path, f"a.{ending}", table)]))
    assert texts == [f"{line}{',' if ending != 'tsv' else chr(9)} yes" for line in LINES]


@pytest.mark.bad_input(
    "text",
    "a table with several columns that could be the text",
    "a one-line error message lists the columns",
)
def test_a_table_with_two_columns_of_text_is_refused(files):
    with pytest.raises(UserError, match=r"a\.csv: choose the column .*; the columns are en, te, s"):
        list(read_texts(["a.csv"]))


def test_a_column_of_a_saved_dataset_is_read(tmp_path):
    from datasets import Dataset, DatasetDict

    rows = Dataset.from_dict({"text": LINES, "id": [1, 2, 3]})
    rows.save_to_disk(tmp_path / "one")
    DatasetDict({"test": rows}).save_to_disk(tmp_path / "splits")
    assert read_dataset(str(tmp_path / "one"), "text") == LINES
    assert read_dataset(str(tmp_path / "splits"), "text", "test") == LINES


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
def test_a_connection_to_the_hub_that_breaks_is_reported(tmp_path, monkeypatch):
    from fsspec.implementations.local import LocalFileSystem
    from huggingface_hub.errors import HTTPError

    def broken(*_, **__):
        raise HTTPError("peer closed connection")

    file = write_json_lines(tmp_path, "a.jsonl.zst", [{"text": line} for line in LINES])
    assert read_dataset("json", "text", data_files=str(file)) == LINES
    monkeypatch.setattr(LocalFileSystem, "_open", broken)
    with pytest.raises(UserError, match=r"dataset json, .*: cannot be read \(peer closed"):
        read_dataset("json", "text", data_files=str(file))


@pytest.mark.bad_input(
    "text",
    "a table line without a tab, a pair without the required columns",
    "a one-line error message names the file and the line",
)
def test_a_table_line_without_a_tab_is_named(tmp_path):
    with pytest.raises(UserError, match="line 2 has 1 columns, but columns 1 and 2 are needed"):
        list(read_pairs({"loader": "tsv", "path": write(tmp_path, "a.tsv", "a\tb\nc d\n")}))


def test_pairs_of_lists_of_files_follow_each_other(tmp_path):
    """As the test and validation articles of GreekSUM."""
    for name in ("test", "validation"):
        for side in ("article", "abstract"):
            write(tmp_path, f"{name}-{side}", f"{name} {side} 1\n{name} {side} 2\n")
    source, target = (
        [str(tmp_path / f"{name}-{side}") for name in ("test", "validation")]
        for side in ("article", "abstract")
    )
    pairs = list(read_pairs({"loader": "files", "source": source, "target": target}))
    assert pairs[1:3] == [
        ("test article 2", "test abstract 2"),
        ("validation article 1", "validation abstract 1"),
    ]
    with pytest.raises(UserError, match="source, target: give lists with the same number"):
        list(read_pairs({"loader": "files", "source": source, "target": target[0]}))


@pytest.mark.parametrize("swap", [False, True])
def test_aligned_files_of_different_length_are_reported_with_both_lengths(swap, tmp_path):
    files = [write(tmp_path, "long", "1\n2\n3\n4\n"), write(tmp_path, "short", "1\n2\n")]
    with pytest.raises(UserError, match=r"short: has 2 lines but .*long has 4"):
        list(read_pairs({"loader": "files", "source": files[swap], "target": files[not swap]}))


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


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00", "\\ude00\\ud83d"])
def test_half_an_emoji_is_left_out_of_a_text(half, tmp_path):
    rows = '{"text": "mto \\ud83d\\ude00 na ' + half + 'maji"}\n'
    file = write(tmp_path, "half.jsonl", rows)
    assert list(read_texts([file])) == ["mto 😀 na maji"]


@pytest.mark.fault(
    "network", "a remote file is truncated or missing", "a one-line error message gives its URL"
)
def test_a_cut_off_file_behind_an_address_is_reported(tmp_path, address):
    file = write(tmp_path, "a.txt.xz", "\n".join(LINES * 100))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"a\.txt\.xz: the compressed file is damaged"):
        read_dataset("text", "text", data_files=f"{address}/a.txt.xz")


def test_a_file_of_qualities_must_have_one_for_each_pair(tmp_path):
    for name, lines in (("en", 3), ("te", 3), ("score", 2)):
        (tmp_path / name).write_text("1\n" * lines)
    text = {"loader": "files", "source": str(tmp_path / "en"), "target": str(tmp_path / "te")}
    with pytest.raises(UserError, match=r"score: has 2 lines but \S+ has 3"):
        list(read_scored_pairs({**text, "quality": str(tmp_path / "score")}))


@pytest.mark.fault(
    "network", "a data set is unreachable", "a one-line error message names the data set"
)
def test_a_dataset_that_cannot_be_reached_is_reported():
    with pytest.raises(UserError, match=r"dataset nobody/nothing, split train: cannot be read"):
        read_dataset("nobody/nothing", "text")
