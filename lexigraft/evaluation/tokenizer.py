"""How one tokenizer cuts a language's text: no model, and no second tokenizer to compare with.

The numbers of over-fragmentation in papers 000 (Figure 3), 001 (Figures 3 and 6), 002 (Table 9) and
004 (Table 3).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from lexigraft.errors import UserError
from lexigraft.evaluation.encoding import plain_ids
from lexigraft.evaluation.fragmentation import rates
from lexigraft.vocabulary.reachability import unreachable
from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


class Cut(NamedTuple):
    """What was measured, and the tokens of each text, by which two tokenizers are compared."""

    metrics: dict[str, float | int]
    tokens: list[int]


def cut_by(
    tokenizer: "PreTrainedTokenizerFast",
    *,
    texts: Sequence[str],
    english: Sequence[str] = (),
    train: Sequence[str] = (),
) -> Cut:
    """Measure how a tokenizer cuts texts.

    Parameters
    ----------
    tokenizer
        Any fast tokenizer.
    texts
        Sentences of the language.
    english
        Of each of them the English that it translates, or none at all.
    train
        More text of the language, to find the tokens that it has no use for.

    Returns
    -------
    Cut
        Of `texts`: `tokens_per_sentence`; `fertility`, tokens per word between spaces;
        `bytes_per_token` (UTF-8); `characters_per_token`; `unknown_tokens`, the share of tokens
        that stand for text which the tokenizer cannot write, which makes all other numbers look
        better than they are. Of `english`: `english_tokens_per_sentence`, and `english_parity`,
        tokens of the texts per token of their English. Of the tokenizer: `size`, all tokens;
        `unreachable_tokens`, the share that no text is cut into (`reachability`); `unused_tokens`,
        the share that `train` is not cut into. Both shares are of tokens that are not special.
        Metrics whose text is empty are left out. Special tokens never count.

    Raises
    ------
    UserError
        The texts have no words.
    """
    words = sum(len(text.split()) for text in texts)
    if not words:
        raise UserError("there are no words to measure; give the language more text")
    lengths: list[int] = []
    unknown = 0
    for ids in plain_ids(tokenizer, texts):
        lengths.append(len(ids))
        unknown += ids.count(tokenizer.unk_token_id)
    tokens = sum(lengths)
    ordinary = set(tokenizer.get_vocab().values()) - special_ids(tokenizer)
    metrics: dict[str, float | int] = {
        **rates(tokens, texts, words),
        "unknown_tokens": unknown / tokens,
        "size": len(tokenizer),
        "unreachable_tokens": len(unreachable(tokenizer) & ordinary) / len(ordinary),
    }
    if english:
        original = sum(map(len, plain_ids(tokenizer, english)))
        metrics["english_tokens_per_sentence"] = original / len(english)
        metrics["english_parity"] = tokens / original
    if train:
        used = {token for ids in plain_ids(tokenizer, train) for token in ids}
        metrics["unused_tokens"] = len(ordinary - used) / len(ordinary)
    return Cut(metrics, lengths)
