"""The token that begins a text, for tokenizers of the shapes of real model families."""

import json
import math

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lexigraft.errors import UserError
from lexigraft.inference.text_encoding import encode
from lexigraft.source.document_start import document_start, start_ids
from lexigraft.source.model import open_tokenizer
from lexigraft.source.preparation import prepare_source
from lexigraft.source.saving import save_model
from lexigraft.source.start_comparison import _ENGLISH
from lexigraft.source.tokenizer import ROLES, load_tokenizer
from lexigraft.vocabulary.expand import expand_tokenizer
from lexigraft.vocabulary.prune import prune_tokenizer
from lexigraft.vocabulary.tokenizer_settings import take_tokenizer
from lexigraft.vocabulary.train import train_tokenizer

TEXT, CHAT = "<|endoftext|>", ("<|im_start|>", "<|im_end|>")
# Special tokens in the order of their ids, their roles, the one that the tokenizer adds before a
# text, and the one that begins a text.
SHAPES = {
    "llama-2": (["<unk>", "<s>", "</s>"], ["<s>", "</s>"], "<s>", "<s>"),
    "llama-3": (
        ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
        ["<|begin_of_text|>", "<|eot_id|>"], "<|begin_of_text|>", "<|begin_of_text|>",
    ),
    "gpt-2": ([TEXT], [TEXT, TEXT], None, TEXT),
    "smollm2": ([TEXT, *CHAT], [*CHAT], None, TEXT),
    "smollm3": (["<|begin_of_text|>", "<|end_of_text|>", *CHAT], [None, CHAT[1]], None,
                "<|end_of_text|>"),
    "qwen": ([*CHAT, TEXT], [None, CHAT[1]], None, TEXT),
    "phi-4": ([TEXT, *CHAT], [TEXT, CHAT[1]], None, TEXT),
    "bloom": (["<unk>", "<s>", "</s>", "<pad>"], ["<s>", "</s>"], None, "</s>"),
    "phi-3": (["<s>", "</s>", TEXT, "<|end|>"], ["<s>", TEXT], None, TEXT),
    "mpt chat": ([TEXT, *CHAT], [TEXT, CHAT[1]], None, TEXT),
    "unknown names": (["<begin>", "<end>"], ["<begin>", "<end>"], None, "<end>"),
    "none": ([], [None, None], None, ""),
}  # fmt: skip


def roles_of(bos, eos):
    return {name: role for name, role in (("bos_token", bos), ("eos_token", eos)) if role}


@pytest.fixture(scope="session", params=SHAPES)
def shape(request, special_tokenizer):
    """A tokenizer, the token that it adds before a text, and the token that begins a text."""
    special, roles, adds, begins = SHAPES[request.param]
    return special_tokenizer(*special, adds=adds, **roles_of(*roles)), adds, begins


@pytest.fixture(scope="session")
def chat_folder(special_tokenizer, tiny_llama, tmp_path_factory):
    """A random Llama with SmolLM2's special tokens, in a folder."""
    folder = tmp_path_factory.mktemp("chat") / "model"
    tokenizer = special_tokenizer(TEXT, *CHAT, bos_token=CHAT[0], eos_token=CHAT[1])
    tiny_llama(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def begins(tokenizer, text="one two"):
    """The special token that `encode` puts before a text, which is otherwise unchanged."""
    (ids,) = encode(tokenizer, [text])
    plain = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert ids[len(ids) - len(plain) :] == plain
    return "".join(tokenizer.convert_ids_to_tokens(ids[: len(ids) - len(plain)]))


def test_a_text_begins_with_the_separator_of_pretraining(shape):
    tokenizer, adds, expected = shape
    assert begins(tokenizer) == document_start(tokenizer) == expected
    assert bool(start_ids(tokenizer)) == (expected != "" and adds is None)


def test_every_vocabulary_and_every_export_keeps_the_token(shape, english, telugu, tmp_path):
    tokenizer, _, expected = shape
    tokenizer.save_pretrained(tmp_path)
    made = {
        "reloaded": load_tokenizer(tmp_path),
        "expanded": expand_tokenizer(tokenizer, telugu[:50], 5),
        "pruned": prune_tokenizer(tokenizer, english[:2]),
        "trained": train_tokenizer(english, "byte-level-bpe", 290, tokenizer),
        "trained pieces": train_tokenizer(english, "sentencepiece-bpe", 400, tokenizer),
    }
    assert {name: begins(each) for name, each in made.items()} == dict.fromkeys(made, expected)


def test_a_token_that_a_source_names_is_kept_by_its_vocabularies(
    chat_folder, tmp_path, telugu, tiny_llama
):
    prepare_source({"folder": str(chat_folder), "document_start": CHAT[0]}, tmp_path / "named")
    named = open_tokenizer(tmp_path / "named")
    expanded = expand_tokenizer(named, telugu[:50], 5)
    expanded.save_pretrained(tmp_path / "expanded")
    save_model(tiny_llama(len(expanded)), expanded, tmp_path / "exported")
    folders = [tmp_path / "expanded", tmp_path / "exported"]
    every = [named, expanded, *map(open_tokenizer, folders)]
    assert [begins(each) for each in every] == [CHAT[0]] * 4
    assert begins(load_tokenizer(chat_folder)) == TEXT


def test_a_token_that_the_tokenizer_lacks_is_refused(chat_folder, tmp_path):
    with pytest.raises(UserError, match=r"source x: document_start '<doc>' is not a token"):
        prepare_source({"folder": str(chat_folder), "document_start": "<doc>"}, tmp_path / "x")


def test_a_folder_that_asks_for_bos_begins_texts_with_it(special_tokenizer, tmp_path):
    """transformers 5 ignores `add_bos_token` if tokenizer.json adds none."""
    from transformers import AutoTokenizer

    tokenizer = special_tokenizer("<begin>", "<end>", bos_token="<begin>", eos_token="<end>")
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"add_bos_token": True}))
    assert AutoTokenizer.from_pretrained(tmp_path)("a")["input_ids"][0] != 0
    assert begins(load_tokenizer(tmp_path)) == "<begin>"


