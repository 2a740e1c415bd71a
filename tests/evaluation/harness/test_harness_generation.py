"""Generated answers to tasks of the harness, compared with a direct call of the harness."""

import copy
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import task_kind

# ChatML; the system turn is left out.
TEMPLATE = (
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{{ turn.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IFEVAL = {"english": ("ifeval", "ifeval")}
MGSM = {
    "telugu": ("mgsm_native_cot_te", "mgsm/native_cot"),
    "english": ("mgsm_native_cot_en", "mgsm/native_cot"),
}


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """Stand-ins for what IFEval imports: no test detects a language or splits sentences."""
    import nltk

    detection = SimpleNamespace(DetectorFactory=SimpleNamespace(seed=None))
    monkeypatch.setitem(sys.modules, "langdetect", detection)
    monkeypatch.setitem(sys.modules, "immutabledict", SimpleNamespace(immutabledict=dict))
    (tmp_path / "nltk" / "tokenizers" / "punkt_tab").mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path / "nltk")])
    monkeypatch.setattr(nltk, "download", lambda *names: pytest.fail(f"downloads {names}"))
    yield
    for name in [name for name in sys.modules if name.startswith("lm_eval.tasks.ifeval")]:
        del sys.modules[name]


@pytest.fixture(scope="session")
def chat_model(special_tokenizer, tiny_llama):
    """A random model that answers mostly in digits, and its tokenizer with a chat template."""
    tokenizer = special_tokenizer(
        "<s>", "</s>", "<|im_start|>", "<|im_end|>", adds="<s>", bos_token="<s>",
        eos_token="</s>", extra_special_tokens=["<|im_start|>", "<|im_end|>"],
    )  # fmt: skip
    tokenizer.chat_template = TEMPLATE
    model = tiny_llama(len(tokenizer), tied=False, seed=3)
    digits = {token for text, token in tokenizer.get_vocab().items() if text.isdigit()}
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(8)
        others = [token for token in range(len(tokenizer)) if token not in digits]
        model.get_output_embeddings().weight[others] *= 0.2
    return model, tokenizer


@pytest.fixture
def answered(chat_model, prepared, make_job, tmp_path):
    """`answered(tests, **settings)`: the measurement, and the rows that were written."""
    model, tokenizer = chat_model

    def run(tests, **settings):
        job = make_job("harness_generation", **settings)
        job["inputs"]["source"] = str(tmp_path / "source-tokenizer")
        tokenizer.save_pretrained(job["inputs"]["source"])
        job["inputs"]["benchmarks"] = {test: str(prepared(*name)) for test, name in tests.items()}
        Path(job["outputs"]["folder"]).mkdir(parents=True, exist_ok=True)
        measured = task_kind("harness_generation").evaluate(model, tokenizer, job)
        file = Path(job["outputs"]["predictions"])
        return measured, [json.loads(line) for line in file.read_text("utf-8").splitlines()]

    return run


@pytest.mark.parametrize(
    ("tests", "metric", "chat", "shots"),
    [
        (IFEVAL, "prompt_level_strict_acc", True, 0),
        (MGSM, "exact_match_flexible_extract", True, 1),
        (MGSM, "exact_match_strict_match", False, 1),
    ],
)
def test_answers_and_scores_are_those_of_the_harness(
    tests, metric, chat, shots, packages, answered, chat_model, by_hand
):
    settings = {"metric": metric, "chat": chat, "shots": shots, "max_new_tokens": 5}
    measured, rows = answered(tests, **settings)
    for test, name in tests.items():
        expected = by_hand(
            *copy.deepcopy(chat_model),
            *name,
            num_fewshot=shots,
            apply_chat_template=chat,
            fewshot_as_multiturn=chat,
            gen_kwargs={"max_gen_toks": 5},
        )
        samples = expected["samples"][name[0]]
        for row in (row for row in rows if row["test"] == test):
            answers = [sample for sample in samples if row["id"].endswith(f"-{sample['doc_id']}")]
            assert answers
            assert all(sample["arguments"][0][0] == row["prompt"] for sample in answers)
            assert all(sample["resps"] == [[row["output"]]] for sample in answers)
            assert row["prompt"].startswith("<|im_start|>") == chat
            assert row["source"] in row["prompt"] and row["output"]
        prefix = "english_" if test == "english" and len(tests) > 1 else ""
        scores = {
            key.replace(",none", "").replace(",", "_").replace("-", "_"): value
            for key, value in expected["results"][name[0]].items()
            if "," in key and "_stderr" not in key
        }
        assert measured.metrics[f"{prefix}accuracy"] == scores.pop(metric)
        for key, score in scores.items():
            assert measured.metrics[prefix + key] == score
    assert measured.details["unfinished_outputs"] == len(rows)


def test_ifeval_counts_prompts_and_instructions(packages, answered):
    """Digits follow "no commas", twice, but not "say yes": 1 of 2 prompts, 2 of 3 instructions."""
    measured, rows = answered(IFEVAL, metric="prompt_level_strict_acc", chat=True, max_new_tokens=9)
    assert [row["output"].count(",") + row["output"].count("yes") for row in rows] == [0, 0]
    assert measured.metrics == {
        "accuracy": 0.5, "inst_level_strict_acc": 2 / 3,
        "prompt_level_loose_acc": 0.5, "inst_level_loose_acc": 2 / 3,
    }  # fmt: skip
    assert [row["accuracy"] for row in rows] == [1, 0]
    assert [row["inst_level_strict_acc"] for row in rows] == [1, 0.5]
    assert sys.modules["langdetect"].DetectorFactory.seed == 0


