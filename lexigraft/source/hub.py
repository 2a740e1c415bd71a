"""Where a source model lies: on the Hugging Face hub, or in a local folder of the same layout."""

from collections.abc import Mapping
from pathlib import Path

from lexigraft.errors import UserError

# Weights that cannot run code, and the text files beside them; nothing from subfolders, which
# hold copies for other programs, and not Mistral's second copy of the weights.
WANTED = ["*.safetensors", "*.json", "*.model", "*.txt", "*.jinja"]
_UNWANTED = ["*/*", "consolidated*"]
_TOKENIZER = ["tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "*.jinja"]


def resolve(spec: Mapping[str, str]) -> tuple[Path, str | None]:
    """The folder of a source model, fetched from the hub where it is not in the cache yet.

    Parameters
    ----------
    spec
        `{"hub": "org/name", "revision": …}`, where the revision is a branch, a tag or a commit
        and may be left out, or `{"folder": path}`.

    Returns
    -------
    folder, commit
        The commit is None for a local folder.

    Raises
    ------
    UserError
        No such folder; no such repository or revision, or no access to it; or it is not in the
        cache and the hub cannot be reached (`HF_HUB_OFFLINE=1` forbids it).
    """
    if "folder" in spec:
        folder = Path(spec["folder"]).expanduser().resolve()
        if not folder.is_dir():
            raise UserError(f"source folder {spec['folder']}: there is no such folder")
        return folder, None
    return _fetch(spec["hub"], spec.get("revision"))


def resolve_place(place: str, revision: str | None = None) -> tuple[Path, str | None]:
    """The folder of a model that is named by one word, see `resolve`.

    Parameters
    ----------
    place
        A hub name; or a folder, which begins with `/`, `.` or `~`.
    revision
        Of the hub: a branch, a tag or a commit.
    """
    return resolve({"folder": place}) if is_folder(place) else _fetch(place, revision)


def resolve_tokenizer(place: str, revision: str | None = None) -> tuple[Path, str | None]:
    """As `resolve_place`, but nothing is fetched except the files of the tokenizer."""
    return resolve({"folder": place}) if is_folder(place) else _fetch(place, revision, _TOKENIZER)


def is_folder(place: str) -> bool:
    """Whether a place is a folder, which begins with `/`, `.` or `~`, or else a hub name."""
    return place.startswith(("/", ".", "~"))


def _fetch(repository: str, revision: str | None, wanted: list[str] = WANTED) -> tuple[Path, str]:
    from huggingface_hub import errors, snapshot_download

    named = f"source hub {repository}" + (f" at revision {revision}" if revision else "")
    try:
        folder = Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=wanted,
                ignore_patterns=_UNWANTED,
            )
        )
    except errors.GatedRepoError:
        reason = "access is restricted; accept its terms on the hub and run `hf auth login`"
    except errors.RevisionNotFoundError:
        reason = "the repository has no such revision"
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such repository, or it is private; run `hf auth login` if it is"
    except errors.LocalEntryNotFoundError:
        reason = (
            "not in the cache, and the hub cannot be reached; check the network, or unset "
            "HF_HUB_OFFLINE if it is set, or give a local folder as `folder`"
        )
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        reason = str(error).splitlines()[0]
    else:
        return folder, folder.name
    raise UserError(f"{named}: {reason}")