@pytest.mark.parametrize("name", SHAPES)
def test_a_taken_tokenizer_begins_texts_as_the_source_does(name, special_tokenizer, english):
    special, roles, adds, expected = SHAPES[name]
    source = special_tokenizer(*special, adds=adds, **roles_of(*roles))
    other = special_tokenizer("<unk>", "<s>", "</s>", bos_token="<s>", eos_token="</s>")
    # Its own token of the same name or role, otherwise the source's.
    counterparts = dict(zip(roles, ("<s>", "</s>"), strict=True))
    known = expected in ("", *other.get_vocab())
    wanted = expected if known else counterparts.get(expected, expected)
    assert begins(take_tokenizer(other, source)) == wanted


@pytest.mark.parametrize("adds", [None, "<start>"])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("roles", [("unk",), ("pad",), ("unk", "pad", "mask", "bos", "eos")])
def test_no_taken_tokenizer_begins_texts_with_an_unknown_padding_or_mask_token(
    role, roles, adds, special_tokenizer
):
    """SmolLM2's document start is its unknown token, and Qwen's its padding token."""
    chat = {"bos_token": CHAT[0], "eos_token": CHAT[1]}
    source = special_tokenizer("<start>", *CHAT, adds=adds, **chat | {role: "<start>"})
    source.init_kwargs["document_start"] = "<start>"
    own = {f"{name}_token": f"<{name}>" for name in roles}
    taken = take_tokenizer(special_tokenizer(*own.values(), **own), source)
    reserved = {taken.unk_token, taken.pad_token, taken.mask_token} - {None}
    start = document_start(taken)
    if role in ("unk_token", "pad_token", "mask_token"):
        assert begins(taken) == start == "<start>"
    else:
        assert begins(taken) == start and start and start not in reserved


def test_a_start_that_is_worse_than_another_is_reported(chat_folder, tmp_path, caplog):
    settings = {"folder": str(chat_folder)}
    _, facts = prepare_source(settings, tmp_path / "first")
    measured = facts["document_start_bits_per_byte"]
    assert {TEXT, *CHAT, ""} <= measured.keys()
    worst = max({TEXT, *CHAT}, key=measured.__getitem__)
    with caplog.at_level("WARNING"):
        _, facts = prepare_source(settings | {"document_start": worst}, tmp_path / "second")
    assert facts["document_start_bits_per_byte"] == measured
    best = min(measured.values())
    assert (f"texts begin with '{worst}'" in caplog.text) == (best < 0.99 * measured[worst])


def test_the_comparison_equals_plain_transformers(chat_folder, tmp_path):
    _, facts = prepare_source({"folder": str(chat_folder)}, tmp_path / "x")
    model = AutoModelForCausalLM.from_pretrained(chat_folder)
    tokenizer, nats = AutoTokenizer.from_pretrained(chat_folder), 0.0
    for text in _ENGLISH:
        ids = tokenizer(TEXT + text, return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, :2] = -100  # the token that begins the text, and the first one after it
        with torch.no_grad():
            nats += model(ids, labels=labels).loss.item() * (ids.shape[1] - 2)
    expected = nats / math.log(2) / sum(map(len, _ENGLISH))
    assert facts["document_start_bits_per_byte"][TEXT] == pytest.approx(expected, abs=6e-4)


def test_a_token_beside_the_tokenizers_own_is_refused(whole_source, tmp_path):
    from tokenizers.processors import TemplateProcessing

    tokenizer = load_tokenizer(whole_source)
    token = tokenizer.convert_ids_to_tokens(1)
    tokenizer.add_special_tokens({"bos_token": token})
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{token} $A", special_tokens=[(token, 1)]
    )
    tokenizer.save_pretrained(whole_source)
    settings = {"folder": str(whole_source), "document_start": "a"}
    with pytest.raises(UserError, match="tokenizer itself begins every text with"):
        prepare_source(settings, tmp_path / "x")
