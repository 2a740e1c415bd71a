"""What to do: which initializer, how many new tokens and which training strategy."""

import html

from lexigraft.report.items import Kind
from lexigraft.report.page import Page
from lexigraft.report.study import StudyResults

KIND = Kind(
    title="Recommendation",
    caption="Which initializer, how many new tokens and which training strategy to use for each "
    "language and source model, what that gains and costs, and how sure it is. Where the evidence "
    "does not decide, the page says so.",
    empty="no cell with new tokens has a score of quality",
)
_NOTHING = "No cell with new tokens has a score of quality: there is nothing to recommend."


def build(study: StudyResults, title: str, caveats: list[str]) -> Page:
    """One page, with how it was decided and what must not be concluded at its end.

    Its HTML is without title and caveats, a part of another page.
    """
    from lexigraft.report.recommendation_text import METHOD, recommendation_texts

    texts = recommendation_texts(study)
    lines, parts = [f"# {title}", ""], []
    for one in texts:
        lines += [f"## {one.heading}", "", f"**{one.answer}**", ""]
        parts.append(f"<h3>{html.escape(one.heading)}</h3>")
        parts.append(f"<p><strong>{html.escape(one.answer)}</strong></p><dl>")
        for question, answer, evidence in one.questions:
            lines.append(f"- **{question}** {answer}")
            lines += [f"  - {text}" for text in evidence]
            items = "".join(f"<li>{html.escape(text)}</li>" for text in evidence)
            parts.append(f"<dt><strong>{html.escape(question)}</strong> {html.escape(answer)}</dt>")
            parts.append(f"<dd><ul>{items}</ul></dd>" if items else "")
        lines.append("")
        parts.append("</dl>")
    last = f'<p class="lead">{html.escape(METHOD)}</p>' if texts else f"<p>{_NOTHING}</p>"
    lines += [METHOD if texts else _NOTHING, "", *(f"- {text}" for text in caveats), ""]
    return Page("\n".join(lines), "".join([*parts, last]), [one.numbers for one in texts])
