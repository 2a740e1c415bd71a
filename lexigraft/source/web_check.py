"""Check the files of a study that are on the web; nothing is downloaded."""

from lexigraft.addresses import without_secrets
from lexigraft.errors import UserError
from lexigraft.source.download import RefusedError, Remote, ask_file
from lexigraft.source.hub_check import GATED, MISSING, NO_ANSWER, OK, HubAnswer

CHANGED = "changed"


def ask_web(url: str, recorded: Remote | None = None) -> HubAnswer:
    """Query a server for a file; `recorded` is its answer at the download, if it was fetched."""
    try:
        remote = ask_file(url)
    except RefusedError as error:
        if error.status in (401, 403):
            return HubAnswer(GATED, f"the server denies access ({error.status})")
        return HubAnswer(MISSING, f"the server returned status {error.status}")
    except UserError as error:
        return HubAnswer(NO_ANSWER, str(error).removeprefix(f"{without_secrets(url)}: "))
    if recorded and any(
        None not in pair and pair[0] != pair[1]
        for pair in ((recorded.bytes, remote.bytes), (recorded.etag, remote.etag))
    ):
        detail = "the file on the server differs from the downloaded one"
        return HubAnswer(CHANGED, detail, remote.bytes)
    return HubAnswer(OK, "", remote.bytes)
