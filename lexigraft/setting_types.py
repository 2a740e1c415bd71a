"""Types of settings that several parts of a study share: names, paths, counts and hub revisions."""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from lexigraft.cells import NAME


def check_path(path: str) -> str:
    """The path; raises a ValueError if no file system can have it."""
    if "\0" in path:
        raise ValueError("a path cannot contain a null character")
    encoded = path.encode()
    if len(encoded) > 4000 or max(map(len, encoded.split(b"/"))) > 255:
        raise ValueError("the path is longer than file systems allow; use a shorter one")
    return path


Name = Annotated[str, StringConstraints(pattern=f"^{NAME}$")]
Words = Annotated[str, StringConstraints(min_length=1)]
LocalPath = Annotated[Words, AfterValidator(check_path)]
Whole = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
HubName = Annotated[
    str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$")
]
Revision = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
# Kinds of models: they predict the next token, or masked tokens.
CAUSAL, MASKED = "causal", "masked"
