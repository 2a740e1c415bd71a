"""Lines read from each text, their damage, and caveats that follow from it."""

from typing import Any

from lexigraft.report.items import Kind
from lexigraft.report.study import Contaminated, StudyResults
from lexigraft.report.table import Row, Table, number, number_cell

KIND = Kind(
    title="Texts",
    caption="Lines read from each text: kept, repeated and repaired ones, and those that were "
    "written in one encoding and read in another.",
    empty="no text was prepared",
)
# Count of cleaning -> description of the damage, and its name in a language's `repair`.
ON_REQUEST = {
    "mojibake": ("read in a wrong encoding", "mojibake"),
    "zawgyi": ("in Zawgyi", "zawgyi"),
    "csv_quotes": ("with doubled quotes as in CSV files", "quotes"),
}
# Count of cleaning -> heading of its column, which is always shown; `_DAMAGE` only where it occurs.
_LINES = {"read": "read", "kept": "kept", "duplicate": "repeated"}
# Key of a size of a corpus -> its unit.
_SIZES = {
    "train_sentences": "training sentences",
    "train_characters": "characters of training text",
    "heldout_sentences": "held-out sentences",
    "english_sentences": "English sentences",
    "translation_pairs": "pairs to translate",
    "summarization_pairs": "articles to summarize",
}
_DAMAGE = {
    "windows_line_ends": "CRLF",
    "byte_order_mark": "byte order mark",
    "control_characters": "control characters",
    "not_nfc": "not composed (NFC)",
    **{count: name for count, (name, _) in ON_REQUEST.items()},
    "lost_characters": "lost characters",
}


def build(study: StudyResults) -> Table | None:
    """A row per text of each language: lines read, kept and damaged."""
    import pandas

    cleaned = [
        (language, text, counts)
        for language, card in study.corpora.items()
        for text, counts in card.get("cleaning", {}).items()
    ]
    data = pandas.DataFrame(
        [
            {"language": language, "text": text, "count": count, "value": value}
            for language, text, counts in cleaned
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
            tuple(number_cell(counts.get(count), 0) for count in (*_LINES, *damage)),
        )
        for language, text, counts in cleaned
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
        "Always repaired: line ends, byte order marks, control characters and decomposed letters. "
        f"Other damage is repaired where a language asks for it: {'; '.join(done) or 'none does'}."
    ]
    return Table(("Language", "Text"), heads, rows, data, notes)


def repaired(card: dict[str, Any]) -> list[str]:
    """The repairs that a corpus's language requests, from the corpus's card."""
    return list(card.get("job", {}).get("settings", {}).get("repair") or [])


def contaminated(study: StudyResults) -> list[Contaminated]:
    """Every set of tests that was searched for, by language: the corpus's own, then those of tasks.

    A set that both a language and a task list has two rows.
    """
    every = [
        Contaminated(language, tests, counts)
        for language, card in study.corpora.items()
        for tests, counts in card.get("contamination", {}).items()
    ] + study.counted
    order = list(dict.fromkeys(one.language for one in every))
    return sorted(every, key=lambda one: order.index(one.language))


def text_caveats(study: StudyResults) -> list[str]:
    """Sentences on small or damaged texts, and on tests in the training text."""
    found = _different_sizes(study)
    for key, card in study.corpora.items():
        if reduced := card.get("reduced"):
            sizes = (
                f"{number(size['taken'], 0)} {_SIZES[part]} instead of {number(size['wanted'], 0)}"
                for part, size in reduced.items()
            )
            found.append(f"{study.language(key)} has little text: {', '.join(sizes)}.")
        done = repaired(card)
        for text, counts in card.get("cleaning", {}).items():
            wrong = {
                count: f"{what}; `repair: [{remedy}]` repairs them."
                for count, (what, remedy) in ON_REQUEST.items()
                if remedy not in done
            }
            wrong["lost_characters"] = "incomplete: characters were lost in decoding."
            found += [
                f"{study.language(key)}, {text}: {number(counts[count], 0)} of "
                f"{number(counts['read'], 0)} lines are {what}"
                for count, what in wrong.items()
                if counts.get(count)
            ]
    return found + [
        f"{study.language(one.language)}: of {number(one.counts['texts'], 0)} texts of "
        f"{one.tests}, {number(one.counts['found'], 0)} are wholly and "
        f"{number(one.counts['mostly_found'], 0)} mostly in the training text; scores on them are "
        "less reliable."
        for one in contaminated(study)
        if one.counts["found"] or one.counts["mostly_found"]
    ]


def _different_sizes(study: StudyResults) -> list[str]:
    """A sentence on each task with different numbers of texts between languages or cells."""
    sizes: dict[tuple[str, str], dict[int, dict[str, None]]] = {}
    for one in study.predictions:
        counts = {
            name: one.details[part]["sentences"]
            for part, name in (("heldout", "held-out sentences"), ("english", "English sentences"))
            if part in one.details
        }
        if "samples" in one.metrics:
            counts["texts"] = int(one.metrics["samples"])
        for name, count in counts.items():
            languages = sizes.setdefault((one.task, name), {}).setdefault(count, {})
            languages[study.language(one.cell["language"])] = None
    return [
        f"{task} has different numbers of {name}: "
        + ", ".join(
            f"{number(count, 0)} in {' and '.join(counts[count])}" for count in sorted(counts)
        )
        + "."
        for (task, name), counts in sizes.items()
        if len(counts) > 1
    ]
