"""Advice as one page of Markdown, and as a part of an HTML page."""

import html

from lexigraft.report.advice import METHOD, Advice

_NOTHING = "No cell with new tokens has a score of quality: there is nothing to recommend."


def advice_markdown(title: str, advice: list[Advice], caveats: list[str]) -> str:
    """One page, with how it was decided and what must not be concluded at its end."""
    lines = [f"# {title}", ""]
    for one in advice:
        lines += [f"## {one.heading}", "", f"**{one.answer}**", ""]
        for question in one.questions:
            lines.append(f"- **{question.title}** {question.answer}")
            lines += [f"  - {text}" for text in question.evidence]
        lines.append("")
    lines += [METHOD if advice else _NOTHING, ""]
    return "\n".join([*lines, *(f"- {text}" for text in caveats), ""])


def advice_html(advice: list[Advice]) -> str:
    """The same without its title and caveats, which the page has elsewhere."""
    if not advice:
        return f"<p>{_NOTHING}</p>"
    parts = []
    for one in advice:
        parts.append(f"<h3>{html.escape(one.heading)}</h3>")
        parts.append(f"<p><strong>{html.escape(one.answer)}</strong></p><dl>")
        for question in one.questions:
            evidence = "".join(f"<li>{html.escape(text)}</li>" for text in question.evidence)
            title, answer = html.escape(question.title), html.escape(question.answer)
            parts.append(f"<dt><strong>{title}</strong> {answer}</dt>")
            parts.append(f"<dd><ul>{evidence}</ul></dd>" if evidence else "")
        parts.append("</dl>")
    return "".join(parts) + f'<p class="lead">{html.escape(METHOD)}</p>'
