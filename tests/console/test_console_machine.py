"""The drawings of the state machine: of the gateway and of an exchange, wide and on phones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from gateway.exchange.machine import MOVES
from tests.console.chromium import Chromium, start_chromium
from tests.run import GatewayProcess, as_process

EDGES = {f"{state}>{target}" for state, moves in MOVES.items() for target in moves.values()}
RARE = {
    *("opening>failed", "opening>gone", "opening>closing", "tooling>failed", "holding>gone"),
    *("tooling>gone", "holding>failed", "closing>failed"),
}
LOOP = "opening>opening"
WIDTHS = {"wide": 560, "phone": 330}

# Draws both, and reads them: which edges there are, and what each line and arrowhead passes.
DRAW = """
async ([width, edges]) => {
  const base = document.querySelector("script[type=module]").src;
  const { drawMachine, makePopulation } = await import(new URL("parts/machine.js", base));
  const box = document.createElement("div");
  box.style.width = `${width}px`;
  document.querySelector("main").replaceChildren(box);
  const states = edges.flatMap((edge, i) => edge.split(">").map((state, j) => [2 * i + j, state]));
  const trail = { states, state: "done", ended: 9999, turns: [] };
  const population = makePopulation(() => {});
  box.append(population.node);
  await new Promise((done) => setTimeout(() => requestAnimationFrame(done)));
  const read = (svg) => {
    const states = [...svg.querySelectorAll("rect[data-state]")].map((rect) => {
      const { a, b, c, d, e, f } = svg.getScreenCTM().inverse().multiply(rect.getScreenCTM());
      const [x, y] = [rect.x.baseVal.value + e, rect.y.baseVal.value + f];
      return { state: rect.dataset.state, x, y, right: x + rect.width.baseVal.value, bottom: y + rect.height.baseVal.value };
    });
    const passes = (path, skip) => {
      const found = new Set();
      for (let at = 0; at <= path.getTotalLength(); at += 1) {
        const { x, y } = path.getPointAtLength(at);
        for (const one of states)
          if (!skip.includes(one.state) && x > one.x && x < one.right && y > one.y && y < one.bottom) found.add(one.state);
      }
      return [...found];
    };
    const { width, height, x, y } = svg.viewBox.baseVal;
    const isInside = (node) => {
      const one = node.getBBox();
      return one.x >= x && one.y >= y && one.x + one.width <= x + width && one.y + one.height <= y + height;
    };
    return [...svg.querySelectorAll("path[data-edge]")].map((path) => {
      const ends = path.dataset.edge.split(">");
      const head = path.nextSibling;
      return { edge: path.dataset.edge, behind: passes(path, ends), head: passes(head, []), inside: isInside(path) && isInside(head) };
    });
  };
  const gateway = read(population.node);
  box.replaceChildren(drawMachine(trail, width));
  return { gateway, exchange: read(box.firstChild) };
}
"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with as_process(tmp_path_factory.mktemp("gateway"), {"ROUTECODEX_CLOCK_NTP": "off"}) as started:
        yield started


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def draw(page: Page, width: int, edges: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Draw both machines, that of an exchange which took these edges, and read them."""
    found: dict[str, list[dict[str, Any]]] = await page.evaluate(DRAW, [width, edges])
    return found


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
async def test_all_edges_are_drawn_and_none_behind_a_state(
    gate: GatewayProcess, chromium: Chromium, width: int
) -> None:
    """A line that runs behind a state it does not touch reads as two others."""
    assert RARE < EDGES
    async with chromium.open(f"{gate.url}/console/tools", reduced_motion="reduce") as tab:
        await expect(tab.page.locator(".tools")).to_be_visible()
        usual = await draw(tab.page, width, [])
        rare = await draw(tab.page, width, sorted(RARE))
    assert {one["edge"] for one in usual["gateway"]} == EDGES - RARE - {LOOP}
    assert {one["edge"] for one in usual["exchange"]} == EDGES - RARE
    # What an answer took is drawn, however rare it is.
    assert {one["edge"] for one in rare["exchange"]} >= RARE
    for one in (*usual["gateway"], *usual["exchange"]):
        assert (one["behind"], one["head"], one["inside"]) == ([], [], True), one
    for one in rare["exchange"]:
        assert (one["head"], one["inside"]) == ([], True), one
