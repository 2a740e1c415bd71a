"""Prompts: templates in each language, examples before a question, texts that are cut to fit."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexigraft.artifacts.atomic import write_jsonl
from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import (
    Frame,
    few_shot_prompts,
    fit_texts,
    question_frame,
    summarization_frame,
    translation_frame,
)
from lexigraft.evaluation.tasks.summarization import SummarizationSettings
from lexigraft.evaluation.texts import examples_and_tests
from lexigraft.inference.text_encoding import encode
from tests.conftest import package_folder

FOLDER = Path(__file__).resolve().parent.parent.parent / "config" / "prompts"
LANGUAGES = ["ar", "de", "el", "hi", "ja", "my", "si", "sw", "te", "th"]


def job_of(language, name=""):
    return {"inputs": {"prompts": FOLDER}, "language": language, "language_name": name}


def translation(language="hi", name="Hindi", prompt="instruction", into_english=False):
    return translation_frame(job_of(language, name), prompt, into_english=into_english)


# ---- templates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_the_paper_has_its_instructions(language):
    instruction, sentence = translation(language).fill("The sentence.").split("\n")
    assert instruction.endswith(":") and not instruction.endswith("::")
    assert "Translate" not in instruction
    assert sentence == "The sentence. ="
    before, after = summarization_frame(job_of(language)).parts
    assert "\n" not in before + after and "{" not in before + after
    assert before.endswith(": ") and before.count(":") == after.count(":") == 1
    assert before != summarization_frame(job_of("yo")).parts[0]


@pytest.mark.parametrize(
    ("frame", "text", "prompt"),
    [
        (translation("yo"), "Hello", "Translate English to Yoruba:\nHello ="),
        (
            translation("te", "Telugu", into_english=True),
            "{source} నమస్తే",
            "Translate Telugu to English:\n{source} నమస్తే =",
        ),
        (translation("sw", "Swahili", "names"), "Good {day}", "English: Good {day}\nSwahili:"),
        (translation(prompt="cw2v", into_english=True), "x", "Hindi: x\nEnglish: "),
        (
            summarization_frame(job_of("sw")),
            "Habari.",
            "Andika muhtasari mfupi wa maandishi yafuatayo kwa Kiswahili. Makala: Habari. "
            "Muhtasari:",
        ),
        (
            summarization_frame(job_of("ta")),
            "x",
            "Write a short summary of the following text in Tamil. Article: x Summary:",
        ),
        (
            summarization_frame(job_of("ta"), "cw2v"),
            "x",
            "Tamil article: x\nTamil summary:",
        ),
    ],
)
def test_a_frame_is_filled_with_a_text_whose_braces_are_kept(frame, text, prompt):
    assert frame.fill(text) == prompt


def test_named_prompts_have_what_precedes_and_separates_their_examples():
    """VocADT's code joins its examples with one line feed, CW2V's with an empty line."""
    assert [translation(prompt=name).between for name in ("names", "cw2v", "instruction")] == [
        "\n",
        "\n\n",
        "\n\n",
    ]
    starts = [
        translation(prompt="cw2v", into_english=True).start,
        summarization_frame(job_of("ta"), "cw2v").start,
        question_frame(job_of("ta"), "ta", "cw2v").start,
    ]
    assert starts[0] == "Translate this from Hindi into English:\n\n"
    assert starts[1].startswith("Summarize the following Tamil article(s)")
    assert starts[2].endswith("given passage.")
    assert translation().start == summarization_frame(job_of("sw")).start == ""


@pytest.mark.parametrize("frame_of", [
    lambda name: translation(prompt=name),
    lambda name: summarization_frame(job_of("ta"), name),
    lambda name: question_frame(job_of("ta"), "ta", name),
])  # fmt: skip
def test_the_error_about_an_unknown_prompt_suggests_a_similar_name(frame_of):
    with pytest.raises(UserError, match=r"'cw2w' is not known; did you mean 'cw2v'"):
        frame_of("cw2w")


def test_a_language_without_instruction_and_name_is_named():
    for frame_of in (translation, lambda language: summarization_frame(job_of(language))):
        with pytest.raises(UserError, match="language 'xx' has neither"):
            frame_of("xx")


# ---- examples ----------------------------------------------------------------------------------

ROWS = [{"id": f"r{at}", "source": f"word {'x' * at}", "target": f"λέξη {'ψ' * at}"}
        for at in range(1, 21)]  # fmt: skip


def drawn(job, *, tests=ROWS, pool=None, shots=3):
    if pool is not None:
        folder = Path(job["outputs"]["folder"])
        write_jsonl(folder / "test_set.jsonl", pool)
        job["inputs"]["test_sets"] = {"shots": {"greek": str(folder)}}
    return examples_and_tests(job, tests, shots, ("source", "target"))


def test_a_test_that_equals_an_example_is_left_out(make_job):
    tests = [*ROWS, {"id": "alike", "source": "Another", "target": "ΛΈΞΗ, ψψ!"}]
    for run in range(8):
        job = make_job("translation", run=run)
        examples, remaining = drawn(job, tests=tests, pool=ROWS, shots=10)
        names = {row["id"] for row in remaining}
        assert names.isdisjoint(row["id"] for row in examples)
        assert ("alike" in names) == all(row["id"] != "r2" for row in examples)


@pytest.mark.parametrize(
    ("shots", "message"),
    [
        (21, "shots is 21, but there are only 20 examples"),
        (20, "examples leave none of 20 tests; lower it"),
    ],
)
def test_too_many_shots_are_an_error(make_job, shots, message):
    with pytest.raises(UserError, match=message):
        drawn(make_job("translation"), shots=shots)


def test_a_prompt_is_the_instruction_the_examples_with_answers_and_the_question(byte_tokenizer):
    examples = [("a", "one: ", "ένα"), ("b", "two: ", " δύο\n ή  περισσότερα ")]
    frame, queries = Frame("Say.\n\n", (), "\n"), ["three: ", "q" * 40]
    prompts = few_shot_prompts(byte_tokenizer(), frame, queries, examples, 70)
    assert prompts.texts == [
        "Say.\n\none: ένα\ntwo: δύο ή περισσότερα\nthree: ",
        "Say.\n\n" + "q" * 40,
    ]
    assert prompts.details["before_examples"] == "Say.\n\n"
    without = few_shot_prompts(byte_tokenizer(), Frame("", ()), ["x"], [], 3)
    assert without == (["x"], [0], {})


def test_the_first_examples_are_dropped_for_a_long_question(byte_tokenizer):
    examples = [("e1", "a" * 10, "b"), ("e2", "c" * 10, "d")]  # of 14 bytes each
    queries = ["q" * 2, "q" * 3, "q" * 16, "q" * 17, "q" * 40]
    # The limit is a start token and 30 bytes.
    prompts = few_shot_prompts(byte_tokenizer(), Frame("", ()), queries, examples, 31)
    assert prompts.shots == [2, 1, 1, 0, 0]
    assert prompts.texts[1] == "c" * 10 + " d\n\n" + "qqq"
    assert prompts.texts[4] == "q" * 40
    details = prompts.details
    assert (details["prompts_with_fewer_shots"], details["shots_per_prompt"]) == (4, 4 / 5)
    completed = [
        "".join(example["text"] for example in details["examples"][2 - shots :]) + query
        for query, shots in zip(queries, prompts.shots, strict=True)
    ]
    assert completed == prompts.texts


# ---- texts that are cut to fit -----------------------------------------------------------------

ARTICLE = "Η κυβέρνηση ανακοίνωσε νέο σχέδιο. " * 30


@pytest.fixture(scope="session")
def llama2_tokenizer():
    """Llama 2's byte-fallback BPE, which puts a space in front and a special token before that."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    folder = package_folder("wordllama") / "wordllama" / "tokenizers"
    backend = Tokenizer.from_file(str(folder / "l2_supercat_tokenizer_config.json"))
    return PreTrainedTokenizerFast(tokenizer_object=backend)


