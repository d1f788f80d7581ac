"""How the console's pages fit: at every width, no list is cut off, and nothing stands there twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Page, expect

from tests.console.chromium import Chromium, start_chromium
from tests.console.scenes import SETTINGS, hold_longer
from tests.run import GatewayProcess, as_process

WIDTHS = (320, 390, 760, 761, 900, 901, 1100, 1180, 1440, 1768)
PAGES = ("", "chat", "sessions", "tools", "jobs", "health")
# What is cut off at the right: the page itself, or a row whose cells do not fit into it.
FIND_CUT = """() => [document.documentElement, ...document.querySelectorAll(".w-line:not([hidden])")]
  .filter((node) => node.scrollWidth > node.clientWidth + 1)
  .map((node) => `${node.className || node.tagName}: ${node.scrollWidth} in ${node.clientWidth}`)"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway with the demo model, which may hold answers for long."""
    home = tmp_path_factory.mktemp("gateway")
    with as_process(home, SETTINGS) as started:
        yield started


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def hold_an_answer(page: Page) -> str:
    """Run the first card of Try it, and wait until its answer is held; return its session."""
    await page.route("**/v1/chat/completions", hold_longer)
    await page.get_by_role("button", name="Run: See a hold").click()
    held = page.get_by_role("row").filter(has_text="try-hold").first
    await expect(held).to_contain_text("goes on in")
    return await held.get_by_role("link").first.inner_text()


async def test_a_reminder_that_an_answer_is_held_for_comes_up_once(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    async with chromium.open(f"{gate.url}/console/") as tab:
        session = await hold_an_answer(tab.page)
        coming = tab.page.locator(".hero > :nth-child(3) li").filter(has_text=session)
        await expect(coming).to_have_count(1)
        await expect(coming).to_contain_text("drink tea")
        # What is left of the hold is drawn, too.
        await expect(tab.page.locator(".strip .ahead").first).to_be_attached()


async def test_nothing_is_cut_off_at_any_width(gate: GatewayProcess, chromium: Chromium) -> None:
    job = {"session_id": "a", "message": "Hello!", "schedule_text": "weekdays at 18:30"}
    cut: list[str] = []
    async with chromium.open(f"{gate.url}/console/") as tab:
        page = tab.page
        origin = {"origin": gate.url}
        added = await page.request.post(f"{gate.url}/api/cron/add", data=job, headers=origin)
        assert added.ok
        await hold_an_answer(page)
        for name in PAGES:
            await page.goto(f"{gate.url}/console/{name}")
            await expect(page.get_by_role("heading", level=1)).to_be_visible()
            await expect(page.locator(".bones")).to_have_count(0)
            for width in WIDTHS:
                await page.set_viewport_size({"width": width, "height": 2000})
                await page.evaluate("new Promise((done) => requestAnimationFrame(() => done()))")
                cut += [f"{name} at {width}: {one}" for one in await page.evaluate(FIND_CUT)]
    assert cut == []
