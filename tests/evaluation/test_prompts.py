from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.evaluation.few_shot import article_prompts
from lexigraft.evaluation.prompts import (
    into_english_prompts,
    question_frame,
    summarization_frame,
    translation_prompts,
    translation_queries,
)
from lexigraft.inference.text_encoding import encode
from tests.conftest import package_folder

FOLDER = Path(__file__).resolve().parent.parent.parent / "config" / "prompts"
LANGUAGES = ["ar", "de", "el", "hi", "ja", "my", "si", "sw", "te", "th"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_the_paper_has_an_instruction_with_one_colon(language):
    [prompt] = translation_prompts(FOLDER, language, ["The sentence."])
    instruction, sentence = prompt.split("\n")
    assert len(instruction) > 10
    assert instruction.endswith(":")
    assert not instruction.endswith("::")
    assert "Translate" not in instruction
    assert sentence == "The sentence. ="


def test_another_language_gets_the_english_instruction_with_its_name():
    prompts = translation_prompts(FOLDER, "yo", ["Hello", "Bye"])
    assert prompts == [
        "Translate English to Yoruba:\nHello =",
        "Translate English to Yoruba:\nBye =",
    ]


def test_braces_in_a_sentence_are_kept():
    [prompt] = translation_prompts(FOLDER, "de", ["{count, plural} {source} {0}"])
    assert prompt.endswith("\n{count, plural} {source} {0} =")


def test_a_language_without_instruction_and_name_is_named():
    with pytest.raises(UserError, match="language 'xx' has neither"):
        translation_prompts(FOLDER, "xx", ["Hello"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_of_the_paper_has_a_template_on_one_line(language):
    _, (before, after) = summarization_frame(FOLDER, language)
    assert "\n" not in before + after
    assert "{" not in before + after
    assert before.endswith(": ")
    assert before.count(":") == after.count(":") == 1
    assert (after[0], after[-1]) == (" ", ":")
    assert before != summarization_frame(FOLDER, "yo")[1][0]


def test_the_prompt_is_instruction_label_article_and_label():
    first, (before, after) = summarization_frame(FOLDER, "sw")
    assert first == ""
    assert f"{before}Habari.{after}" == (
        "Andika muhtasari mfupi wa maandishi yafuatayo kwa Kiswahili. Makala: Habari. Muhtasari:"
    )


def test_other_languages_have_an_english_instruction_for_summaries():
    _, (before, after) = summarization_frame(FOLDER, "ta")
    assert before == "Write a short summary of the following text in Tamil. Article: "
    assert after == " Summary:"
    with pytest.raises(UserError, match="language 'xx' has neither"):
        summarization_frame(FOLDER, "xx")


def test_translation_into_english_has_an_english_instruction():
    prompts = into_english_prompts(FOLDER, "Telugu", ["{source}", "నమస్తే"])
    assert prompts == [
        "Translate Telugu to English:\n{source} =",
        "Translate Telugu to English:\nనమస్తే =",
    ]


def named_prompts(name, sentences, language="Hindi", into_english=False):
    job = {"inputs": {"prompts": FOLDER}, "language_name": language}
    return translation_queries(job, name, sentences, into_english=into_english)


def test_the_names_prompt_has_the_languages_before_sentence_and_answer():
    before, prompts = named_prompts("names", ["Good {day}"], "Swahili")
    assert (before, prompts) == ("", ["English: Good {day}\nSwahili:"])


def test_the_instruction_of_cw2v_precedes_all_examples():
    asked, prompts = named_prompts("cw2v", ["x"], into_english=True)
    assert asked == "Translate this from Hindi into English:\n\n"
    assert prompts == ["Hindi: x\nEnglish: "]
    asked, (before, after) = summarization_frame(FOLDER, "ta", "cw2v")
    assert asked.startswith("Summarize the following Tamil article(s)") and asked.endswith(".\n\n")
    assert f"{before}x{after}" == "Tamil article: x\nTamil summary:"
    asked, frame = question_frame(FOLDER, "ta", "cw2v")
    assert asked.endswith("given passage.")
    assert frame == ("Passage: ", "\nQuestion: ", "\nAnswer:")


@pytest.mark.parametrize("named", [
    lambda name: named_prompts(name, []),
    lambda name: summarization_frame(FOLDER, "ta", name),
    lambda name: question_frame(FOLDER, "ta", name),
])  # fmt: skip
def test_the_error_about_an_unknown_prompt_suggests_a_similar_name(named):
    with pytest.raises(UserError, match=r"'cw2w' is not known; did you mean 'cw2v'"):
        named("cw2w")


def test_a_question_has_the_labels_of_its_language_or_english_ones():
    assert question_frame(FOLDER, "de") == ("", ("Kontext: ", "\nFrage: ", "\nAntwort:"))
    assert question_frame(FOLDER, "mr") == ("", ("Context: ", "\nQuestion: ", "\nAnswer:"))


TRUNCATED_LANGUAGES = {"el": "Η κυβέρνηση ανακοίνωσε νέο σχέδιο. ", "my": "မြန်မာနိုင်ငံတွင် မိုးရွာသည်။ "}


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
def prompts(model, make_job, tokenizer):
    """Builds prompts for articles."""

    def build(articles, limit, language="el", positions=100_000, new=16):
        model.config.max_position_embeddings = positions
        job = make_job("summarization") | {"language": language}
        return article_prompts(
            model,
            tokenizer,
            job,
            articles,
            max_prompt_tokens=limit,
            max_new_tokens=new,
        )

    return build


def length(tokenizer, text):
    [ids] = encode(tokenizer, [text])
    return len(ids)


def frame(make_job, language):
    return summarization_frame(make_job("summarization")["inputs"]["prompts"], language)[1]


@pytest.mark.parametrize("language", TRUNCATED_LANGUAGES)
def test_a_long_article_loses_its_end_and_keeps_instruction_and_label(
    language, prompts, make_job, tokenizer
):
    article = TRUNCATED_LANGUAGES[language] * 30
    before, after = frame(make_job, language)
    made = prompts([article], 400, language)
    [text], [kept] = made.texts, made.articles
    assert text == before + kept + after
    assert article.startswith(kept)
    assert 390 < length(tokenizer, text) <= 400
    assert (made.truncated, made.limit) == (1, 400)


def test_an_article_that_fits_to_the_token_is_left_alone(prompts, make_job, tokenizer):
    articles = [TRUNCATED_LANGUAGES["el"] * 3, "Σύντομο."]
    tokens = length(tokenizer, articles[0].join(frame(make_job, "el")))
    whole = prompts(articles, tokens)
    assert (whole.articles, whole.truncated) == (articles, 0)
    cut = prompts(articles, tokens - 1)
    assert cut.articles[0] != articles[0]
    assert (cut.articles[1], cut.truncated) == (articles[1], 1)


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    article=st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=40),
    limit=st.integers(75, 150),
)
def test_a_truncated_article_is_nearly_the_longest_that_fits(
    article, limit, prompts, make_job, tokenizer
):
    ends = frame(make_job, "el")
    try:
        [kept] = prompts([article], limit).articles
    except UserError:
        return
    fits = [
        end
        for end in range(len(article) + 1)
        if length(tokenizer, article[:end].join(ends)) <= limit
    ]
    assert article.startswith(kept)
    assert length(tokenizer, kept.join(ends)) <= limit
    # White space goes with what it would have led to, and a character is never cut in two.
    assert len(article[: max(fits)].rstrip()) - len(kept) <= 3


def test_the_context_of_the_model_limits_a_prompt(prompts, tokenizer):
    made = prompts([TRUNCATED_LANGUAGES["el"] * 30], 4096, positions=300, new=16)
    assert made.limit == 284
    assert length(tokenizer, made.texts[0]) <= 284


@pytest.mark.parametrize(("limit", "positions"), [(20, 100_000), (4096, 40)])
def test_a_limit_without_room_for_an_article_is_an_error(limit, positions, prompts):
    with pytest.raises(UserError, match="has no room for an article"):
        prompts([TRUNCATED_LANGUAGES["el"] * 30], limit, positions=positions)
