"""Saves a tokenizer as a folder that every consumer reads alike, fast or SentencePiece."""

import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lexigraft.atomic import PARTIAL
from lexigraft.errors import UserError
from lexigraft.source.sentencepiece import sentencepiece_to_fast
from lexigraft.vocabulary.sentencepiece_model import extended_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

ALWAYS = {"tokenizer.json", "tokenizer_config.json"}  # what every tokenizer is saved as
_MODEL = "tokenizer.model"


def save_tokenizer(
    tokenizer: "PreTrainedTokenizerFast",
    folder: str | Path,
    source_folder: str | Path | None = None,
    samples: Sequence[str] = (),
    model: bytes | None = None,
) -> list[str]:
    """Write the tokenizer to `folder`, with the `tokenizer.model` that belongs to it, if one does.

    Parameters
    ----------
    source_folder
        Folder of the tokenizer that was expanded. If it holds a `tokenizer.model`, that is extended
        too: left as it was beside an extended `tokenizer.json` it would silently give every
        SentencePiece consumer the old vocabulary.
    model
        The `tokenizer.model` of a SentencePiece tokenizer that was trained, not expanded.
    samples
        Texts on which the folder is tried before it counts: read back, it must give the ids of
        `tokenizer`, and `tokenizer.model` too (of an extended one, texts on which the source's two
        files differ already are left out).

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
        reloaded = AutoTokenizer.from_pretrained(written, trust_remote_code=False)
        for text in samples:
            if reloaded.encode(text) != tokenizer.encode(text):
                raise UserError(f"{folder}: read back, the tokenizer segments {text!r} differently")
        files = sorted(path.name for path in written.iterdir())
        if _MODEL not in files:
            (folder / _MODEL).unlink(missing_ok=True)
        for file in files:
            (written / file).replace(folder / file)
    return files


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
    blamed = [
        text
        for text in differing
        if source_library(text) == source_fast.encode(text, add_special_tokens=False)
    ]
    if blamed:
        raise UserError(
            f"{source}: extended, it segments {len(blamed)} of {len(samples)} samples differently "
            f"from the extended tokenizer.json, first {blamed[0]!r}"
        )
    logger.warning(
        "%s and the tokenizer.json beside it differ on %d of %d samples, as they did before",
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
