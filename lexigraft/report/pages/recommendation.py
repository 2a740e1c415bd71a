"""What to do: graft or not, which initializer, how many new tokens and which training strategy."""

from typing import Any

from markupsafe import Markup

from lexigraft.report.items import Kind
from lexigraft.report.page import Page
from lexigraft.report.study import StudyResults

KIND = Kind(
    title="Recommendation",
    caption="Whether to graft at all and, if so, with which initializer, how many new tokens and "
    "which training strategy, for each language and source model; the gains, the costs, and how "
    "certain they are. If the evidence is inconclusive or negative, the page says so and lists "
    "what is missing.",
    empty="no cell with new tokens has a quality score",
)
_NOTHING = "No cell with new tokens has a quality score: there is nothing to recommend."


def build(study: StudyResults, title: str, caveats: list[str]) -> Page:
    """One page, with the reasons for the decision; its Markdown ends with caveats.

    Its HTML has no title and caveats, since it is a part of another page.
    """
    from lexigraft.report.recommendation_text import METHOD, recommendation_texts
    from lexigraft.report.rendering import render

    texts = recommendation_texts(study)
    shown: dict[str, Any] = {"texts": texts, "method": METHOD, "nothing": _NOTHING}
    markdown = render("recommendation.md.j2", title=title, caveats=caveats, **shown)
    body = Markup(render("recommendation.html.j2", **shown))
    return Page(markdown, body, [one.numbers for one in texts])
