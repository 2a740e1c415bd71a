"""Parallel sentences from Kolibri's interface catalogues, one JSON file per component.

Catalogues contain ICU messages. Plural and select clauses are replaced by their `other` branch;
messages that still contain a placeholder, and those that are not translations, are dropped.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from lexigraft.corpus.loader import Inputs, Loader, Pair, Shard
from lexigraft.errors import UserError
from lexigraft.settings import Settings

_ENGLISH = "en"
_CLAUSE = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_OTHER_BRANCH = re.compile(r"\bother\s*\{")
# HTML, and the mathematical notation of the exercise viewer: $1/2$, \\text[pi].
_MARKUP = re.compile(r"<[^<>]*>|\$[^$]*\$|\\")
# The maximum share of Latin letters in another script; it allows for names and loan words.
_LATIN_SHARE = 0.5


class Catalogue(Settings):
    """Interface messages in a package, with their English originals."""

    loader: Literal["catalogue"]
    package: str = Field(description="a name of packages.yaml")
    locale: Annotated[str, StringConstraints(pattern="^[A-Za-z_0-9]+$")] = Field(
        description="folder of the language in the package"
    )


def read_catalogue(package: str | Path, locale: str) -> list[tuple[str, str]]:
    """Distinct (English, translation) pairs of one locale, in the order of the files.

    `package` is the folder of an unpacked Kolibri wheel, `locale` a folder of its `kolibri/locale`:
    te, el, my …; for en, both sides are English.
    """
    english, target = (_read_locale(Path(package), name) for name in (_ENGLISH, locale))
    # Whether the locale uses Latin letters; placeholder names, Latin in all locales, not counted.
    texts = (re.sub(r"\{[^{}]*\}", " ", text) for text in target.values())
    latin = _latin_share(" ".join(texts)) > _LATIN_SHARE
    pairs: dict[tuple[str, str], None] = {}
    for key, translation in target.items():
        source_text, target_text = plain_text(english.get(key, "")), plain_text(translation)
        if source_text is None or target_text is None:
            continue
        if source_text == target_text and locale != _ENGLISH:
            continue  # not translated
        if latin or _latin_share(target_text) <= _LATIN_SHARE:
            pairs[source_text, target_text] = None
    return list(pairs)


def plain_text(message: str) -> str | None:
    """The text of an ICU message, or None if it has placeholders or no letter.

    Plural and select clauses become their `other` branch. White space is normalized to single
    spaces, since the templates break lines arbitrarily.
    """
    while clause := _CLAUSE.search(message):  # inner ones included
        end = _closing_brace(message, clause.start())
        label = _OTHER_BRANCH.search(message, clause.end(), end) if end else None
        branch_end = _closing_brace(message, label.end() - 1) if label else None
        if end is None or label is None or branch_end is None:
            return None
        branch = message[label.end() : branch_end]
        if "#" in branch:  # placeholder of the number, which is unknown
            return None
        message = message[: clause.start()] + branch + message[end + 1 :]
    text = " ".join(message.split())
    if "{" in text or "}" in text or _MARKUP.search(text) or not any(map(str.isalpha, text)):
        return None
    return text


def _closing_brace(text: str, opening: int) -> int | None:
    depth = 0
    for offset in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[offset], 0)
        if depth == 0:
            return offset
    return None


def _read_locale(package: Path, locale: str) -> dict[tuple[str, str], str]:
    """Messages by (file name, key)."""
    folder = package / "kolibri" / "locale"
    files = sorted((folder / locale / "LC_MESSAGES").glob("*.json"))
    if not files:
        available = sorted(path.name for path in folder.glob("*") if path.is_dir())
        raise UserError(
            f"catalogue locale '{locale}': not in {folder}; available: "
            f"{', '.join(available) or 'none'}"
        )
    messages = {}
    for file in files:
        try:
            content = json.loads(file.read_text(encoding="utf-8")).items()
        except (ValueError, RecursionError, AttributeError) as error:
            raise UserError(f"{file}: not a JSON catalogue ({error})") from None
        for key, message in content:
            if isinstance(message, str) and message:
                messages[file.name, key] = message
    return messages


def _latin_share(text: str) -> float:
    letters = [character for character in text if character.isalpha()]
    return sum(map(_is_latin, letters)) / max(len(letters), 1)


@cache
def _is_latin(character: str) -> bool:
    return unicodedata.name(character, "").startswith("LATIN")


def _read_pairs(text: Mapping[str, Any], inputs: Inputs) -> Iterator[tuple[Pair, None]]:
    assert inputs.package is not None
    return ((pair, None) for pair in read_catalogue(inputs.package, text["locale"]))


def _read_texts(text: Mapping[str, Any], inputs: Inputs) -> list[Shard]:
    return [lambda: (target for (_, target), _ in _read_pairs(text, inputs))]


LOADER = Loader(
    text=(Catalogue,),
    pairs=(Catalogue,),
    rated_pairs=(Catalogue,),
    read_texts=_read_texts,
    read_pairs=_read_pairs,
    needs_package=True,
)
