"""Lines read from each text and their damage."""

from typing import Any

from pandas import DataFrame

from lexigraft.report.frame import StudyResults
from lexigraft.report.items import table
from lexigraft.report.table import Shown, Table, frame_table

# Count of cleaning -> description of the damage, and its name in a language's `repair`.
ON_REQUEST = {
    "mojibake": ("read in a wrong encoding", "mojibake"),
    "zawgyi": ("in Zawgyi", "zawgyi"),
    "csv_quotes": ("with doubled quotes as in CSV files", "quotes"),
}
# Count of cleaning -> heading of its column, which is always shown; `_DAMAGE` only where it occurs.
_LINES = {"read": "read", "kept": "kept", "duplicate": "repeated"}
_DAMAGE = {
    "other_language": "another language",
    "windows_line_ends": "CRLF",
    "byte_order_mark": "byte order mark",
    "control_characters": "control characters",
    "not_nfc": "not composed (NFC)",
    **{count: name for count, (name, _) in ON_REQUEST.items()},
    "lost_characters": "lost characters",
}


@table(
    title="Texts",
    caption="Lines read from each text: kept, repeated and repaired ones, and those that were "
    "written in one encoding and read in another.",
    empty="no text was prepared",
)
def texts(study: StudyResults) -> Table | None:
    """A row per text of each language: lines read, kept and damaged."""
    cleaned = [
        {"language": language, "text": text, **counts}
        for language, card in study.corpora.items()
        for text, counts in card.get("cleaning", {}).items()
    ]
    if not cleaned:
        return None
    frame = DataFrame(cleaned)
    data = frame.melt(["language", "text"], var_name="count", ignore_index=False)
    data = data[data["value"].notna()].sort_index(kind="stable").astype({"value": int})
    columns = {count: Shown(("lines", name), 0) for count, name in _LINES.items()}
    columns |= {
        count: Shown(("lines with", name), 0)
        for count, name in _DAMAGE.items()
        if count in frame and (frame[count] > 0).any()
    }
    repairing = [
        f"{study.language(language)} ({', '.join(names)})"
        for language, card in study.corpora.items()
        if (names := repaired(card))
    ]
    notes = [
        "Always repaired: line ends, byte order marks, control characters and decomposed letters. "
        "Other damage is repaired where a language asks for it: "
        f"{'; '.join(repairing) or 'none does'}."
    ]
    return frame_table(
        frame,
        columns,
        ("Language", "Text"),
        lambda row: (study.language(row["language"]), row["text"]),
        notes,
        data,
    )


def repaired(card: dict[str, Any]) -> list[str]:
    """The repairs that a corpus's language requests, from the corpus's card."""
    return list(card.get("job", {}).get("settings", {}).get("repair") or [])
