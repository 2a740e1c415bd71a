import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import article_prompts, summarization_frame
from tests.conftest import package_folder

LANGUAGES = {"el": "Η κυβέρνηση ανακοίνωσε νέο σχέδιο. ", "my": "မြန်မာနိုင်ငံတွင် မိုးရွာသည်။ "}


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
    return len(tokenizer(text)["input_ids"])


def frame(make_job, language):
    return summarization_frame(make_job("summarization")["inputs"]["prompts"], language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_long_article_loses_its_end_and_keeps_instruction_and_label(
    language, prompts, make_job, tokenizer
):
    article = LANGUAGES[language] * 30
    before, after = frame(make_job, language)
    made = prompts([article], 400, language)
    [text], [kept] = made.texts, made.articles
    assert text == before + kept + after
    assert article.startswith(kept)
    assert 390 < length(tokenizer, text) <= 400
    assert (made.cut, made.limit) == (1, 400)


def test_an_article_that_fits_to_the_token_is_left_alone(prompts, make_job, tokenizer):
    articles = [LANGUAGES["el"] * 3, "Σύντομο."]
    tokens = length(tokenizer, articles[0].join(frame(make_job, "el")))
    whole = prompts(articles, tokens)
    assert (whole.articles, whole.cut) == (articles, 0)
    cut = prompts(articles, tokens - 1)
    assert cut.articles[0] != articles[0]
    assert (cut.articles[1], cut.cut) == (articles[1], 1)


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
def test_the_cut_is_nearly_the_longest_beginning_that_fits(
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


def test_the_models_positions_limit_a_prompt_too(prompts, tokenizer):
    made = prompts([LANGUAGES["el"] * 30], 4096, positions=300, new=16)
    assert made.limit == 284
    assert length(tokenizer, made.texts[0]) <= 284


@pytest.mark.parametrize(("limit", "positions"), [(20, 100_000), (4096, 40)])
def test_a_limit_without_room_for_an_article_is_told(limit, positions, prompts):
    with pytest.raises(UserError, match="has no room for an article"):
        prompts([LANGUAGES["el"] * 30], limit, positions=positions)
