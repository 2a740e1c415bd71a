"""Saved tokenizers: all files segment identically, as the SentencePiece library does."""

import copy
import json
import shutil

import pytest
import sentencepiece
from transformers import AutoTokenizer

from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import read_model, sentencepiece_to_fast
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.tokenizer_files import extended_model, save_tokenizer
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of


@pytest.fixture
def mistral_folder(mistral_tokenizer, mistral_model_file, tmp_path):
    folder = tmp_path / "source"
    mistral_tokenizer.save_pretrained(folder)
    shutil.copy(mistral_model_file, folder / "tokenizer.model")
    return folder


def test_a_saved_tokenizer_names_a_class_of_transformers_4(smollm2_cut, tmp_path):
    """It has no class TokenizersBackend, and takes a list of tokens for a table of roles."""
    target = copy.deepcopy(smollm2_cut)
    target.extra_special_tokens = ["<|im_start|>"]
    save_tokenizer(target, tmp_path)
    written = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert written["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert written["additional_special_tokens"] == ["<|im_start|>"]
    assert "extra_special_tokens" not in written
    assert AutoTokenizer.from_pretrained(tmp_path).extra_special_tokens == ["<|im_start|>"]


def test_a_qwen2_tokenizer_is_loaded_beside_its_config(smollm2_cut, telugu, tmp_path):
    source = tmp_path / "source"
    smollm2_cut.save_pretrained(source)
    (source / "config.json").write_text('{"model_type": "qwen2"}')
    target = expand_tokenizer(smollm2_cut, telugu, 50)
    save_tokenizer(target, tmp_path / "out", source)
    assert not (tmp_path / "out" / "config.json").exists()
    shutil.copy(source / "config.json", tmp_path / "out")
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again(telugu)["input_ids"] == target(telugu)["input_ids"]


def test_each_of_several_chat_templates_is_a_file_and_can_be_written_again(smollm2_cut, tmp_path):
    target = copy.deepcopy(smollm2_cut)
    target.chat_template = {"default": "{{ messages }}", "tool_use": "{{ tools }}"}
    for _ in range(2):
        files = save_tokenizer(target, tmp_path)
    assert "additional_chat_templates/tool_use.jinja" in files
    assert all((tmp_path / file).is_file() for file in files)
    assert AutoTokenizer.from_pretrained(tmp_path).chat_template == target.chat_template


@pytest.mark.bad_input(
    "model",
    "tokenizer files that segment text differently",
    "a one-line error message; nothing is written",
)
def test_files_that_disagree_are_rejected_and_nothing_is_written(
    mistral_folder, mistral_tokenizer, telugu, tmp_path
):
    target = expand_tokenizer(mistral_tokenizer, telugu, 50)
    # Without its normalizer the fast tokenizer no longer puts a space before the first word.
    target.backend_tokenizer.normalizer = None
    with pytest.raises(UserError, match="segments 20 of 20 samples differently"):
        save_tokenizer(target, tmp_path / "out", mistral_folder, samples=telugu[:20])
    assert list((tmp_path / "out").iterdir()) == []


def fast_ids(tokenizer, lines):
    return tokenizer(lines, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize(
    ("language", "merges"),
    [
        ("telugu", "continued"),
        ("telugu", "append"),
        ("telugu", "auxiliary-first"),
        ("english", "continued"),
    ],
)
def test_the_extended_model_is_the_extended_fast_tokenizer(
    language, merges, mistral_model_file, mistral_tokenizer, lines, request
):
    k = 200 if language == "telugu" else 8
    target = expand_tokenizer(
        mistral_tokenizer, request.getfixturevalue(language), k, merges=merges
    )
    data = extended_model(mistral_model_file, target)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert library.get_piece_size() == 32_000 + k
    ids = fast_ids(target, lines)
    assert library.encode(lines) == ids
    if language == "telugu":
        assert any(number >= 32_000 for text in ids for number in text)


def test_added_tokens_after_the_model_become_pieces(mistral_model_file, telugu):
    tokenizer = sentencepiece_to_fast(mistral_model_file)
    tokenizer.add_special_tokens({"pad_token": "<pad>"})
    target = expand_tokenizer(tokenizer, telugu, 20)
    data = extended_model(mistral_model_file, target)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert library.is_control(32_000) and library.id_to_piece(32_000) == "<pad>"
    assert library.encode(telugu) == fast_ids(target, telugu)


def test_a_model_of_another_tokenizer_is_not_extended(
    mistral_model_file, mistral_tokenizer, tmp_path
):
    model = read_model(mistral_model_file)
    model.pieces[500].piece, model.pieces[501].piece = "other", "pieces"
    file = tmp_path / "tokenizer.model"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="belongs to another tokenizer"):
        extended_model(file, mistral_tokenizer)


def test_new_pieces_score_below_all_old_ones_in_order(
    mistral_model_file, mistral_tokenizer, telugu, tmp_path
):
    target = expand_tokenizer(mistral_tokenizer, telugu, 50)
    file = tmp_path / "tokenizer.model"
    file.write_bytes(extended_model(mistral_model_file, target))
    scores = [piece.score for piece in read_model(file).pieces]
    assert max(scores[32_000:]) < min(scores[:32_000])
    assert scores[32_000:] == sorted(set(scores[32_000:]), reverse=True)
    assert [piece.type for piece in read_model(file).pieces[32_000:]] == [1] * 50


def test_unused_ids_become_unused_pieces(mistral_model_file, mistral_tokenizer, telugu):
    state = json.loads(mistral_tokenizer.backend_tokenizer.to_str())
    padding = {**state["added_tokens"][1], "content": "<pad>", "id": 32_005}
    state["added_tokens"].append(padding)
    state["model"]["vocab"]["<pad>"] = 32_005
    tokenizer = fast_tokenizer(state, settings_of(mistral_tokenizer) | {"pad_token": "<pad>"})
    target = expand_tokenizer(tokenizer, telugu, 20)
    data = extended_model(mistral_model_file, target)
    library = sentencepiece.SentencePieceProcessor(model_proto=data)
    assert library.is_unused(32_000) and library.id_to_piece(32_005) == "<pad>"
    assert library.encode(telugu) == fast_ids(target, telugu)


def test_a_saved_tokenizer_reads_back_with_identical_ids(
    smollm2_tokenizer, telugu, english, tmp_path
):
    target = expand_tokenizer(smollm2_tokenizer, telugu, 50)
    files = save_tokenizer(target, tmp_path / "out", samples=telugu[:20])
    again = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert again.get_vocab() == target.get_vocab()
    assert again([*telugu, *english])["input_ids"] == target([*telugu, *english])["input_ids"]
    assert again.chat_template == smollm2_tokenizer.chat_template
    assert sorted(files) == sorted(path.name for path in (tmp_path / "out").iterdir())
