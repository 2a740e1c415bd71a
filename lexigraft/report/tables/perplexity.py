"""Perplexity and bits per byte of held-out text (Yamaguchi et al., Tables 2 and 11)."""

from lexigraft.report.frame import StudyResults, select
from lexigraft.report.heldout import text_tasks
from lexigraft.report.items import MetricNames, table
from lexigraft.report.model_table import results_table
from lexigraft.report.models import TableOptions, models
from lexigraft.report.names import metric
from lexigraft.report.table import Table

_METRICS = ("perplexity", "bits_per_byte")


class PerplexityOptions(TableOptions):
    """The options of a table of perplexities."""

    metrics: MetricNames = _METRICS


@table(
    title="Perplexity and bits per byte",
    caption="Perplexity and bits per byte of held-out text. Perplexity is not comparable "
    "across vocabularies (†); bits per byte are.",
    empty="no perplexity was measured",
    options=PerplexityOptions,
)
def perplexity(study: StudyResults) -> Table | None:
    """Models by language and metric, on the text that represents each language.

    A group of languages is followed by its members, whose held-out texts are scored separately.
    """
    names = study.item.metrics or _METRICS
    tasks, columns = text_tasks(study, names[0]), []
    for language in study.order("language"):
        if language not in tasks and language not in study.item.where.get("language", ()):
            continue
        task = tasks.get(language, next(iter(tasks.values()), ""))
        scored = select(study.summary, language=language, task=task)["metric"].unique()
        members = [name.removeprefix("bits_per_byte") for name in scored
                   if name.startswith("bits_per_byte_")]  # fmt: skip
        columns += [(language, task, name + end) for end in ("", *members) for name in names]
    if not tasks or not columns or not models(study):
        return None
    title = metric(names[0]).title.capitalize() if len(names) == 1 else ""
    return results_table(title, study, models(study), columns)
