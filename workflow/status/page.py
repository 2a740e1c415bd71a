"""The status of a study as one HTML page: no scripts, nothing loaded from elsewhere."""

import html
from datetime import datetime

from lexigraft.report.stylesheet import STYLESHEET
from workflow.status.states import STATES
from workflow.status.summary import Status, facts, headline

# What each state looks like in the bar of its stage, by the style sheet's own colours.
_COLOURS = {
    "done": "var(--accent)",
    "running": "#3a9a5b",
    "queued": "var(--rule)",
    "failed": "#c0392b",
    "stale": "#d08700",
}


def page(shown: Status, now: datetime) -> str:
    """The page as HTML text."""
    said = "".join(f"<li>{html.escape(text)}</li>" for text in facts(shown))
    parts = [
        f"<h1>{html.escape(headline(shown))}</h1>",
        f'<p class="lead">As of {now:%Y-%m-%d %H:%M}.</p>',
        _table(shown),
        f'<ul class="plain">{said}</ul>',
    ]
    running = [(name, f"{minutes:.0f} min") for name, minutes in shown.running]
    failed = [(name, f"{why} ({log})") for name, why, log in shown.failed]
    for title, rows in (("Running", running), ("Failed", failed)):
        if rows:
            items = "".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in rows)
            parts.append(f'<h2>{title}</h2><dl class="facts">{items}</dl>')
    style = STYLESHEET.replace("FONTS ", "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(shown.study)}: status</title><style>{style}{_OWN}</style></head>\n"
        f"<body>\n{''.join(parts)}\n</body></html>\n"
    )


_OWN = """
.bar { display: flex; width: 16rem; height: .8rem; background: var(--wash); }
.bar span { height: 100%; }
td.bars { min-width: 16rem; }
"""


def _table(shown: Status) -> str:
    head = "".join(f"<th>{state}</th>" for state in STATES)
    rows = []
    for stage, count in shown.counts.items():
        numbers = "".join(f"<td>{count[state] or '·'}</td>" for state in STATES)
        bar = "".join(
            f'<span style="width:{100 * count[state] / count.total():.3f}%;'
            f'background:{_COLOURS[state]}" title="{state}: {count[state]}"></span>'
            for state in STATES
        )
        rows.append(
            f'<tr><th class="stub">{stage}</th>{numbers}<td>{count.total()}</td>'
            f'<td class="bars"><div class="bar" aria-hidden="true">{bar}</div></td></tr>'
        )
    return (
        '<div class="scroll"><table><thead><tr><th class="stub">stage</th>'
        f"{head}<th>all</th><th></th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
