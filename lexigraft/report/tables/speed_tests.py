"""The speed-ups that a table prints: which would hold on other text and if measured again."""

from collections.abc import Iterable, Sequence

from lexigraft.report.paired_tests import Column, PairedTest
from lexigraft.report.speed_up import speed_up_tests
from lexigraft.report.study import Study
from lexigraft.report.tables.models import Model
from lexigraft.report.tables.notes import stars_note
from lexigraft.report.tables.tested import Tested


class SpeedTests(Tested[PairedTest]):
    """Tests of a table's speed-ups."""

    def numbers(self, one: PairedTest) -> dict[str, float | int]:
        """Interval, p and effect size of a speed-up."""
        return one.columns("speed_up", "measurement_freedom")

    def notes(self) -> list[str]:
        """How the speed-ups were tested, and which could not be."""
        every = list(self.tested.values())
        known = [one for one in every if one.freedom]
        notes = []
        if known:
            notes.append(
                stars_note(
                    "the sentences of the text",
                    len(known),
                    "speed-ups",
                    "; what measuring again would change is drawn with the deviation between "
                    "models of one vocabulary, which do the same work;",
                )
            )
        if len(known) < len(every):
            which = "Speed-ups" if not known else f"{len(every) - len(known)} speed-ups"
            notes.append(
                f"{which} without a test, where each vocabulary was measured once: too little to "
                "tell how measurements differ. Their intervals, in the CSV file, are of other "
                "sentences and of the repeats of one measurement alone."
            )
        have = {column for _, column in self.tested}
        lost = dict.fromkeys(column[1] for column in self.columns if column not in have)
        if lost:
            notes.append(
                "Speed-ups not tested, for that takes the time of each repeat and the tokens of "
                f"each sentence of the text: {', '.join(lost)}."
            )
        return notes


def speed_tests(study: Study, models: Sequence[Model], columns: Iterable[Column]) -> SpeedTests:
    """Test the speed-ups of each model that a table shows, all of them together."""
    shown = tuple(dict.fromkeys(columns))
    return SpeedTests(speed_up_tests(study, models, shown), shown)
