"""Draws the comparison as bars, in SVG written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from bench.figures import Medians, Metric

DRAWN = (
    Metric("pace", "cpu_us", "CPU µs per streamed event at token pace (less is better)"),
    Metric("burst", "cpu_us", "CPU µs per streamed event, burst (less is better)", 2),
    Metric("json", "per_core", "JSON requests/s of one busy core (more is better)", 0),
)
WIDTH, LABEL, ROW, TITLE, GAP = 720, 110, 26, 30, 14
SCALE = WIDTH - LABEL - 90

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2933; }
.title { font-weight: 600; }
.bar { fill: #9aa5b1; }
.subject { fill: #2f6feb; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .bar { fill: #616e7c; }
  .subject { fill: #6ea8fe; }
}"""


def draw(found: Medians, targets: Sequence[str]) -> str:
    """Return the picture: one group of bars a metric, one bar a target."""
    parts: list[str] = []
    y = GAP
    for metric in DRAWN:
        values = [
            (t, f.value) for t in targets if (f := found.get((metric.scenario, t, metric.figure)))
        ]
        if values:
            parts.extend(group(metric, values, y))
            y += TITLE + ROW * len(values) + GAP
    return "\n".join((*opening(y), *parts, "</svg>")) + "\n"


def opening(height: int) -> Sequence[str]:
    """Open the picture and say how it looks."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        "<title>Holdgate and its peers on one core</title>",
        f"<style>{STYLE}</style>",
    )


def group(metric: Metric, values: Sequence[tuple[str, float]], y: int) -> Sequence[str]:
    """Draw the bars of one metric below its title."""
    longest = max(value for _, value in values) or 1.0
    lines = [f'<text class="title" x="0" y="{y + 16}">{escape(metric.title)}</text>']
    for number, (target, value) in enumerate(values):
        top = y + TITLE + ROW * number
        lines.extend(one_bar(target, value / longest, f"{value:,.{metric.digits}f}", top))
    return lines


def one_bar(target: str, share: float, label: str, top: int) -> Sequence[str]:
    """Draw one bar with its name before and its value behind it."""
    kind = "subject" if target == "holdgate" else "bar"
    width = max(share * SCALE, 1)
    return (
        f'<text x="0" y="{top + 15}">{escape(target)}</text>',
        f'<rect class="{kind}" x="{LABEL}" y="{top + 2}" width="{width:.1f}" height="18" rx="3"/>',
        f'<text x="{LABEL + width + 8:.1f}" y="{top + 15}">{label}</text>',
    )
