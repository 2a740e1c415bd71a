"""Publish a model folder on the Hugging Face hub: select its files and upload them.

The user's token and `HF_ENDPOINT` are handled by huggingface_hub.
"""

import tempfile
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, errors, get_token

from lexigraft.errors import UserError
from lexigraft.model_card import FOLDER, README, front_matter
from lexigraft.source.saving import TOKENIZER_MODULE

# The files of a model that transformers and vLLM read, and its model card; not the files that
# record how it was built on this machine, such as `card.json` and `job.json`.
_FILES = (
    README, "LICENSE*", "NOTICE*", "config.json", "generation_config.json", "*.safetensors",
    "*.safetensors.index.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
    "chat_template.jinja", "additional_chat_templates/*.jinja", TOKENIZER_MODULE,
    "*.gguf", "adapter/adapter_config.json", "adapter/adapter_model.safetensors",
)  # fmt: skip
_NEEDED = (README, "config.json", "*.safetensors", "tokenizer.json")
# Keys of the front matter that the hub uses to find models and to show their terms and origin.
_EXPECTED = ("license", "base_model", "language")
_LOGIN = "run `hf auth login` with a token that has write permission, or set HF_TOKEN"


def published_files(folder: str | Path) -> dict[str, int]:
    """Names and sizes in bytes of the files of a model folder that are uploaded.

    Raises a UserError if it lacks a file that a model needs, or front matter in its README.md.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    if (folder / "changed.safetensors").is_file():
        raise UserError(
            f"{folder}: a cell of a study, which only lexigraft can load; export it as a model "
            "first: lexigraft export STUDY.yaml CELL --to FOLDER"
        )
    files = {
        str(file.relative_to(folder)): file.stat().st_size
        for file in sorted({file for pattern in _FILES for file in folder.glob(pattern)})
        if file.is_file()
    }
    for pattern in _NEEDED:
        if not any(fnmatch(name, pattern) for name in files):
            raise UserError(
                f"{folder}: contains no {pattern}; specify a folder written by lexigraft export, "
                "adapt or graft"
            )
    if not front_matter(folder):
        raise UserError(
            f"{folder / README}: its front matter, between lines of ---, is missing or is not "
            "YAML; the hub reads licence, language and source model there"
        )
    return files


def missing_keys(folder: str | Path) -> list[str]:
    """Keys that the hub shows and that the front matter of a folder's README.md lacks."""
    matter = front_matter(folder)
    return [key for key in _EXPECTED if not matter.get(key)]


def push(folder: str | Path, name: str, private: bool = False) -> str:
    """Upload the model in a folder to a repository on the hub; returns the URL of its page.

    `name` is `organisation/name`, or only `name` for the user's own namespace. A new repository is
    `private` or public; in an existing one, files with other names are kept. An interrupted upload
    resumes where it stopped.

    Raises a UserError if the folder is not a model (`published_files`), or if the hub refuses or
    cannot be reached.
    """
    files = published_files(folder)
    if constants.is_offline_mode():
        raise UserError("push: HF_HUB_OFFLINE is set, so nothing can be uploaded; unset it")
    if not get_token():
        raise UserError(f"push: there is no hub token; {_LOGIN}")
    api = HfApi()
    try:
        repository = api.create_repo(name, private=private or None, exist_ok=True)
        with tempfile.TemporaryDirectory() as staged:
            _stage(Path(folder), files, Path(staged), repository.repo_id)
            message = "Upload the model and its card"
            api.upload_folder(
                repo_id=repository.repo_id, folder_path=staged, commit_message=message
            )
    except errors.HFValidationError as error:
        raise UserError(f"push: '{name}' is not a valid repository name ({error})") from None
    except ValueError as error:  # the hub's validation of the model card, over several lines
        raise UserError(f"push {name}: {' '.join(str(error).split())}") from None
    except errors.HfHubHTTPError as error:
        raise UserError(f"push {name}: {_refusal(error)}") from None
    except (errors.HTTPError, OSError) as error:  # HTTPError: from the library's connections
        raise UserError(
            f"push {name}: {api.endpoint} cannot be reached ({type(error).__name__}); check "
            "the network and run the same command again, which resumes the upload"
        ) from None
    return str(repository)


def _stage(folder: Path, files: Iterable[str], staged: Path, name: str) -> None:
    """Create the folder to upload: links to the files, and the card with the repository's name."""
    for file in files:
        if file != README:
            (staged / file).parent.mkdir(exist_ok=True)
            (staged / file).symlink_to((folder / file).resolve())
    text = (folder / README).read_text(encoding="utf-8")
    example = text.replace(f'"{FOLDER}"', f'"{name}"')
    (staged / README).write_text(example, encoding="utf-8")


def _refusal(error: errors.HfHubHTTPError) -> str:
    """The hub's answer and what to do, in one line."""
    status = error.response.status_code
    if status == 401:
        return f"the hub does not recognize the token; {_LOGIN}"
    if status in (403, 404):
        return (
            f"the token has no write permission there ({status}); {_LOGIN}, or specify a "
            "repository of your own"
        )
    message = " ".join(str(error.server_message or "").split())
    return f"the hub returned status {status}{f' ({message})' if message else ''}; try again later"


def as_lines(files: Mapping[str, int]) -> list[str]:
    """Files with their sizes and the total, one per line."""
    rows: dict[str, Any] = {**files, "in all": sum(files.values())}
    width = max(map(len, rows))
    return [f"{name:{width}}  {_megabytes(size):>10}" for name, size in rows.items()]


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 50_000 else f"{size / 1e3:,.1f} kB"