def test_the_last_number_of_an_answer_counts(chat_model, prepared, tmp_path, monkeypatch):
    """The stop string ends an answer, and an answer that ends differently is wrong."""
    from lexigraft.evaluation.harness.scoring import GeneratingModel, score

    answers = {"1": "1 + 3 = 4. The answer is 4.", "2": "2 + 3 = 6\n\nQuestion: 5"}
    model = GeneratingModel(*chat_model, batch_size=None)

    def scripted_answers(generating, tokenizer, prompts, *, stop, max_new_tokens, **options):
        assert max_new_tokens == 256 and "Question:" in stop
        texts = [tokenizer.decode(ids) for ids in prompts.values()]
        texts = [answers[text.removeprefix("<s>Question: ")[0]] for text in texts]
        ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        return {
            name: SimpleNamespace(tokens=tokens, finished=True)
            for name, tokens in zip(prompts, ids, strict=True)
        }

    monkeypatch.setattr("lexigraft.evaluation.harness.scoring.generate", scripted_answers)
    options = {"shots": 0, "by_length": False, "seed": 0, "draw": lambda task, count: None}
    metrics, rows, _ = score(model, prepared(*MGSM["english"]), **options)
    assert metrics == {"exact_match_strict_match": 0.5, "exact_match_flexible_extract": 0.5}
    assert [row["output"] for row in rows] == [answers["1"], "2 + 3 = 6\n\n"]
    assert [row["reference"] for row in rows] == ["4", "5"]


def test_a_long_prompt_is_truncated_on_the_left(chat_model):
    from lm_eval.api.instance import Instance

    from lexigraft.evaluation.harness.scoring import GeneratingModel

    model, tokenizer = chat_model
    limit = model.config.max_position_embeddings
    text, answers = "ab " * limit, []
    tail = tokenizer.decode(tokenizer(text)["input_ids"][-(limit - 4) :])
    for prompt in (text, tail):
        generating = GeneratingModel(model, tokenizer, None, max_new_tokens=4)
        request = Instance("generate_until", {}, (prompt, {"until": []}), 0)
        answers += generating.generate_until([request])
    assert generating.counts["truncated_prompts"] == 1  # `tail` with <s>
    assert answers[0] == answers[1]


@pytest.mark.bad_input(
    "config",
    "a task of lm-evaluation-harness whose packages or data are missing, or of another kind",
    "rejected with a message that names what to install or change",
)
def test_what_ifeval_lacks_is_named_and_nothing_is_downloaded(
    packages, hub, prepared, chat_model, tmp_path, monkeypatch
):
    import nltk

    from lexigraft.evaluation.harness.benchmarks import prepare_benchmark
    from lexigraft.evaluation.harness.scoring import CellModel, score

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "langdetect", None)
        with pytest.raises(UserError, match="needs the package langdetect; run `pip install lang"):
            prepare_benchmark("ifeval", "ifeval", str(hub), tmp_path / "a")
        patch.setattr(nltk.data, "path", [])
        with pytest.raises(UserError, match=r"ifeval of .* needs NLTK's data; run "):
            prepare_benchmark("ifeval", "ifeval", str(hub), tmp_path / "b")
    options = {"shots": 0, "by_length": False, "seed": 0, "draw": lambda task, count: None}
    with pytest.raises(
        UserError, match="has output type generate_until; use kind harness_generation"
    ):
        score(CellModel(*chat_model, 1), prepared(*MGSM["english"]), **options)


def test_a_dialogue_keeps_its_text_and_special_tokens(smollm2_cut, telugu, english):
    from lexigraft.evaluation.harness.scoring import check_chat_template
    from lexigraft.vocabulary.expand import expand_tokenizer
    from lexigraft.vocabulary.prune import prune_tokenizer

    source = copy.deepcopy(smollm2_cut)
    source.chat_template = TEMPLATE
    expanded = expand_tokenizer(source, telugu, new_tokens=20)
    pruned = prune_tokenizer(source, english)
    for tokenizer in (expanded, pruned):
        check_chat_template(tokenizer, source)
    pruned.chat_template = TEMPLATE.replace("\n", " ")
    with pytest.raises(
        UserError, match=r"the text of a dialogue: .* but with the source's tokenizer"
    ):
        check_chat_template(pruned, source)
    expanded.chat_template = None
    with pytest.raises(UserError, match="chat: the tokenizer has no chat template; set chat"):
        check_chat_template(expanded, source)


def test_a_special_token_that_is_split_is_an_error(special_tokenizer):
    from lexigraft.evaluation.harness.scoring import check_chat_template

    source, without = special_tokenizer("<|im_start|>", "<|im_end|>"), special_tokenizer("<s>")
    source.chat_template = without.chat_template = TEMPLATE
    with pytest.raises(UserError, match=r"the special tokens of a dialogue: \[\], but with"):
        check_chat_template(without, source)
