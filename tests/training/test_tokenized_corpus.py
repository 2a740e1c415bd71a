"""A corpus is tokenized once for all jobs with the same tokenizer, and what they read is whole."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from lexigraft.artifacts.completion import input_checksum
from lexigraft.artifacts.verification import verify
from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.training import tokenized_corpus
from lexigraft.training.tokenized_corpus import tokenize_corpus


@pytest.fixture
def corpus(tmp_path, telugu, monkeypatch):
    """A folder with 11 sentences, which are tokenized in batches of two, three at a time."""
    monkeypatch.setattr(tokenized_corpus, "BATCH", 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    folder = tmp_path / "corpus" / "te"
    folder.mkdir(parents=True)
    write(folder, telugu[:11])
    return folder


@pytest.fixture
def batches(monkeypatch):
    """The batches that were tokenized."""
    seen = []

    def counted(tokenizer, texts):
        seen.append(texts)
        return encode(tokenizer, texts)

    monkeypatch.setattr(tokenized_corpus, "encode", counted)
    return seen


def write(folder, sentences):
    (folder / "train.txt").write_text("\n".join(sentences) + "\n", "utf-8")


def stored(corpus):
    return [file for file in (corpus / ".tokens").iterdir() if file.suffix != ".lock"]


def assert_whole(found, tokenizer, corpus, limit=None):
    """The tokens are those of each sentence by itself."""
    sentences = (corpus / "train.txt").read_text("utf-8").split("\n")[:-1][:limit]
    expected = [ids for text in sentences for ids in encode(tokenizer, [text])]
    assert found.tokens.dtype == found.lengths.dtype == "int32"
    assert found.tokens.tolist() == [token for ids in expected for token in ids]
    assert found.lengths.tolist() == [len(ids) for ids in expected]


@pytest.mark.fault(
    "parallel",
    "jobs that start at the same time tokenize the same corpus",
    "one of them tokenizes it, and the others read its result",
)
def test_jobs_that_start_together_tokenize_once(corpus, batches, with_bos):
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: tokenize_corpus(with_bos, corpus), range(4)):
            assert_whole(found, with_bos, corpus)
    assert len(batches) == 6


def test_tokens_are_stored_per_tokenizer_and_part_of_the_text(corpus, with_bos, without_bos):
    ways = [(with_bos, None), (without_bos, None), (without_bos, 5), (without_bos, 11)]
    for tokenizer, limit in 2 * ways:
        assert_whole(tokenize_corpus(tokenizer, corpus, limit), tokenizer, corpus, limit)
    assert len(stored(corpus)) == 4


def test_tokens_of_an_old_text_are_deleted(corpus, telugu, with_bos, without_bos):
    for tokenizer in (with_bos, without_bos):
        tokenize_corpus(tokenizer, corpus)
    write(corpus, telugu[5:9])
    assert_whole(tokenize_corpus(with_bos, corpus), with_bos, corpus)
    assert len(stored(corpus)) == 1


@pytest.mark.fault("damage", "the stored tokens of a corpus are damaged", "they are recomputed")
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-4],
        lambda content: b"",
        lambda content: content[:9] + bytes([content[9] ^ 1]) + content[10:],
        lambda content: content[:-36] + bytes([content[-36] ^ 1]) + content[-35:],
    ],
)
def test_a_damaged_file_is_written_again(corpus, batches, with_bos, caplog, damage):
    tokenize_corpus(with_bos, corpus)
    [file] = stored(corpus)
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert_whole(tokenize_corpus(with_bos, corpus), with_bos, corpus)
    assert file.read_bytes() == whole and len(batches) == 12
    assert "damaged" in caplog.text


@pytest.mark.fault(
    "kill",
    "the tokenization of a corpus is interrupted",
    "the next job tokenizes it and deletes partial files",
)
def test_files_of_a_killed_process_are_deleted(corpus, with_bos):
    tokenize_corpus(with_bos, corpus)
    [file] = stored(corpus)
    file.rename(file.with_name(f".partial-{file.name}-abcdefgh"))
    tokenize_corpus(with_bos, corpus)
    assert stored(corpus) == [file]


@pytest.mark.fault(
    "disk",
    "a corpus folder that the user who trains cannot write to",
    "the log says that tokens are not stored; training reads the same tokens",
)
def test_a_read_only_corpus_is_tokenized_in_temporary_files(corpus, with_bos, caplog):
    (corpus / ".tokens").write_text("not a folder: nothing can be put into it")
    assert_whole(tokenize_corpus(with_bos, corpus), with_bos, corpus)
    assert "cannot be stored" in caplog.text


def test_a_missing_text_leaves_no_tokens(tmp_path, with_bos):
    with pytest.raises(UserError, match=r"train\.txt: no sentences"):
        tokenize_corpus(with_bos, tmp_path)
    assert not (tmp_path / ".tokens").exists()


def test_stored_tokens_do_not_change_the_checksum_of_a_corpus(corpus, with_bos):
    before = input_checksum(corpus)
    tokenize_corpus(with_bos, corpus)
    assert input_checksum(corpus) == before
    found = verify(corpus.parent)
    assert not found.faults and not found.unfinished


def test_truncation_of_a_tokenizer_changes_nothing(corpus, batches, without_bos):
    from copy import deepcopy

    tokenize_corpus(without_bos, corpus)
    tokenizer = deepcopy(without_bos)
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=99)
    assert_whole(tokenize_corpus(tokenizer, corpus), without_bos, corpus)
    assert len(batches) == 6
