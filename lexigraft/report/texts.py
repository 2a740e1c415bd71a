"""What a reader must know about a study's texts: wrong encodings in them, tests trained on."""

from typing import Any

from lexigraft.report.study import Contaminated, Study
from lexigraft.report.tables.table import number

# Count of cleaning -> what it is, and what a language's `repair` calls the remedy.
ON_REQUEST = {
    "mojibake": ("read in a wrong encoding", "mojibake"),
    "zawgyi": ("in Zawgyi", "zawgyi"),
    "csv_quotes": ("with quotes doubled as in CSV files", "quotes"),
}


def repaired(card: dict[str, Any]) -> list[str]:
    """What a corpus's language asked to have repaired, by the corpus's card."""
    return list(card.get("job", {}).get("settings", {}).get("repair") or [])


def contaminated(study: Study) -> list[Contaminated]:
    """Every set of tests that was looked for, by language: the corpus's own, then those of tasks.

    A set that a language lists by itself, and that a task brings too, has a row of each.
    """
    every = [
        Contaminated(language, tests, counts)
        for language, card in study.corpora.items()
        for tests, counts in card.get("contamination", {}).items()
    ] + study.counted
    order = list(dict.fromkeys(one.language for one in every))
    return sorted(every, key=lambda one: order.index(one.language))


def text_caveats(study: Study) -> list[str]:
    """Sentences on what is wrong with the texts, and on tests that models were trained on."""
    found = []
    for key, card in study.corpora.items():
        language, done = study.language(key), repaired(card)
        for text, counts in card.get("cleaning", {}).items():
            where = f"{language}, {text}: {{}} of {number(counts['read'], 0)} lines are"
            for count, (what, remedy) in ON_REQUEST.items():
                if counts.get(count) and remedy not in done:
                    lines = number(counts[count], 0)
                    found.append(f"{where.format(lines)} {what}; `repair: [{remedy}]` undoes that.")
            if counts.get("lost_characters"):
                lines = number(counts["lost_characters"], 0)
                found.append(f"{where.format(lines)} not whole: a decoder lost characters of them.")
    for one in contaminated(study):
        counts = one.counts
        if counts["found"] or counts["mostly_found"]:
            found.append(
                f"{study.language(one.language)}: of {number(counts['texts'], 0)} texts of "
                f"{one.tests}, {number(counts['found'], 0)} are in the training text and "
                f"{number(counts['mostly_found'], 0)} are mostly; scores on them say less."
            )
    return found
