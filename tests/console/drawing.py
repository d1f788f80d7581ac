"""Reads the drawing of an exchange as a person does: where each mark stands, and what is written."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from playwright.async_api import Page

# In one go: the drawing is another one a moment later.
READ = """
() => ((svg) => ({
  scale: JSON.parse(svg.dataset.scale),
  width: svg.viewBox.baseVal.width,
  texts: [...svg.querySelectorAll("text")].map((node) => node.textContent),
  areas: Object.fromEntries([...svg.querySelectorAll("[data-flow]")].map((node) => [
    node.dataset.flow, node.getAttribute("d").match(/[\\d.]+/g).map(Number),
  ])),
  marks: [...svg.querySelectorAll("[data-mark]")].map((node) => {
    const { x, width } = node.getBBox();
    const { mark, at } = node.dataset;
    return { name: mark, at: Number(at), left: x, right: x + width, text: node.textContent };
  }),
}))(document.querySelector("svg.timeline"))
"""
LASTING = ("try", "wait", "bytes", "state")
"""Marks with a length: they begin at their left edge. All others stand where their middle is."""


@dataclass(frozen=True)
class Mark:
    """A shape of the drawing: what it stands for, when that was, and where it stands."""

    name: str
    at: int
    left: float
    right: float
    text: str

    @property
    def x(self) -> float:
        """Where its moment stands."""
        is_lasting = self.name.partition(" ")[0] in LASTING
        return self.left if is_lasting else (self.left + self.right) / 2


@dataclass(frozen=True)
class Drawing:
    """A timeline as it was drawn at one moment."""

    scale: list[list[float]]
    """Moments and where they stand; between two of them the scale is even."""
    width: float
    texts: list[str]
    areas: dict[str, list[float]]
    """The outline of the bytes of each turn: x and y, again and again."""
    marks: list[Mark]

    def find(self, name: str) -> list[Mark]:
        """Return the marks of a kind, in the order of their places."""
        return sorted((one for one in self.marks if one.name == name), key=lambda one: one.x)

    def find_states(self) -> list[tuple[str, Mark]]:
        """Return the parts of the band of states."""
        found = [one for one in self.marks if one.name.startswith("state ")]
        return [(one.name.partition(" ")[2], one) for one in sorted(found, key=lambda one: one.x)]

    def _find_part(self, x: float) -> tuple[list[float], list[float]]:
        place = bisect_left([at_x for _, at_x in self.scale], x)
        place = min(max(place, 1), len(self.scale) - 1)
        return self.scale[place - 1], self.scale[place]

    def read_ms(self, x: float) -> float:
        """Return which moment stands at a place."""
        (ms, left), (end_ms, right) = self._find_part(x)
        return ms + (x - left) / max(right - left, 1e-9) * (end_ms - ms)

    def measure_px(self, x: float) -> float:
        """Return how many milliseconds half a pixel is at a place."""
        (ms, left), (end_ms, right) = self._find_part(x)
        return (end_ms - ms) / max(right - left, 1e-9) / 2

    def read_area(self, turn: int) -> list[tuple[float, float]]:
        """Return how high the bytes of a turn are drawn, from its first frame on: when, and how high."""
        numbers = self.areas[str(turn)]
        outline = list(zip(numbers[::2], numbers[1::2], strict=True))
        ground = outline[0][1]
        return [(self.read_ms(x), ground - y) for x, y in outline[1:-1]]

    def read_all(self, name: str) -> list[float]:
        """Return the moments of all marks of a kind, read from their places."""
        return [self.read_ms(one.x) for one in self.find(name)]

    def check_places(self) -> None:
        """Demand that every mark stands where the scale says, so that later is further right."""
        for one in self.marks:
            # A text is not exactly as wide as it says, and a shape ends within a pixel.
            near = self.measure_px(one.x) * (4 if one.name == "tick" else 1) + 1
            assert abs(self.read_ms(one.x) - one.at) <= near, one
        for before, after in pairwise(self.scale):
            assert before[0] <= after[0]
            assert before[1] < after[1] or before == after
        placed = sorted(self.marks, key=lambda one: one.at)
        for one, other in pairwise(placed):
            assert one.x <= other.x + 1, (one, other)


async def read_drawing(page: Page) -> Drawing:
    """Read the timeline that a page shows."""
    found: dict[str, Any] = await page.evaluate(READ)
    return Drawing(**{**found, "marks": [Mark(**one) for one in found["marks"]]})


async def read_story(page: Page) -> list[tuple[str, str]]:
    """Read what the gateway did: when, and the sentence."""
    steps = page.locator(".story li")
    times = await steps.locator(".at").all_inner_texts()
    return list(zip(times, await steps.locator("span:last-child").all_inner_texts(), strict=True))


async def read_moves(page: Page) -> tuple[dict[str, int], dict[str, int]]:
    """Read the machine: how often each edge was taken, and the counts that are written at edges."""
    edges: dict[str, int] = await page.locator(".machine").evaluate(
        "(svg) => Object.fromEntries([...svg.querySelectorAll('[data-edge].went')]"
        ".map((node) => [node.dataset.edge, Number(node.dataset.count)]))"
    )
    written: dict[str, int] = await page.locator(".machine").evaluate(
        "(svg) => Object.fromEntries([...svg.querySelectorAll('[data-times]')]"
        ".map((node) => [node.dataset.times, Number(node.textContent.slice(1))]))"
    )
    return edges, written
