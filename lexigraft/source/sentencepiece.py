"""SentencePiece models: read, and turned into the fast tokenizer that segments like them."""

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError

if TYPE_CHECKING:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

# Piece types of sentencepiece_model.proto.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def read_model(model_file: str | Path) -> Any:
    """The model file as its protocol buffer.

    Raises
    ------
    UserError
        There is no such file, or it is not a SentencePiece model, BPE or Unigram, with bytes to
        fall back to.
    """
    try:
        return parse_model(Path(model_file).read_bytes(), str(model_file))
    except OSError as error:
        raise UserError(f"{model_file}: not a SentencePiece model ({error})") from None


def parse_model(data: bytes, name: str) -> Any:
    """The content of a model file as its protocol buffer; messages call it `name`.

    Raises
    ------
    UserError
        It is not a SentencePiece model, BPE or Unigram, with bytes to fall back to.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    # The class is made at run time, out of sight of the type checker.
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise UserError(f"{name}: not a SentencePiece model ({error})") from None
    kind = _kind(model)
    if kind not in ("BPE", "UNIGRAM") or not any(piece.type == BYTE for piece in model.pieces):
        raise UserError(
            f"{name}: a SentencePiece model of kind {kind}"
            f"{' without byte pieces' if kind in ('BPE', 'UNIGRAM') else ''}; only BPE and Unigram "
            "with byte fallback work"
        )
    return model


def sentencepiece_to_fast(model_file: str | Path) -> "PreTrainedTokenizerFast":
    """A fast tokenizer that segments as the SentencePiece library does with `model_file`.

    It adds no special tokens of its own accord, as the library does not; the pieces for unknown
    characters, begin and end of a text have their roles. Converters in transformers 5 lose the
    space before the first word, or differ on texts that begin with spaces. One difference is left,
    since `tokenizers` normalizes what follows an added token as a text of its own: behind a special
    or user-defined piece in the middle of a text it puts a space, where the library puts none.

    Raises
    ------
    UserError
        `model_file` is not a SentencePiece model, BPE or Unigram, with byte fallback.
    """
    from transformers import PreTrainedTokenizerFast

    model = read_model(model_file)
    control = {piece.piece for piece in model.pieces if piece.type == CONTROL}
    trainer = model.trainer_spec
    roles = {
        "bos_token": trainer.bos_piece,
        "eos_token": trainer.eos_piece,
        "pad_token": trainer.pad_piece,
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=pipeline(model),
        unk_token=unknown_piece(model),
        **{role: piece for role, piece in roles.items() if piece in control},
    )


def pipeline(model: Any) -> "Tokenizer":
    """Normalizer, model and decoder of `sentencepiece_to_fast`, without the roles of tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders

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


def unknown_piece(model: Any) -> str:
    """The piece that stands for unknown characters."""
    return next(piece.piece for piece in model.pieces if piece.type == UNKNOWN)


def splits(piece: str, tokens: Collection[str]) -> Iterator[tuple[str, str]]:
    """All ways to make `piece` out of two tokens."""
    for place in range(1, len(piece)):
        left, right = piece[:place], piece[place:]
        if left in tokens and right in tokens:
            yield left, right


def _kind(model: Any) -> str:
    return model.trainer_spec.ModelType.Name(model.trainer_spec.model_type)


def _bpe(model: Any) -> "models.BPE":
    from tokenizers import models

    return models.BPE(
        vocab={piece.piece: number for number, piece in enumerate(model.pieces)},
        merges=_merges_of(model),
        unk_token=unknown_piece(model),
        fuse_unk=True,
        byte_fallback=True,
    )


def _unigram(model: Any) -> "models.Unigram":
    from tokenizers import models

    # `tokenizers` knows no types of pieces: text that spells a byte's or a control piece would be
    # that piece, whose score in the file is 0, the best of all.
    lowest = min(piece.score for piece in model.pieces) - 1e6
    pieces = [
        (piece.piece, piece.score if piece.type in (NORMAL, USER_DEFINED) else lowest)
        for piece in model.pieces
    ]
    unknown = next(n for n, piece in enumerate(model.pieces) if piece.type == UNKNOWN)
    return models.Unigram(pieces, unk_id=unknown, byte_fallback=True)


def _merges_of(model: Any) -> list[tuple[str, str]]:
    """All splits of all pieces, best score first.

    Among pieces of equal score (runs of spaces) the pair with the longer left part goes first,
    which makes a run grow from its left end, as in the library.
    """
    scores = {piece.piece: piece.score for piece in model.pieces if piece.type == NORMAL}
    ranked = [
        (-score, -len(left), -len(right), left, right)
        for piece, score in scores.items()
        for left, right in splits(piece, scores)
    ]
    return [(left, right) for *_, left, right in sorted(ranked)]


def _normalizer(settings: Any) -> Any:
    from tokenizers import Regex, normalizers

    steps: list[Any] = []
    if settings.precompiled_charsmap:
        steps.append(normalizers.Precompiled(settings.precompiled_charsmap))
    if settings.remove_extra_whitespaces:
        steps += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    if settings.add_dummy_prefix:
        steps.append(normalizers.Prepend("▁"))
    return normalizers.Sequence([*steps, normalizers.Replace(" ", "▁")])
