"""What a reader would stumble over: figures that break, cells that are cut, a row of which half is seen."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.chromium import Chromium, start_chromium
from tests.console.scenes import QUICK, ROW, WORDS
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


async def ask_model(page: Page, url: str, session: str, text: str) -> None:
    """Ask the demo model in a session, and read its answer."""
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    answer = await page.request.post(
        f"{url}/v1/chat/completions", data=body, headers={"x-session-id": session}
    )
    assert answer.ok, await answer.text()


async def test_on_a_phone_the_marks_of_a_session_begin_below_its_name(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    """Also the rounds of a session without reminders, which stood further right."""
    async with chromium.open(f"{gate.url}/console/tools", width=390) as tab:
        page = tab.page
        await ask_model(page, gate.url, "rounds", f'<**stopMessage:"{QUICK}",1**>{QUICK}')
        await ask_model(page, gate.url, "tea", f"<**!demo**> {QUICK}")
        due = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        added = await page.request.post(
            f"{gate.url}/api/sessions/tea/reminders", data={"task": "drink tea", "dueAt": due}
        )
        assert added.ok
        await page.goto(f"{gate.url}/console/sessions")
        for session in ("rounds", "tea"):
            row = page.locator(f".session-list {ROW}").filter(has_text=session)
            await expect(row.locator(".mark:visible")).to_have_count(1)
            name = await row.get_by_role("link").bounding_box()
            mark = await row.locator(".mark:visible").bounding_box()
            assert name is not None
            assert mark is not None
            assert mark["x"] - name["x"] == pytest.approx(0, abs=1)


async def test_a_reminder_that_waits_for_an_answer_is_due(
    gate: GatewayProcess, chromium: Chromium
) -> None:
    """A countdown that stands at 0:00 looks as if the page had stopped."""
    async with chromium.open(f"{gate.url}/console/tools") as tab:
        page = tab.page
        due = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        added = await page.request.post(
            f"{gate.url}/api/sessions/waits/reminders", data={"task": "drink tea", "dueAt": due}
        )
        assert added.ok
        await page.goto(f"{gate.url}/console/sessions")
        row = page.locator(f".session-list {ROW}").filter(has_text="waits")
        await expect(row.locator(".c-due")).to_have_text(WORDS["en"]["frame.is_due"])
        await page.goto(f"{gate.url}/console/session?id=waits&tab=reminders")
        listed = page.locator("#session-tab li")
        await expect(listed).to_contain_text(f"· {WORDS['en']['frame.is_due']}")


async def report_much(route: Route) -> None:
    """Answer as the gateway does, as if it had been busy."""
    answer = await route.fetch()
    found = await answer.json()
    series, count = found["series"], len(found["times"])
    # It keeps figures every ten seconds; then the page asks again.
    much = {
        "turns": 1_204,
        "reported_turns": 312,
        "tokens_in": 1_234_567,
        "tokens_out": 987_654,
    }
    for name, number in much.items() if count else ():
        series[name] = [0] * (count - 1) + [number]
    await route.fulfill(response=answer, json=found)


@pytest.mark.parametrize("width", [1440, 390])
async def test_how_many_turns_reported_tokens_can_be_read(
    gate: GatewayProcess, chromium: Chromium, width: int
) -> None:
    async with chromium.open("about:blank", width=width) as tab:
        page = tab.page
        await page.route("**/api/console/metrics?*", report_much)
        await page.goto(f"{gate.url}/console/health")
        plot = page.locator(".plot-box").filter(has_text="Tokens")
        await expect(plot).to_contain_text("312 of 1,204 turns")
        assert await plot.locator("figcaption *, .keys *").evaluate_all(FIND_CUT) == []
