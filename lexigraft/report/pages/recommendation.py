"""What to do: which initializer, how many new tokens and which training strategy."""

from typing import TYPE_CHECKING

from lexigraft.report.items import Kind

if TYPE_CHECKING:
    import pandas

    from lexigraft.report.page import Page
    from lexigraft.report.study import StudyResults

KIND = Kind(
    title="Recommendation",
    caption="Which initializer, how many new tokens and which training strategy to use for each "
    "language and source model, what that gains and costs, and how sure it is. Where the evidence "
    "does not decide, the page says so.",
    empty="no cell with new tokens has a score of quality",
)


def build(
    study: "StudyResults", summary: "pandas.DataFrame", title: str, caveats: list[str]
) -> "Page":
    """One page, with how it was decided and what must not be concluded at its end."""
    # Half of what the kinds import, and not needed to parse the Snakefile.
    from lexigraft.report.page import Page
    from lexigraft.report.recommendation_text import (
        recommendation_html,
        recommendation_markdown,
        recommendation_texts,
    )

    found = recommendation_texts(study, summary)
    return Page(
        recommendation_markdown(title, found, caveats),
        recommendation_html(found),
        [one.numbers for one in found],
    )
