"""How tokenizers split text: a single tokenizer, and a vocabulary before and after adaptation.

No model is needed. Over-fragmentation is measured as in Yamaguchi et al. (Figure 3), VocADT
(Figures 3 and 6), SALT (Table 9) and CW2V (Table 3).
"""

import operator
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import islice
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.cards import versions
from lexigraft.corpus.lines import corpus_sentences
from lexigraft.corpus.mixture import MEASURED, read_part
from lexigraft.corpus.sampling import StreamSample
from lexigraft.errors import UserError
from lexigraft.evaluation.task_kinds import TRANSLATIONS
from lexigraft.evaluation.texts import group_rows, member_sentences, new_token_ids, task_rows
from lexigraft.inference.text_encoding import tokenize
from lexigraft.source.hub import find_tokenizer
from lexigraft.source.model import open_tokenizer
from lexigraft.vocabulary.token_bytes import lost_text, special_ids, token_bytes, unreachable

_BEGINNING = 10_000_000  # number of training texts from which the measured ones are drawn


def fragmentation_record(job: dict[str, Any]) -> dict[str, Any]:
    """The record of an adapted vocabulary, with a measurement for each language of a group.

    `inputs` of the job are the folders `source`, `tokenizer` and `corpus`; `cell` identifies it.
    """
    corpus, adapted = job["inputs"]["corpus"], job["inputs"]["tokenizer"]
    source, target = open_tokenizer(job["inputs"]["source"]), open_tokenizer(adapted)
    new = new_token_ids(adapted)
    texts = {name: corpus_sentences(corpus, name) for name in ("heldout", "english")}
    texts["train"] = _sample(read_part(corpus))
    pairs = [(pair["source"], pair["target"]) for pair in task_rows(corpus, TRANSLATIONS)]
    members = {
        member: fragmentation(source, target, new=new, heldout=lines)
        for member, lines in member_sentences(corpus).items()
    }
    return {
        **job["cell"],
        "metrics": fragmentation(source, target, new=new, **texts, parallel=pairs),
        "members": members,
        "details": {name: len(lines) for name, lines in texts.items()}
        | {"parallel": len(pairs), "source_size": len(source), "size": len(target)},
        "settings": job["settings"],
        "versions": versions(),
    }


def tokenizer_record(job: dict[str, Any]) -> dict[str, Any]:
    """The record of a tokenizer in the registry on the text of one language.

    Keys of `job`: `settings`, the tokenizer's entry; `inputs`, folders `corpus` and, if the
    tokenizer is in one, `package`; `tokenizer` and `language`, names.
    """
    corpus = job["inputs"]["corpus"]
    tokenizer, commit = find_tokenizer(job["settings"], job["inputs"].get("package"))
    # Translations have the same content in every language.
    pairs = task_rows(corpus, TRANSLATIONS)
    texts = [pair["target"] for pair in pairs] or corpus_sentences(corpus, "heldout")
    train = _sample(read_part(corpus))
    english = [pair["source"] for pair in pairs]
    measured = measure_tokenizer(tokenizer, texts=texts, english=english, train=train)
    return {
        "tokenizer": job["tokenizer"],
        "language": job["language"],
        "metrics": measured.metrics,
        "details": {
            "texts": len(texts),
            "translated": bool(pairs),
            "train": len(train),
            # Resampled by a bootstrap; for many texts, sums over groups.
            "tokens": [sum(group) for group in group_rows(measured.tokens)],
        },
        "commit": commit,
        "settings": job["settings"],
        "versions": versions(),
    }


def fragmentation(
    source: PreTrainedTokenizerFast,
    target: PreTrainedTokenizerFast,
    *,
    new: Set[int],
    heldout: Sequence[str],
    english: Sequence[str] = (),
    train: Sequence[str] = (),
    parallel: Sequence[tuple[str, str]] = (),
) -> dict[str, float | int]:
    """Compare how the tokenizers of a source model and of the adapted model segment the same texts.

    `new` are the ids of new tokens. `heldout` are target-language sentences that nothing was fitted
    on, `train` sentences from which the new tokens were learned, `parallel` pairs of an English
    sentence and its translation. Metrics, without those whose text is empty; special tokens do not
    count:

    - for `target` on the held-out text, and for `source` with the prefix `source_`: `fertility`,
      tokens per word between spaces (in scripts without spaces, a sentence is one word: use
      `characters_per_token`); `tokens_per_sentence`; `bytes_per_token` (UTF-8);
      `characters_per_token`; and on `train`: `train_tokens_per_sentence`;
    - `new_token_share_input`, the share of held-out tokens that are new; `unused_new_tokens`, the
      share of new tokens that do not occur in the training text; and `new_tokens`, their number;
    - for `english`: `english_sentences_changed`, the share of sentences that are segmented
      differently (the space before a word aside), and `english_tokens_growth`, the relative growth
      in tokens (0: none, -0.1: a tenth fewer);
    - for pairs: `english_parity`, tokens of the translations per token of their English, and
      `source_english_parity`.

    Raises `UserError` if the held-out text has no words.
    """
    token_ids = list(tokenize(target, heldout))
    tokens = sum(map(len, token_ids))
    source_rates = _rates(source, _count(source, heldout), heldout)
    metrics: dict[str, float | int] = {
        **_rates(target, tokens, heldout),
        **{f"source_{name}": rate for name, rate in source_rates.items()},
        "new_tokens": len(new),
        "new_token_share_input": sum(token in new for ids in token_ids for token in ids) / tokens,
    }
    tokenizers = {"": target, "source_": source}
    if train:
        for prefix, tokenizer in tokenizers.items():
            length = _count(tokenizer, train) / len(train)
            metrics[f"{prefix}train_tokens_per_sentence"] = length
    if train and new:
        metrics["unused_new_tokens"] = 1 - len(_used(target, train) & new) / len(new)
    if english:
        before, after = list(tokenize(source, english)), list(tokenize(target, english))
        changed = map(operator.ne, _pieces(source, before), _pieces(target, after))
        metrics["english_sentences_changed"] = sum(changed) / len(english)
        metrics["english_tokens_growth"] = sum(map(len, after)) / sum(map(len, before)) - 1
    if parallel:
        originals, translations = zip(*parallel, strict=True)
        for prefix, tokenizer in tokenizers.items():
            parity = _count(tokenizer, translations) / _count(tokenizer, originals)
            metrics[f"{prefix}english_parity"] = parity
    return metrics


