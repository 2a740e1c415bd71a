"""A tokenizer without its model: found on the hub, in a folder, or in a package."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lexigraft.errors import UserError
from lexigraft.source.hub import resolve, resolve_tokenizer
from lexigraft.source.model import open_tokenizer
from lexigraft.source.sentencepiece import sentencepiece_to_fast

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast


def find_tokenizer(
    settings: Mapping[str, Any], package: str | Path | None = None
) -> tuple["PreTrainedTokenizerFast", str | None]:
    """Open the tokenizer of one entry of config/tokenizers.yaml.

    Parameters
    ----------
    settings
        `{"hub": "org/name", "revision": …}`, of which nothing is fetched except the tokenizer's
        files; `{"folder": path}`, with a `tokenizer.json` (a vocabulary's folder under `results/`
        is one) or of a source (`results/source/<name>`); or `{"package": name, "file": path in
        it}`, a `tokenizer.json` or a SentencePiece model, whatever it is called.
    package
        Where the package is unpacked.

    Returns
    -------
    tokenizer, commit
        The commit is None for folders and packages.

    Raises
    ------
    UserError
        It cannot be found, or is none of these.
    """
    if "package" in settings:
        if package is None:
            raise UserError(
                f"tokenizer package {settings['package']}: the job names no input package"
            )
        return _open_file(Path(package) / settings["file"], settings["package"]), None
    if "folder" in settings:
        folder, _ = resolve(settings)
        return open_tokenizer(folder), None
    folder, commit = resolve_tokenizer(settings["hub"], settings.get("revision"))
    return open_tokenizer(folder), commit


def _open_file(file: Path, package: str) -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    if not file.is_file():
        raise UserError(f"tokenizer file {file.name}: not in package {package}")
    with file.open("rb") as opened:
        is_json = opened.read(1) == b"{"
    if not is_json:
        return sentencepiece_to_fast(file)
    try:
        return PreTrainedTokenizerFast(tokenizer_file=str(file))
    # The tokenizers library raises bare Exception for a file that it cannot parse.
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"tokenizer file {file}: not a tokenizer ({reason})") from error
