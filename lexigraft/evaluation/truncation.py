"""Prompts for long articles: one that does not fit loses its end, never the words around it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.evaluation.prompts import summarization_frame
from lexigraft.source.positions import positions_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class ArticlePrompts:
    """Prompts to summarize articles.

    Attributes
    ----------
    texts
        The prompts.
    articles
        The articles as they stand in the prompts.
    limit
        Tokens that a prompt may have at most.
    cut
        How many articles are shorter than they were.
    """

    texts: list[str]
    articles: list[str]
    limit: int
    cut: int


def article_prompts(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerFast",
    job: dict[str, Any],
    articles: list[str],
    *,
    max_prompt_tokens: int,
    max_new_tokens: int,
    form: str = "summary",
) -> ArticlePrompts:
    """Prompts of at most `max_prompt_tokens`, special tokens included (paper 000, Appendix C.2).

    Where the model's context is shorter than that and `max_new_tokens` together, a prompt has as
    many tokens less: Llama 2 has 4,096 positions for both. A vocabulary that needs fewer tokens
    sees more of an article. `form` is what is asked for, see `prompts.summarization_frame`.

    Raises
    ------
    UserError
        The limit leaves no room for an article.
    """
    positions = positions_of(model)
    limit = max_prompt_tokens
    if positions is not None:
        limit = min(limit, positions - max_new_tokens)
    frame = summarization_frame(job["inputs"]["prompts"], job["language"], form)
    prompts = [article.join(frame) for article in articles]
    lengths = [len(ids) for ids in tokenizer(prompts, verbose=False)["input_ids"]]
    try:
        fitting = [
            article if length <= limit else beginning(tokenizer, article, frame, limit)
            for article, length in zip(articles, lengths, strict=True)
        ]
    except NoRoomError:
        raise UserError(
            f"config/tasks.yaml: task '{job['task']}': a prompt of {limit} tokens has no room for "
            f"an article (max_prompt_tokens {max_prompt_tokens}; the model holds {positions} "
            f"tokens, {max_new_tokens} of them new); change these or leave the task out"
        ) from None
    return ArticlePrompts(
        texts=[article.join(frame) for article in fitting],
        articles=fitting,
        limit=limit,
        cut=sum(one != other for one, other in zip(articles, fitting, strict=True)),
    )


class NoRoomError(Exception):
    """Even without any article the prompt is too long."""


def beginning(
    tokenizer: "PreTrainedTokenizerFast", article: str, frame: tuple[str, str], limit: int
) -> str:
    """The beginning of an article that fits between the parts of a frame, cut where a token begins.

    Tokens change where the text is cut, so the rest is counted again, until it fits.

    Raises
    ------
    NoRoomError
        Nothing of it fits.
    """
    begin = len(frame[0])
    while True:
        encoded = tokenizer(article.join(frame), return_offsets_mapping=True, verbose=False)
        excess = len(encoded["input_ids"]) - limit
        if excess <= 0:
            return article
        end = begin + len(article)
        places = [start for start, _ in encoded["offset_mapping"] if begin < start < end]
        article = article[: places[-excess] - begin].rstrip() if excess <= len(places) else ""
        if not article:
            raise NoRoomError