class TokenizerMeasurement(NamedTuple):
    """Metrics, and the number of tokens of each text, by which two tokenizers are compared."""

    metrics: dict[str, float | int]
    tokens: list[int]


def measure_tokenizer(
    tokenizer: PreTrainedTokenizerFast,
    *,
    texts: Sequence[str],
    english: Sequence[str] = (),
    train: Sequence[str] = (),
) -> TokenizerMeasurement:
    """Measure how a fast tokenizer segments the sentences of a language.

    `english` are the English originals of all `texts`, or empty; `train` is more text of the
    language. Metrics, without those whose text is empty:

    - for `texts`: those of `fragmentation`; `unknown_tokens`, the share of tokens for text that the
      tokenizer cannot represent; and `lost_text`, the share of the text that no token represents:
      both make all other numbers look better than they are;
    - for `english`: `english_tokens_per_sentence` and `english_parity`;
    - `size`, all tokens; `unreachable_tokens`, the share of tokens that no text produces; and
      `unused_tokens`, of those that do not occur in `train`, both without special tokens.

    Raises `UserError` if the texts have no words.
    """
    lengths: list[int] = []
    unknown = 0
    for ids in tokenize(tokenizer, texts):
        lengths.append(len(ids))
        unknown += ids.count(tokenizer.unk_token_id)
    tokens = sum(lengths)
    ordinary = set(tokenizer.get_vocab().values()) - special_ids(tokenizer)
    metrics: dict[str, float | int] = {
        **_rates(tokenizer, tokens, texts),
        "unknown_tokens": unknown / tokens,
        "lost_text": lost_text(tokenizer, texts),
        "size": len(tokenizer),
        "unreachable_tokens": len(unreachable(tokenizer) & ordinary) / len(ordinary),
    }
    if english:
        original = _count(tokenizer, english)
        metrics["english_tokens_per_sentence"] = original / len(english)
        metrics["english_parity"] = tokens / original
    if train:
        metrics["unused_tokens"] = len(ordinary - _used(tokenizer, train)) / len(ordinary)
    return TokenizerMeasurement(metrics, lengths)


def _rates(
    tokenizer: PreTrainedTokenizerFast, tokens: int, texts: Sequence[str]
) -> dict[str, float]:
    words = Counter(word for text in texts for word in text.split())
    if not words:
        raise UserError("the text has no words to measure; give the language more text")
    return {
        "fertility": tokens / words.total(),
        "word_fertility": _count(tokenizer, list(words)) / len(words),
        "tokens_per_sentence": tokens / len(texts),
        "bytes_per_token": sum(len(text.encode()) for text in texts) / tokens,
        "characters_per_token": sum(map(len, texts)) / tokens,
    }


def _sample(texts: Iterable[str]) -> list[str]:
    """A sample of training texts, the same for every tokenizer (SALT, Table 9)."""
    sample = StreamSample[str](MEASURED, ("fragmentation",))
    for text in islice(texts, _BEGINNING):
        sample.add(text, text)
    return sample.ordered()


def _count(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> int:
    return sum(map(len, tokenize(tokenizer, texts)))


def _used(tokenizer: PreTrainedTokenizerFast, texts: Sequence[str]) -> set[int]:
    return {token for ids in tokenize(tokenizer, texts) for token in ids}


def _pieces(tokenizer: PreTrainedTokenizerFast, texts: list[list[int]]) -> list[list[bytes]]:
    """The bytes of the tokens of each text, without white space at their ends.

    SentencePiece puts a space before the first word, WordPiece leaves spaces out.
    """
    pieces = [piece.strip() for piece in token_bytes(tokenizer)]
    return [[pieces[token] for token in ids if pieces[token]] for ids in texts]
