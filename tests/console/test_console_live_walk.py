"""Live finds and keeps what a person looks for: of very many, of the last hour, under a finger."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, Route, expect

from tests.console.chromium import Chromium, start_chromium
from tests.console.scenes import QUICK, ROW, WORDS, Happened, let_things_happen

SAY = WORDS["en"]
HOUR_MS = 3_600_000
MANY = 1_203


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    with let_things_happen(tmp_path_factory.mktemp("gateway")) as done:
        yield done


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def answer_over(route: Route) -> None:
    """Answer as the feed does when more are live than it lists, and end."""
    state = {"live": {"put": {"over": {"count": 2_001}}, "reset": True}}
    events = f"event: state\ndata: {json.dumps(state)}\n\n"
    await route.fulfill(content_type="text/event-stream", body=events)


async def test_of_too_many_to_list_a_search_finds_one_that_is_live(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open("about:blank") as tab:
        page = tab.page
        await page.route("**/api/console/feed?*", answer_over)
        await page.goto(happened.find_url(""))
        await expect(page.get_by_text("2,001 answers are under way")).to_be_visible()
        rows = page.locator(f".live-list {ROW}")
        await page.get_by_role("searchbox").fill("tea")
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text(SAY["state.holding"])
        await page.goto(happened.find_url("live?state=holding"))
        await expect(rows.filter(has_text="tea")).to_contain_text(SAY["state.holding"])
        await page.goto(happened.find_url("live?q=morning"))
        await expect(rows).to_have_count(1)
        await expect(rows).to_contain_text(SAY["state.done"])


async def make_old(route: Route) -> None:
    """Answer as the gateway does, two hours after the first exchange."""
    answer = await route.fetch()
    found: Any = await answer.json()
    for row in found["exchanges"]:
        if row["session"] == "broken":
            row["begun_at"] -= 2 * HOUR_MS
    await route.fulfill(response=answer, json=found)


async def test_those_that_ended_are_those_of_the_last_hour(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open("about:blank") as tab:
        page = tab.page
        broken = page.locator(f".live-list {ROW}").filter(has_text="broken")
        await page.goto(happened.find_url("live?state=failed"))
        await expect(broken).to_have_count(1)
        await page.route("**/api/console/exchanges?*", make_old)
        await page.goto(happened.find_url("live?state=failed&q=broken"))
        await expect(page.get_by_text(SAY["live.none_fits"])).to_be_visible()
        await expect(broken).to_have_count(0)
        await page.goto(happened.find_url("live?state=ended"))
        await expect(page.locator(f".live-list {ROW}").first).to_be_visible()
        await expect(broken).to_have_count(0)


class ManyEnded:
    """Answers like the gateway, in pages, as if very many exchanges had ended."""

    def __init__(self, count: int, row: dict[str, Any]) -> None:
        self.count = count
        self.row = row

    async def answer(self, route: Route) -> None:
        """Answer with a page of rows, each a copy of one that really ended."""
        query = parse_qs(urlsplit(route.request.url).query)
        begin = int(query.get("after", ["0"])[0])
        end = min(begin + int(query["limit"][0]), self.count)
        rows = [{**self.row, "id": f"req_{number}"} for number in range(begin, end)]
        follow = str(end) if end < self.count else None
        await route.fulfill(json={"exchanges": rows, "next": follow, "total": self.count})


async def test_the_last_hour_is_listed_to_its_end(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open("about:blank") as tab:
        page = tab.page
        url = f"{happened.gate.url}/api/console/exchanges?state=done&limit=1"
        (row,) = (await (await page.request.get(url)).json())["exchanges"]
        await page.route("**/api/console/exchanges?*", ManyEnded(MANY, row).answer)
        await page.goto(happened.find_url("live?state=ended"))
        # With the line of titles.
        rows = str(MANY + 1)
        await expect(page.get_by_role("grid")).to_have_attribute("aria-rowcount", rows)


async def ask_model(page: Page, happened: Happened, session: str) -> None:
    """Ask the demo model in a session, and read its answer to the end."""
    body = {"model": "demo", "messages": [{"role": "user", "content": QUICK}]}
    url = f"{happened.gate.url}/v1/chat/completions"
    answer = await page.request.post(url, data=body, headers={"x-session-id": session})
    assert answer.ok


async def test_rows_keep_their_places_under_a_finger(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open(happened.find_url(""), width=390, has_touch=True) as tab:
        page = tab.page
        touched = page.locator(f".live-list {ROW}[aria-rowindex='3'] .c-session")
        await expect(touched).not_to_be_empty()
        await touched.scroll_into_view_if_needed()
        before = await touched.inner_text()
        box = await touched.bounding_box()
        assert box is not None
        session = await page.context.new_cdp_session(page)
        point = {"x": box["x"] + 20, "y": box["y"] + 10}
        # The finger scrolls the page, and stays there.
        for kind, by in (("touchStart", 0), ("touchMove", 20), ("touchMove", 40)):
            moved = [{"x": point["x"], "y": point["y"] - by}]
            touch = {"type": kind, "touchPoints": moved}
            await session.send("Input.dispatchTouchEvent", touch)
        await ask_model(page, happened, "while-touched")
        await expect(page.locator(".fresh")).to_be_visible()
        assert await touched.inner_text() == before
        await session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        await expect(page.locator(".fresh")).to_be_hidden()
        # What is live comes first.
        await expect(touched).to_contain_text("while-touched")


NEEDS: tuple[dict[str, Any], ...] = (
    {"kind": "draining", "id": "", "name": ""},
    {"kind": "store", "id": "", "name": "The disk is full."},
    {"kind": "scheduler_off", "id": "", "name": ""},
    {"kind": "ntp", "id": "", "name": "No time server answered."},
    {"kind": "upstream_cooling", "id": "glm", "name": "glm", "until": 0},
    {"kind": "job_failing", "id": "job_1", "name": "Disk report", "count": 3, "at": 0},
    {"kind": "job_disabled", "id": "job_2", "name": "Water", "count": 5, "at": 0},
    {"kind": "missed", "id": "job_3", "name": "Backup", "count": 4, "at": 0},
)
LINKS = {"job_failing": "jobs?id=job_1", "job_disabled": "jobs?id=job_2", "missed": "jobs?id=job_3"}
COUNTS = {
    "job_failing": "live.in_a_row.other",
    "job_disabled": "live.after_failures.other",
    "missed": "live.missed_times.other",
}


async def answer_needs(route: Route) -> None:
    """Answer as the feed does when all goes wrong at once, and end."""
    states = ("opening", "relaying", "tooling", "holding", "closing")
    ended = dict.fromkeys(("done", "failed", "gone"), 0)
    row = {"live": dict.fromkeys(states, 0), "ended": ended, "needs": NEEDS, "coming": []}
    state = {"summary": {"put": {"all": row}, "reset": True}}
    events = f"event: state\ndata: {json.dumps(state)}\n\n"
    await route.fulfill(content_type="text/event-stream", body=events)


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_all_that_needs_a_look_is_said(
    chromium: Chromium, happened: Happened, language: str
) -> None:
    words = WORDS[language]
    async with chromium.open("about:blank", language=language) as tab:
        page = tab.page
        await page.route("**/api/console/feed?*", answer_needs)
        await page.goto(happened.find_url(""))
        notes = page.locator(".hero > :nth-child(2) li:not(.more-notes)")
        await expect(notes).to_have_count(len(NEEDS))
        for note, need in zip(await notes.all(), NEEDS, strict=True):
            kind = str(need["kind"])
            known = f"live.{kind}" if f"live.{kind}" in words else f"live.need_{kind}"
            await expect(note).to_contain_text(words[known].format(**need))
            link = f"/console/{LINKS.get(kind, 'health')}"
            await expect(note.get_by_role("link")).to_have_attribute("href", link)
            if kind in COUNTS:
                await expect(note).to_contain_text(words[COUNTS[kind]].format(n=need["count"]))
            elif kind in ("store", "ntp"):
                await expect(note).to_contain_text(str(need["name"]))
            else:
                await expect(note.locator(".glyph")).to_be_visible()
        await page.goto(happened.find_url("jobs"))
        await expect(page.locator(".job-banner")).to_have_text(words["jobs.draining"])
