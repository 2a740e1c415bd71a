"""Trains SentencePiece models, BPE and Unigram, with the SentencePiece library."""

import io
import re
from collections.abc import Iterable, Mapping, Sequence

from lexigraft.errors import UserError

# Fixed, so that the sums of Unigram's training are the same on every machine.
_THREADS = 8
# The library drops longer sentences, by default from 4,192 bytes on, and says so only in its log.
_LONGEST = 100_000_000
_TOO_MANY = re.compile(r"Vocabulary size too high.*<= (\d+)")
_TOO_FEW = re.compile(r"Vocabulary size is smaller than required_chars\. \d+ vs (\d+)")


def train_sentencepiece(
    texts: Iterable[str],
    kind: str,
    size: int,
    unknown: str,
    special: Sequence[str],
    roles: Mapping[str, str],
) -> bytes:
    """Train a SentencePiece model with exactly `size` pieces.

    As the models of Llama 2, Mistral and Gemma are: the text is left as it is (no normalization, so
    that it comes back byte for byte), a space is put before the first word, digits stand alone,
    runs of spaces may be pieces, and characters without a piece fall back to their bytes.

    Parameters
    ----------
    texts
        Read once; line feeds separate sentences.
    kind
        `bpe` or `unigram`.
    unknown
        The piece for unknown characters, which the bytes make unnecessary; its id is 0.
    special
        Control pieces, in the order of their ids, which follow.
    roles
        Which of them begin and end a text and fill up batches: `bos_token`, `eos_token`,
        `pad_token`.

    Returns
    -------
    bytes
        What a `tokenizer.model` holds.

    Raises
    ------
    UserError
        The texts are empty, or too small for so many pieces, or `size` leaves no room for their
        characters.
    """
    import sentencepiece

    sentences = (line for text in texts for line in text.split("\n") if line.strip())
    first = next(sentences, None)
    if first is None:
        raise UserError("the corpus is empty: no text has a word to learn tokens from")
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_chained(first, sentences),
            model_writer=buffer,
            model_type=kind,
            vocab_size=size,
            byte_fallback=True,
            character_coverage=0.9995,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            add_dummy_prefix=True,
            split_digits=True,
            allow_whitespace_only_pieces=True,
            max_sentence_length=_LONGEST,
            unk_id=0,
            unk_piece=unknown,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            control_symbols=list(special),
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(str(error), size) or error from None
    return _with_roles(buffer.getvalue(), special, roles)


def _chained(first: str, others: Iterable[str]) -> Iterable[str]:
    yield first
    yield from others


def _explained(message: str, size: int) -> UserError | None:
    if found := _TOO_MANY.search(message):
        return UserError(
            f"size: asked for {size} tokens, but the text yields only {found[1]}; ask for fewer or "
            "give more text"
        )
    if found := _TOO_FEW.search(message):
        return UserError(
            f"size: {size} tokens are too few: special tokens, bytes and the characters of the "
            f"text alone are {found[1]}; ask for more"
        )
    return None


def _with_roles(data: bytes, special: Sequence[str], roles: Mapping[str, str]) -> bytes:
    """The model with the pieces named that begin and end a text, for readers of the file alone."""
    from sentencepiece import sentencepiece_model_pb2

    # The class is made at run time, out of sight of the type checker.
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(data)
    for role in ("bos", "eos", "pad"):
        piece = roles.get(f"{role}_token")
        if piece in special:
            setattr(model.trainer_spec, f"{role}_piece", piece)
            setattr(model.trainer_spec, f"{role}_id", special.index(piece) + 1)
    return model.SerializeToString()
