"""Corpora are read in the layouts that they have on the hub: recorded names of files and columns.

Each layout has the real names, and invented rows.
"""

import gzip

import pyarrow
import pytest
from pyarrow.parquet import write_table

from lexigraft.corpus.readers import read_scored_pairs, text_shards
from lexigraft.settings import plain
from tests.corpus.text_files import write_json_lines
from workflow.config.registries import data_set, entries_of

TEXTS = ["a first document", "a second document"]
# Corpus -> code of a language, names of two files with it, of a file without it, other columns.
LAYOUTS = {
    "madlad-400": (
        "sw", ["data/sw/sw_clean_0000.jsonl.gz", "data/sw/sw_clean_0001.jsonl.gz"],
        "data/sw/sw_noisy_0000.jsonl.gz", {},
    ),
    "wikipedia-20231101": (
        "de",
        ["20231101.de/train-00000-of-00020.parquet", "20231101.de/train-00001-of-00020.parquet"],
        "20231101.de-x/train-00000-of-00001.parquet",
        {"id": "1", "url": "https://example.org/1", "title": "One"},
    ),
    "culturax": (
        "te", ["te/te_part_00000.parquet", "te/te_part_00001.parquet"],
        "ta/ta_part_00000.parquet",
        {"timestamp": "2020/01/01 00:00:00", "url": "https://example.org/1", "source": "mC4"},
    ),
    "the-stack-dedup": (
        "python",
        ["data/python/data-00000-of-00144.parquet", "data/python/data-00001-of-00144.parquet"],
        "data/go/data-00000-of-00115.parquet",
        {"hexsha": "0" * 40, "size": 16, "ext": "py", "lang": "Python", "avg_line_length": 16.0},
    ),
    "proof-pile-2": (
        "arxiv", ["arxiv/train/arXiv_000.jsonl.zst", "arxiv/train/arXiv_001.jsonl.zst"],
        "arxiv/test/arXiv_000.jsonl.zst", {"meta": {"arxiv_id": "0000.00000"}},
    ),
    "sangraha-verified": (
        "hin", ["verified/hin/data-0.parquet", "verified/hin/data-1.parquet"],
        "verified/tam/data-0.parquet", {"doc_id": "1", "type": "web"},
    ),
    "oscar-2301": (
        "hi", ["hi_meta/hi_meta_part_1.jsonl.zst", "hi_meta/hi_meta_part_2.jsonl.zst"],
        "ta_meta/ta_meta_part_1.jsonl.zst",
        {"warc_headers": {"warc-identified-content-language": "hin"},
         "metadata": {"identification": {"label": "hi", "prob": 0.99}, "categories": None}},
    ),
}  # fmt: skip


def write(file, rows):
    """Rows in the format of the file's name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        write_json_lines(file.parent, file.name, rows)


@pytest.fixture(scope="module")
def corpora():
    return entries_of("corpora")


def test_every_corpus_has_a_layout(corpora):
    assert set(corpora) == set(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_corpus_is_read_in_its_layout(name, corpora, tmp_path):
    code, files, other, columns = LAYOUTS[name]
    column = corpora[name].column
    for number, file in enumerate(files):
        rows = [{column: f"{text} {number}", **columns} for text in TEXTS]
        write(tmp_path / file, rows)
    write(tmp_path / other, [{column: "of something else", **columns}])
    text = data_set(corpora[name], code, str(tmp_path))
    shards = [list(shard()) for shard in text_shards(text)]
    assert shards == [[f"{text} {number}" for text in TEXTS] for number in range(2)]


# Language -> a line of the bitext that its training samples are drawn from, and the pair in it.
NLLB = "\t".join(
    ["It rains.", "Mvua inanyesha.", "1.2106", "1.0", "0.99", "crawl", "https://example.org/en",
     "crawl", "https://example.org/sw"]
)  # fmt: skip
BITEXT = {
    "sw": (NLLB, ("It rains.", "Mvua inanyesha."), "1.2106"),
    "et": ("1.2302\tIt rains.\tSajab.", ("It rains.", "Sajab."), "1.2302"),
    "el": ("1.1021\tΒρέχει.\tIt rains.", ("It rains.", "Βρέχει."), "1.1021"),
}


@pytest.mark.parametrize("language", BITEXT)
def test_bitext_is_read_in_its_layout_with_its_scores(language, tmp_path):
    line, pair, score = BITEXT[language]
    text = plain(entries_of("languages")[language].samples["parallel"].text)
    file = tmp_path / text["path"]
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.compress(f"{line}\n".encode()))
    assert list(read_scored_pairs(text | {"path": str(file)})) == [(pair, score)]
