"""AutoTokenizer, in a process without lexigraft, loads the tokenizer that was written."""

import inspect
import json
import shutil
import sys

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)
from transformers.models.auto.tokenization_auto import (
    TOKENIZER_MAPPING_NAMES,
    tokenizer_class_from_name,
)

from lexigraft.errors import UserError
from lexigraft.source.document_start import document_start
from lexigraft.source.saving import write_tokenizer
from lexigraft.source.tokenizer import ROLES, load_tokenizer
from lexigraft.vocabulary.tokenizer_settings import take_tokenizer
from lexigraft.vocabulary.train import train_tokenizer
from tests.conftest import run_command

SENTENCES = [
    "All human beings are born free and equal, aren't they?  12,345 times",
    "Tiếng Việt: mọi người sinh ra đều được tự do",
    "Tie\u0302\u0301ng Vie\u0323\u0302t with marks of their own",
    "Все люди рождаются свободными и равными",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι",
    "يُولَدُ جميعُ الناسِ أحرارًا",
    "כָּל בְּנֵי אָדָם נוֹלְדוּ",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में",
    "మానవులందరూ స్వతంత్రులుగా జన్మించారు",
    "มนุษย์ทั้งหลายเกิดมามีอิสระ",
    "လူတိုင်းသည် တူညီ လွတ်လပ်သော",
    "ყველა ადამიანი იბადება თავისუფალი",
    "모든 인간은 태어날 때부터 자유로우며",
    "すべての人間は、生まれながらにして自由であり",
    "人人生而自由，在尊严和权利上一律平等。\n\n\tℹ️ 👩‍👩‍👧 </s> <s>",
]
# Model types whose default configuration is not valid: it needs the sizes of another model.
WITHOUT_CONFIG = {"gemma4_assistant"}
# Classes that read Unigram pieces by their position, or need another package.
WITHOUT_TINY_SOURCE = {"CamembertTokenizer", "PegasusTokenizer", "RoFormerTokenizer"}
# Attributes that are no setting: where the files were, and what only the pipeline of a class uses.
NO_SETTINGS = {"name_or_path", "add_prefix_space"}
TYPES = sorted(
    {*MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, *MODEL_FOR_MASKED_LM_MAPPING_NAMES} - WITHOUT_CONFIG
)
ONE_TYPE_PER_CLASS = list({TOKENIZER_MAPPING_NAMES.get(kind): kind for kind in TYPES}.values())
FAMILIES = ("byte-level-bpe", "sentencepiece-bpe")
# What transformers alone sees of each folder.
LOOK = """
import json, os, sys
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers import AutoTokenizer

assert "lexigraft" not in sys.modules
folders, trusted, sentences = json.load(sys.stdin)
seen = {}
for folder in folders:
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=folder in trusted)
    seen[folder] = [
        tokenizer(sentences)["input_ids"],
        tokenizer.batch_decode(tokenizer(sentences)["input_ids"], skip_special_tokens=True),
        {k: v for k, v in vars(tokenizer).items() if isinstance(v, str | int | list | None)},
        tokenizer.special_tokens_map,
    ]
assert "lexigraft" not in sys.modules
json.dump(seen, sys.stdout, default=str)
"""


def seen_by_transformers(folders, trusted=()):
    run = run_command(
        [sys.executable, "-I", "-c", LOOK],
        input=json.dumps([[*map(str, folders)], [*map(str, trusted)], SENTENCES]),
        check=True,
    )
    return json.loads(run.stdout)


def trained(family):
    """A tokenizer with another pre-tokenizer than any class of transformers."""
    tokenizer = train_tokenizer(SENTENCES * 5, family, 600)
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.eos_token
    return tokenizer


def check_written(folder, types):
    """A written tokenizer is the same beside models of these types, with and without trust.

    `types` are model types by the family of the tokenizer.
    """
    tokenizers, folders = {family: trained(family) for family in types}, []
    for family, tokenizer in tokenizers.items():
        for kind in [*types[family], "trusted"]:
            folders.append(folder / family / kind)
            folders[-1].mkdir(parents=True)
            config = {"model_type": kind.replace("trusted", "qwen2")}
            (folders[-1] / "config.json").write_text(json.dumps(config))
            write_tokenizer(tokenizer, folders[-1])
    seen = seen_by_transformers(folders, [path for path in folders if path.name == "trusted"])
    for path in folders:
        tokenizer = tokenizers[path.parent.name]
        ids, decoded, settings, roles = seen[str(path)]
        assert ids == tokenizer(SENTENCES)["input_ids"], path
        assert decoded == tokenizer.batch_decode(ids, skip_special_tokens=True), path
        assert settings["padding_side"] == "left", path
        assert roles == tokenizer.special_tokens_map, path


def test_a_written_tokenizer_is_the_same_for_models_of_every_class(tmp_path):
    """tests/more/test_architectures.py has all types of models."""
    check_written(tmp_path, dict.fromkeys(FAMILIES, ONE_TYPE_PER_CLASS))


