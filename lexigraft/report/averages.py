"""Table columns that are means of other columns: over tasks, over languages, or over both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from lexigraft.report.items import MetricNames, Names, Options, Refers, TaskNames, Unlike
from lexigraft.report.models import AXES, COLUMN, Column
from lexigraft.report.names import AVERAGE, listed
from lexigraft.report.study import StudyResults

Over = Literal["tasks", "languages"]


class Average(Options):
    """One average: the title of its columns, and the scores that it averages."""

    title: Annotated[str, Unlike("tasks"), Field(min_length=1)] = "Average"
    over: Annotated[tuple[Over, ...], Field(min_length=1)] = ("tasks", "languages")
    tasks: TaskNames = ()
    languages: Annotated[Names, Refers("languages")] = ()
    metrics: MetricNames = ()

    def column(self, language: str, task: str, name: str) -> Column:
        """The column of means that includes a column; averaged axes have the title, or no name."""
        over_tasks, over_languages = ("tasks" in self.over), ("languages" in self.over)
        place = "" if over_tasks else self.title
        return place if over_languages else language, self.title if over_tasks else task, name

    def covers(self, language: str, task: str, name: str) -> bool:
        """Whether a column is averaged."""
        wanted = ((self.languages, language), (self.tasks, task), (self.metrics, name))
        return all(not names or one in names for names, one in wanted)


Averages = Annotated[
    tuple[Average, ...],
    Field(
        description="columns of means, each with a `title`, what it averages `over` (`tasks`, "
        "`languages`, by default both), and the `tasks`, `languages` and `metrics` of the table "
        "that it includes, by default all. A row has a mean if it has all scores of the mean"
    ),
]


def average_columns(
    averages: Sequence[Average], columns: Sequence[Column]
) -> dict[Column, list[Column]]:
    """Each column of means -> the columns that it averages, two or more."""
    found: dict[Column, list[Column]] = {}
    for average in averages:
        own: dict[Column, list[Column]] = {}
        for column in columns:
            if average.covers(*column):
                own.setdefault(average.column(*column), []).append(column)
        found |= {mean: parts for mean, parts in own.items() if len(parts) > 1}
    return found


def in_order(columns: Sequence[Column], means: Mapping[Column, Sequence[Column]]) -> list[Column]:
    """All columns: a mean over tasks follows its language's columns, other means come last."""
    languages = [language for language, *_ in columns]
    found = []
    for place, column in enumerate(columns):
        found.append(column)
        if column[0] not in languages[place + 1 :]:
            found += [mean for mean in means if mean[0] == column[0]]
    return found + [mean for mean in means if mean[0] not in languages]


def with_averages(study: StudyResults, means: Mapping[Column, Sequence[Column]]) -> StudyResults:
    """The study with the means as scores, one for each model and seed that has all parts.

    Runs of a seed are averaged first. The language of a mean over languages is the average's title;
    that of a mean over both is empty.
    """
    import pandas

    by_seed = study.scores.groupby([*AXES, *COLUMN, "seed"], sort=False)["value"].mean()
    scores = by_seed.reset_index()
    keys = pandas.MultiIndex.from_frame(scores[COLUMN])
    kinds = dict(zip(study.scores["task"], study.scores["kind"], strict=True))
    frames = [study.scores]
    for (language, task, name), parts in means.items():
        groups = scores[keys.isin(parts)].groupby([*AXES, "seed"], sort=False)["value"]
        mean = groups.mean()[groups.size() == len(parts)]
        facts = {"language": language, "task": task, "kind": kinds.get(task, AVERAGE),
                 "run": 0, "metric": name}  # fmt: skip
        frames.append(mean.reset_index().assign(**facts))
    titles = {language: {"name": language} for language, *_ in means
              if language not in study.languages}  # fmt: skip
    extended = pandas.concat(frames, ignore_index=True)[list(study.scores)]
    return replace(study, scores=extended, languages=study.languages | titles)


def average_notes(study: StudyResults, means: Mapping[Column, Sequence[Column]]) -> list[str]:
    """Notes on what each column of means averages, and that means are not tested."""
    notes: dict[str, None] = {}
    for (language, task, _), parts in means.items():
        over = []
        for at, own, named in ((1, task, str), (0, language, study.language)):
            names = list(dict.fromkeys(part[at] for part in parts))
            if names != [own]:
                over.append(listed(map(named, names)))
        title = task if any(part[1] != task for part in parts) else language
        notes[f"{title}: the mean over {', and over '.join(over)}."] = None
    if means:
        notes["Averages are shown where a row has every score, and are not tested."] = None
    return list(notes)
