"""SentencePiece models, and their conversion to fast tokenizers that segment identically."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from lexigraft.errors import UserError

# Piece types of sentencepiece_model.proto.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


def read_model(model_file: str | Path) -> Any:
    """The protocol buffer of a model file."""
    try:
        return parse_model(Path(model_file).read_bytes(), str(model_file))
    except OSError as error:
        raise UserError(f"{model_file}: not a SentencePiece model ({error})") from None


def parse_model(data: bytes, name: str) -> Any:
    """Parse the content of a model file, called `name` in messages, as a protocol buffer.

    Raises `UserError` if it is not a SentencePiece model (BPE or Unigram) with byte fallback.
    """
    # The class is created at run time and unknown to the type checker.
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise UserError(f"{name}: not a SentencePiece model ({error})") from None
    kind = _kind(model)
    if kind not in ("BPE", "UNIGRAM") or not any(piece.type == BYTE for piece in model.pieces):
        raise UserError(
            f"{name}: a SentencePiece model of kind "
            f"{kind}{' without byte pieces' if kind in ('BPE', 'UNIGRAM') else ''}; only BPE and "
            "Unigram with byte fallback are supported"
        )
    return model


def sentencepiece_to_fast(model_file: str | Path) -> PreTrainedTokenizerFast:
    """A fast tokenizer that segments like the SentencePiece library with `model_file`.

    Like the library, it adds no special tokens. The converters of transformers 5 lose the space
    before the first word, or differ on texts that begin with spaces. One difference remains:
    `tokenizers` inserts a space after a special or user-defined piece inside a text.
    """
    model = read_model(model_file)
    control = {piece.piece for piece in model.pieces if piece.type == CONTROL}
    pieces = {name: getattr(model.trainer_spec, f"{name}_piece") for name in ("bos", "eos", "pad")}
    roles = {f"{name}_token": piece for name, piece in pieces.items() if piece in control}
    unknown = _unknown(model)[1]
    return PreTrainedTokenizerFast(tokenizer_object=pipeline(model), unk_token=unknown, **roles)


def pipeline(model: Any) -> Tokenizer:
    """Normalizer, model and decoder of `sentencepiece_to_fast`, without the roles of tokens."""
    tokenizer = Tokenizer(_unigram(model) if _kind(model) == "UNIGRAM" else _bpe(model))
    tokenizer.normalizer = _normalizer(model.normalizer_spec)
    strip = [decoders.Strip(" ", 1, 0)] if model.normalizer_spec.add_dummy_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    tokenizer.add_tokens(
        [
            AddedToken(piece.piece, normalized=False, special=piece.type != USER_DEFINED)
            for piece in model.pieces
            if piece.type in (UNKNOWN, CONTROL, USER_DEFINED)
        ]
    )
    return tokenizer


def splits(piece: str, tokens: Collection[str]) -> Iterator[tuple[str, str]]:
    """All pairs of tokens whose concatenation is `piece`."""
    for length in range(1, len(piece)):
        left, right = piece[:length], piece[length:]
        if left in tokens and right in tokens:
            yield left, right


def _kind(model: Any) -> str:
    return model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)


def _unknown(model: Any) -> tuple[int, str]:
    """Id and text of the piece for unknown characters."""
    return next((n, piece.piece) for n, piece in enumerate(model.pieces) if piece.type == UNKNOWN)


def _bpe(model: Any) -> models.BPE:
    """A BPE model whose merges are all splits of all pieces, best score first.

    Among pieces of equal score (runs of spaces), the pair with the longer left part goes first, so
    that runs are merged from the left, as in the library.
    """
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    ranked = [
        (-score, -len(left), -len(right), left, right)
        for piece, score in scores.items()
        for left, right in splits(piece, scores)
    ]

    return models.BPE(
        vocab={piece.piece: number for number, piece in enumerate(model.pieces)},
        merges=[(left, right) for *_, left, right in sorted(ranked)],
        unk_token=_unknown(model)[1],
        fuse_unk=True,
        byte_fallback=True,
    )


def _unigram(model: Any) -> models.Unigram:
    # `tokenizers` has no piece types: text that spells a byte or control piece would become that
    # piece, whose score in the file is 0, the best of all.
    lowest = min(piece.score for piece in model.pieces) - 1e6
    pieces = [
        (piece.piece, piece.score if piece.type in (NORMAL, USER_DEFINED) else lowest)
        for piece in model.pieces
    ]
    return models.Unigram(pieces, unk_id=_unknown(model)[0], byte_fallback=True)


def _normalizer(settings: Any) -> Any:
    steps: list[Any] = []
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))
    if settings.remove_extra_whitespaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