def test_a_written_tokenizer_can_be_read_and_written_again(tmp_path):
    tokenizer, folders = trained("byte-level-bpe"), [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
        # The padding and truncation of earlier calls are no part of a tokenizer.
        tokenizer(SENTENCES, padding=True, truncation=True, max_length=5)
        write_tokenizer(tokenizer, folder)
        tokenizer = load_tokenizer(folder)
    files = [{file.name: file.read_text("utf-8") for file in each.iterdir()} for each in folders]
    assert files[0].keys() == files[1].keys() >= {"exported_tokenizer.py"}
    assert files[0]["tokenizer.json"] == files[1]["tokenizer.json"]
    assert json.loads(files[0]["tokenizer.json"])["truncation"] is None


def classes_of_tokenizers():
    """A model type of each class that reads `tokenizer.json`."""
    for kind in ONE_TYPE_PER_CLASS:
        name = TOKENIZER_MAPPING_NAMES.get(kind)
        if name and name not in WITHOUT_TINY_SOURCE:
            tokenizer_class = tokenizer_class_from_name(name)
            if issubclass(tokenizer_class, PreTrainedTokenizerFast):
                yield kind, tokenizer_class


def write_source(folder, kind, tokenizer_class, special):
    """A folder that leaves everything to the class of its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    pieces = dict.fromkeys([*special, "▁", *pre_tokenizers.ByteLevel.alphabet()])
    ids = {piece: number for number, piece in enumerate(pieces)}
    model = {
        "Unigram": lambda: models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0),
        "WordPiece": lambda: models.WordPiece(ids, unk_token=special[0]),
        "WordLevel": lambda: models.WordLevel(ids, unk_token=special[0]),
    }.get(getattr(tokenizer_class.model, "__name__", ""), lambda: models.BPE(ids, []))
    backend = Tokenizer(model())
    backend.add_special_tokens(special)
    backend.post_processor = processors.TemplateProcessing(single="$A")
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": kind}))


def test_what_a_source_leaves_to_its_class_is_written_out(tmp_path):
    pairs = {}
    for kind, tokenizer_class in classes_of_tokenizers():
        source, written = tmp_path / kind, tmp_path / f"{kind}-written"
        defaults = inspect.signature(tokenizer_class).parameters
        roles = [str(defaults[role].default) for role in ROLES if role in defaults]
        write_source(source, kind, tokenizer_class, roles or ["<unk>"])
        # Some classes add tokens without roles, which real sources have.
        known = AutoTokenizer.from_pretrained(source, trust_remote_code=False).all_special_tokens
        write_source(source, kind, tokenizer_class, known or ["<unk>"])
        written.mkdir()
        shutil.copyfile(source / "config.json", written / "config.json")
        write_tokenizer(load_tokenizer(source), written)
        pairs[str(source)] = str(written)
    assert len(pairs) > 25
    seen = seen_by_transformers([*pairs, *pairs.values()])
    for source, written in pairs.items():
        (_, _, of_class, roles), (_, _, settings, same_roles) = seen[source], seen[written]
        assert same_roles == {role: roles[role] for role in ROLES if role in roles}, source
        for name in settings.keys() - NO_SETTINGS:
            assert settings[name] == of_class[name], (source, name)


def test_a_tokenizer_that_auto_tokenizer_would_change_is_refused(monkeypatch, tmp_path):
    def lowercased(*args, **kwargs):
        from tokenizers import normalizers

        loaded = PreTrainedTokenizerFast.from_pretrained(*args, **kwargs)
        loaded.backend_tokenizer.normalizer = normalizers.Lowercase()
        return loaded

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lowercased)
    with pytest.raises(UserError, match="does not load the tokenizer as it was written"):
        write_tokenizer(trained("byte-level-bpe"), tmp_path)


# Classes with their own vocabulary files, and one without any.
PYTHON_CLASSES = ["PhobertTokenizer", "BertweetTokenizer", "ByT5Tokenizer"]


@pytest.fixture(params=PYTHON_CLASSES)
def of_python_class(request, tmp_path, roberta_folder):
    """An encoder's folder for which `AutoTokenizer` loads a class written in Python."""
    folder = shutil.copytree(roberta_folder, tmp_path / "model")
    (folder / "vocab.txt").write_text("".join(f"{letter} 1\n" for letter in "abcdefg"))
    (folder / "bpe.codes").write_text("#version: 0.2\n")
    file = folder / "tokenizer_config.json"
    # Early folders leave the roles to the class.
    file.write_text(json.dumps({"tokenizer_class": request.param}))
    loaded = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    assert not isinstance(loaded, PreTrainedTokenizerFast)
    return folder, loaded


def test_a_folder_of_a_class_written_in_python_loads_with_the_settings_of_the_class(
    of_python_class,
):
    folder, of_class = of_python_class
    tokenizer = load_tokenizer(folder)
    known = tokenizer.get_vocab()
    roles = {role: getattr(of_class, role) for role in ROLES}
    expected = {role: token for role, token in roles.items() if token in known}
    assert {role: getattr(tokenizer, role) for role in expected} == expected
    assert tokenizer.padding_side == of_class.padding_side
    assert (
        tokenizer("one two")["input_ids"]
        == Tokenizer.from_file(str(folder / "tokenizer.json")).encode("one two").ids
    )


def test_the_code_of_a_source_is_not_named(tmp_path):
    source, written = tmp_path / "source", tmp_path / "written"
    trained("byte-level-bpe").save_pretrained(source)
    file = source / "tokenizer_config.json"
    code = {"auto_map": {"AutoTokenizer": [None, "tokenization_own.OwnTokenizer"]}}
    file.write_text(json.dumps(json.loads(file.read_text()) | code))
    write_tokenizer(load_tokenizer(source), written)
    assert "auto_map" not in json.loads((written / "tokenizer_config.json").read_text())


def test_word_pieces_of_a_class_written_in_python_are_refused_in_one_line(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    named = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    with pytest.raises(UserError, match=r"has no tokenizer\.json"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_with_a_class_written_in_python_is_taken(of_python_class, special_tokenizer):
    source = special_tokenizer("<|endoftext|>", eos_token="<|endoftext|>")
    taken = take_tokenizer(load_tokenizer(of_python_class[0]), source)
    assert document_start(taken) == "</s>"
