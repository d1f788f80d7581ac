"""What a reader would stumble over: figures that break, cells that are cut, a row of which half is seen."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.console.chromium import Chromium, start_chromium
from tests.run import GatewayProcess, as_process

FOLDER = Path(__file__).parents[2] / "gateway" / "api" / "console"
JOBS = (
    {"name": "Check", "message": "check", "schedule_text": "weekdays at 18:30", "agent_id": "demo"},
    {"name": "Again", "message": "again", "schedule_text": "every 15 minutes", "agent_id": "demo"},
)
# Each cell, and on how many lines its text stands.
COUNT_LINES = """(cells) => cells.map((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((one) => Math.round(one.top))).size;
})"""
FIND_CUT = """(cells) => cells
  .filter((cell) => cell.scrollHeight > cell.clientHeight + 1 || cell.scrollWidth > cell.clientWidth + 1)
  .map((cell) => cell.textContent)"""
# Rows as Live makes them; how much of the last one that is in sight is seen.
CUT_ROWS = """(list) => {
  const row = list.querySelector("li");
  list.replaceChildren(...Array.from({ length: 9 }, () => row.cloneNode(true)));
  const end = list.getBoundingClientRect().bottom;
  const boxes = [...list.children].map((one) => one.getBoundingClientRect());
  return boxes.filter((one) => one.top < end - 1 && one.bottom > end + 1).length;
}"""
SHOW_LEFT = """async (hours) => {
  const base = document.querySelector("script[type=module]").src;
  const { showLeft } = await import(new URL("times.js", base));
  return hours.map((one) => showLeft(one * 3600000));
}"""


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway as anybody starts it."""
    home = tmp_path_factory.mktemp("gateway")
    with as_process(home, {"ROUTECODEX_CLOCK_NTP": "off"}) as started:
        yield started


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def add_jobs(page: Page, url: str) -> None:
    """Add some jobs, as a page does."""
    for job in JOBS:
        answer = await page.request.post(
            f"{url}/api/cron/add", data={**job, "dedupe_key": job["name"]}, headers={"origin": url}
        )
        assert answer.ok, await answer.text()


async def test_on_a_phone_nothing_of_a_next_run_is_cut(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    async with chromium.open(f"{gate.url}/console/tools", width=390) as tab:
        await add_jobs(tab.page, gate.url)
        await tab.page.goto(f"{gate.url}/console/jobs")
        cells = tab.page.locator(".jobs-list .w-row:not([hidden]) .c-next")
        await expect(cells).to_have_count(2)
        assert await cells.evaluate_all(FIND_CUT) == []
        assert await cells.evaluate_all(COUNT_LINES) == [2, 2]


async def test_on_a_phone_the_time_left_stands_on_one_line(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    async with chromium.open(f"{gate.url}/console/jobs", width=390) as tab:
        page = tab.page
        await page.locator(".head button.primary").click()
        await page.locator("#zone").fill("Europe/Berlin")
        await page.locator("#when").fill("weekdays at 18:30")
        cells = page.locator(".preview .times td.num")
        await expect(cells).to_have_count(5)
        assert await cells.evaluate_all(COUNT_LINES) == [1] * 5


async def test_live_shows_whole_rows_of_what_comes(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    async with chromium.open(f"{gate.url}/console/tools") as tab:
        await add_jobs(tab.page, gate.url)
        await tab.page.goto(f"{gate.url}/console/")
        coming = tab.page.locator(".notes").last
        await expect(coming).to_contain_text("Check")
        assert await coming.evaluate(CUT_ROWS) == 0


async def test_from_a_day_on_the_time_left_is_in_days(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    async with chromium.open(f"{gate.url}/console/tools") as tab:
        await expect(tab.page.locator(".tools")).to_be_visible()
        found = await tab.page.evaluate(SHOW_LEFT, [0.5, 23, 24, 41])
    assert found == ["30:00", "23:00:00", "1 d 0 h", "1 d 17 h"]


def test_chinese_has_no_blank_between_a_duration_and_the_next_sign() -> None:
    """A duration ends with a Chinese unit; one that counts down ends with a digit, and keeps its blank."""
    words = json.loads(FOLDER.joinpath("words-zh.json").read_text())
    of_durations = re.compile(r"exchange\.(said|tool|held|closed)_|chat\.stopped_closed|job\.late")
    texts = {key: text for key, text in words.items() if of_durations.match(key)}
    assert len(texts) >= 6
    assert [key for key, text in texts.items() if re.search(r"{time} [\u4e00-\u9fff]", text)] == []
