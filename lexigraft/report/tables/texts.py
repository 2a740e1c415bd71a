"""What was read of each text, and what was wrong with it."""

from typing import TYPE_CHECKING

from lexigraft.report.study import Study
from lexigraft.report.tables.table import Cell, Row, Table, is_compact, number
from lexigraft.report.texts import ON_REQUEST, repaired

if TYPE_CHECKING:
    import pandas

# Count of cleaning -> what its column is called. Always shown, and where some text has any.
_LINES = {"read": "read", "kept": "kept", "duplicate": "repeated"}
_DAMAGE = {
    "windows_line_ends": "CRLF",
    "byte_order_mark": "byte order mark",
    "control_characters": "control characters",
    "not_nfc": "not composed (NFC)",
    **{count: name for count, (name, _) in ON_REQUEST.items()},
    "lost_characters": "lost characters",
}


def build(study: Study, summary: "pandas.DataFrame") -> Table | None:
    """A row per text of each language: lines read, kept and damaged."""
    import pandas

    data = pandas.DataFrame(
        [
            {"language": language, "text": text, "count": count, "value": value}
            for language, card in study.corpora.items()
            for text, counts in card.get("cleaning", {}).items()
            for count, value in counts.items()
        ]
    )
    if data.empty:
        return None
    present = set(data.loc[data["value"] > 0, "count"])
    damage = [count for count in _DAMAGE if count in present]
    rows = [
        Row(
            (study.language(language), text),
            tuple(_cell(counts.get(count)) for count in (*_LINES, *damage)),
        )
        for language, card in study.corpora.items()
        for text, counts in card.get("cleaning", {}).items()
    ]
    heads = (
        *(("lines", name) for name in _LINES.values()),
        *(("lines with", _DAMAGE[count]) for count in damage),
    )
    done = [
        f"{study.language(language)} ({', '.join(names)})"
        for language, card in study.corpora.items()
        if (names := repaired(card))
    ]
    notes = [
        "Line ends, byte order marks, control characters and letters in parts are always repaired. "
        f"The rest is where a language asks for it: {'; '.join(done) or 'none does'}."
    ]
    stubs = ("Language", "Text")
    compact = is_compact(len(heads), len(stubs))
    return Table("texts", "Texts", stubs, heads, tuple(rows), data, tuple(notes), compact)


def _cell(value: int | None) -> Cell:
    return Cell() if value is None else Cell(number(value, 0), value=float(value))