@pytest.fixture(scope="session", params=["smollm2_tokenizer", "llama2_tokenizer"])
def tokenizer(request):
    """A real tokenizer that knows few letters of these scripts and cuts the others into bytes."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def fit(model, make_job, tokenizer):
    def build(article, limit, positions=100_000):
        model.config.max_position_embeddings = positions
        job = make_job("summarization")
        limits = SummarizationSettings(max_prompt_tokens=limit, max_new_tokens=16)
        frame = summarization_frame(job)
        texts = [("an article", article, frame.around())]
        [text], limit = fit_texts(model, tokenizer, job, limits, texts)
        return text, limit

    return build


def lengths(tokenizer, texts):
    parts = summarization_frame(job_of("el")).parts
    return [len(ids) for ids in encode(tokenizer, [text.join(parts) for text in texts])]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    article=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=40),
    limit=st.integers(75, 150),
)
def test_a_truncated_article_is_nearly_the_longest_that_fits(article, limit, fit, tokenizer):
    try:
        text, _ = fit(article, limit)
    except UserError:
        return
    prefixes = [article[:end] for end in range(len(article) + 1)]
    fitting = [
        prefix
        for prefix, length in zip(prefixes, lengths(tokenizer, prefixes), strict=True)
        if length <= limit
    ]
    assert text in fitting
    # White space goes with what it would have led to, and a character is never cut in two.
    assert len(fitting[-1].rstrip()) - len(text) <= 3


def test_the_context_of_the_model_limits_a_prompt_and_leaves_room_for_the_answer(fit, tokenizer):
    text, limit = fit(ARTICLE, 4096, positions=300)
    assert lengths(tokenizer, [text])[0] <= limit == 284


@pytest.mark.parametrize(("limit", "positions"), [(20, 100_000), (4096, 40)])
def test_a_limit_without_room_for_an_article_is_an_error(limit, positions, fit):
    with pytest.raises(UserError, match="has no room for an article"):
        fit(ARTICLE, limit, positions)
