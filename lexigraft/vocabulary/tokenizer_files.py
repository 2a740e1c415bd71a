"""Tokenizer folders whose `tokenizer.json` and `tokenizer.model` segment identically."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.atomic import PARTIAL
from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import (
    CONTROL,
    NORMAL,
    USER_DEFINED,
    read_model,
    sentencepiece_to_fast,
)
from lexigraft.vocabulary.bpe import read_bpe
from lexigraft.vocabulary.token_bytes import special_ids

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

_MODEL = "tokenizer.model"


def save_tokenizer(
    tokenizer: "PreTrainedTokenizerFast",
    folder: str | Path,
    source_folder: str | Path | None = None,
    samples: Sequence[str] = (),
    model: bytes | None = None,
) -> list[str]:
    """Write the tokenizer to `folder`, with its `tokenizer.model` if it has one.

    Parameters
    ----------
    source_folder
        Folder of the tokenizer that was expanded. Its `tokenizer.model`, if any, is extended too:
        an unchanged copy would give users of the SentencePiece library the old vocabulary without
        any warning.
    model
        The content of `tokenizer.model` for a SentencePiece tokenizer that was trained.
    samples
        Texts for a check before the files appear: the saved tokenizer must give the ids of
        `tokenizer`, and so must `tokenizer.model` (except on texts on which the two files of the
        source already differ).

    Returns
    -------
    list[str]
        Names of the files written.

    Raises
    ------
    UserError
        The source's `tokenizer.model` belongs to another tokenizer, or the files disagree on a
        sample.
    """
    from transformers import AutoTokenizer

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=PARTIAL) as name:
        written = Path(name)
        tokenizer.save_pretrained(written)
        if source_folder is not None and (source_file := Path(source_folder) / _MODEL).is_file():
            (written / _MODEL).write_bytes(extended_model(source_file, tokenizer))
            _check_extended(tokenizer, written / _MODEL, source_file, samples)
        elif model is not None:
            (written / _MODEL).write_bytes(model)
            _check_trained(tokenizer, written / _MODEL, samples)
        loaded = AutoTokenizer.from_pretrained(written, trust_remote_code=False)
        for text in samples:
            if loaded.encode(text) != tokenizer.encode(text):
                raise UserError(
                    f"{folder}: loaded again, the tokenizer segments {text!r} differently"
                )
        files = sorted(path.name for path in written.iterdir())
        if _MODEL not in files:
            (folder / _MODEL).unlink(missing_ok=True)
        for file in files:
            (written / file).replace(folder / file)
    return files


def extended_model(source_file: str | Path, tokenizer: "PreTrainedTokenizerFast") -> bytes:
    """The SentencePiece model of `source_file` with the additional tokens of `tokenizer`.

    If all new merges come after the old ones, new pieces score below the lowest old score, in the
    order of their ids. Otherwise (`auxiliary-first`) the position of its first merge becomes the
    score of every piece, including old ones, since the library merges in order of scores.

    Raises
    ------
    UserError
        `tokenizer` was not expanded from `source_file`.
    """
    model = read_model(source_file)
    bpe = read_bpe(tokenizer)
    tokens = sorted(bpe.vocab, key=bpe.vocab.__getitem__)
    old = [piece.piece for piece in model.pieces]
    for number, piece in enumerate(old):
        if tokens[number : number + 1] != [piece]:
            raise UserError(
                f"{source_file}: id {number} is {piece!r} here and another token in the tokenizer; "
                "the file belongs to another tokenizer"
            )
    place: dict[str, int] = {}
    for left, right in bpe.merges:
        place.setdefault(left + right, len(place))
    lowest = min(piece.score for piece in model.pieces)
    # Scores are 32-bit floats: far from zero, a step of one would be lost.
    step = max(1.0, abs(lowest) * 2.0**-22)
    special = special_ids(tokenizer)
    for number, token in enumerate(tokens[len(old) :]):
        added_type = CONTROL if number + len(old) in special else USER_DEFINED
        model.pieces.add(
            piece=token,
            score=lowest - (number + 1) * step,
            type=added_type if token in bpe.added else NORMAL,
        )
    known = set(old)
    first_new = min((rank for piece, rank in place.items() if piece not in known), default=None)
    last_old = max((rank for piece, rank in place.items() if piece in known), default=-1)
    if first_new is not None and first_new < last_old:
        for piece in model.pieces:
            if piece.type == NORMAL:
                piece.score = -float(place.get(piece.piece, len(place)))
    model.trainer_spec.vocab_size = len(model.pieces)
    return model.SerializeToString()


def _check_trained(
    tokenizer: "PreTrainedTokenizerFast", model: Path, samples: Sequence[str]
) -> None:
    """Compare a trained `tokenizer.model` with the fast tokenizer on the samples."""
    if differing := _differing(tokenizer, model, samples):
        raise RuntimeError(
            f"the SentencePiece library segments {len(differing)} of {len(samples)} samples "
            f"differently from the fast tokenizer, first {differing[0]!r}"
        )


def _differing(
    tokenizer: "PreTrainedTokenizerFast", model: Path, samples: Sequence[str]
) -> list[str]:
    library = _library(model)
    return [
        text
        for text in samples
        if library(text) != tokenizer.encode(text, add_special_tokens=False)
    ]


def _check_extended(
    tokenizer: "PreTrainedTokenizerFast", model: Path, source: Path, samples: Sequence[str]
) -> None:
    """Compare the extended `tokenizer.model` with the fast tokenizer on the samples."""
    differing = _differing(tokenizer, model, samples)
    if not differing:
        return
    source_library = _library(source)
    source_fast = _source_tokenizer(source)
    new = [
        text
        for text in differing
        if source_library(text) == source_fast.encode(text, add_special_tokens=False)
    ]
    if new:
        raise UserError(
            f"{source}: extended, it segments {len(new)} of {len(samples)} samples differently "
            f"from the extended tokenizer.json, first {new[0]!r}"
        )
    logger.warning(
        "%s and the tokenizer.json beside it differ on %d of %d samples, as before the expansion",
        source, len(differing), len(samples),
    )  # fmt: skip


def _source_tokenizer(model: Path) -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    if (model.parent / "tokenizer.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(model.parent)
    return sentencepiece_to_fast(model)


def _library(model: Path) -> Callable[[str], list[int]]:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_file=str(model)).encode
