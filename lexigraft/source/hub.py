"""Models and tokenizers by name: on the Hugging Face hub, in a local folder, or in a package."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import errors, snapshot_download
from transformers import PreTrainedTokenizerFast

from lexigraft.artifacts.cards import folder_of
from lexigraft.artifacts.checksums import MODEL_ENDINGS
from lexigraft.errors import UserError, first_line
from lexigraft.source.hub_check import is_folder
from lexigraft.source.model import open_tokenizer
from lexigraft.source.sentencepiece import sentencepiece_to_fast

# Weights that cannot run code, and the text files next to them; nothing from subfolders, which
# hold copies for other programs, and not the second copy of the weights in Mistral's repositories.
WANTED = [f"*{ending}" for ending in MODEL_ENDINGS]
_UNWANTED = ["*/*", "consolidated*"]
# `vocab.txt` is used for BERT, which `config.json` identifies.
TOKENIZER = [
    "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "*.jinja", "vocab.txt",
    "config.json",
]  # fmt: skip


def resolve(spec: Mapping[str, Any], patterns: list[str] = WANTED) -> tuple[Path, str | None]:
    """The folder and the commit of a model; a hub model is downloaded if it is not in the cache.

    `spec` is `{"hub": "org/name", "revision": …}`, where the revision is a branch, a tag or a
    commit and is optional, or `{"folder": path}`, whose commit is None; the path may end in
    `MODEL_FILES`. `patterns` are those of the files to download: `WANTED`, or `TOKENIZER` for the
    tokenizer alone. Raises a `UserError` if the model does not exist, cannot be accessed, or is not
    in the cache and the hub cannot be reached.
    """
    if "folder" in spec:
        path = folder_of(spec["folder"])
        folder = Path(path).expanduser().resolve()
        if not folder.is_dir():
            raise UserError(f"source folder {path}: there is no such folder")
        return folder, None
    name, revision = spec["hub"], spec.get("revision")
    try:
        snapshot = snapshot_download(
            name, revision=revision, allow_patterns=patterns, ignore_patterns=_UNWANTED
        )
        return Path(snapshot), Path(snapshot).name
    except errors.GatedRepoError:
        reason = "access is restricted; accept its terms on the hub and run `hf auth login`"
    except errors.RevisionNotFoundError:
        reason = "the repository has no such revision"
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such repository, or it is private; run `hf auth login` if it is"
    except errors.LocalEntryNotFoundError as error:
        reason = _answer(error.__cause__) or (
            "not in the cache, and the hub cannot be reached; check the network, or unset "
            "HF_HUB_OFFLINE if it is set, or give a local folder as `folder`"
        )
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        reason = _answer(error) or first_line(error)
    except errors.HTTPError as error:  # from the library's connections
        reason = (
            f"the download was interrupted ({type(error).__name__}); run again, complete files "
            "are kept"
        )
    subject = f"{name} at revision {revision}" if revision else name
    raise UserError(f"source hub {subject}: {reason}")


def _answer(error: BaseException | None) -> str:
    """The hub's error answer and what to do; empty if it gave no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"the hub refuses access ({status}); run `hf auth login`"
    return f"the hub returned status {status}; try again later" if status else ""


def resolve_place(
    place: str, revision: str | None = None, wanted: list[str] = WANTED
) -> tuple[Path, str | None]:
    """Like `resolve`, for a model in one string: a folder, a hub name, or NAME@REVISION."""
    if is_folder(place):
        return resolve({"folder": place})
    name, _, pinned = place.partition("@")
    return resolve({"hub": name, "revision": revision or pinned or None}, wanted)


def find_tokenizer(
    settings: Mapping[str, Any], package: str | Path | None = None
) -> tuple[PreTrainedTokenizerFast, str | None]:
    """The tokenizer of one entry of config/tokenizers.yaml, without its model, and its commit.

    `settings` is a `spec` of `resolve`, whose folder may be that of a source, or
    `{"package": name, "file": path in it}`: a `tokenizer.json` or a SentencePiece model with any
    file name in the folder `package`.
    """
    if "package" not in settings:
        folder, commit = resolve(settings, TOKENIZER)
        return open_tokenizer(folder), commit
    if package is None:
        raise UserError(
            f"tokenizer package {settings['package']}: the job specifies no input package"
        )
    file = Path(package) / settings["file"]
    if not file.is_file():
        raise UserError(f"tokenizer file {file.name}: not in package {settings['package']}")
    with file.open("rb") as opened:
        is_json = opened.read(1) == b"{"
    if not is_json:
        return sentencepiece_to_fast(file), None
    try:
        return PreTrainedTokenizerFast(tokenizer_file=str(file)), None
    # The tokenizers library raises bare Exception for a file that it cannot parse.
    except Exception as error:
        raise UserError(f"tokenizer file {file}: not a tokenizer ({first_line(error)})") from error
