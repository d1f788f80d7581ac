"""The console's pages in a real browser, against a gateway process with the demo model."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.console.chromium import Chromium, find_barriers, start_chromium
from tests.console.scenes import SETTINGS, hold_longer
from tests.run import GatewayProcess, as_process

PAGES = ("", "chat", "sessions", "tools", "jobs", "health")
LOOKS = (("en", "light", 1440), ("zh", "dark", 390))
WORDS = {
    language: json.loads(
        Path(__file__).parents[2].joinpath(f"gateway/api/console/words-{language}.json").read_text()
    )
    for language in ("en", "zh")
}
PLACES = {"": "live"}


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


@pytest.mark.parametrize(("language", "theme", "width"), LOOKS)
async def test_every_page_opens_and_keeps_nobody_out(
    gate: GatewayProcess, chromium: Chromium, language: str, theme: str, width: int
) -> None:
    barriers: list[str] = []
    for name in PAGES:
        url = f"{gate.url}/console/{name}"
        async with chromium.open(url, language=language, theme=theme, width=width) as tab:
            title = WORDS[language][f"{PLACES.get(name, name)}.title"]
            await expect(tab.page.get_by_role("heading", level=1)).to_have_text(title)
            barriers += [f"{name}: {one}" for one in await find_barriers(tab.page)]
    assert barriers == []


async def fetch(page: Page, url: str) -> Any:
    """Ask the gateway for JSON, as the page would."""
    return await (await page.request.get(url)).json()


async def test_the_first_minute(gate: GatewayProcess, chromium: Chromium) -> None:
    """Four real requests: a hold is ended by hand and goes on, and opens as an exchange."""
    async with chromium.open(f"{gate.url}/console/") as tab:
        page = tab.page
        await page.route("**/v1/chat/completions", hold_longer)
        await page.get_by_role("button", name="Run all four").click()
        held = page.get_by_role("row").filter(has_text="try-hold").first
        await expect(held).to_contain_text("goes on in")
        session = await held.get_by_role("link").first.inner_text()
        await held.get_by_role("link").first.click()
        await expect(page).to_have_url(re.compile(r"/console/exchange\?id=req_"))
        await page.get_by_role("button", name="End the hold").click()
        await expect(page.locator("main")).to_contain_text("done")
        listed = await fetch(page, f"{gate.url}/api/console/exchanges?session={session}")
        (row,) = listed["exchanges"]
        assert row["state"] == "done"
        trail = await fetch(page, f"{gate.url}/api/console/exchanges/{row['id']}")
        assert [hold["outcome"] for hold in trail["holds"]] == ["by_hand"]


TRIED = {"hold": "holding", "go-on": "done", "job": "done", "break": "failed"}


async def test_all_four_of_try_it_happen_and_open(gate: GatewayProcess, chromium: Chromium) -> None:
    """In both languages at the same time: a job fires, a stop message goes on twice, an answer breaks."""
    async with (
        chromium.open(f"{gate.url}/console/") as english,
        chromium.open(f"{gate.url}/console/", language="zh") as chinese,
    ):
        tabs = {"en": english.page, "zh": chinese.page}
        for language, page in tabs.items():
            await page.get_by_role("button", name=WORDS[language]["live.try_all"]).click()
            # A list that is pointed at stands still.
            await page.mouse.move(0, 0)
        # The holds last 20 s: both are looked at first.
        for language, page in tabs.items():
            hold = page.locator(".try-status").first
            await expect(hold).to_contain_text(WORDS[language]["state.holding"])
            await expect(hold.get_by_role("timer")).to_be_visible()
        for language, page in tabs.items():
            words = WORDS[language]
            hold, go_on, job, broken = await page.locator(".try-status").all()
            await expect(hold).to_contain_text(words["state.done"])
            await expect(go_on).to_contain_text(words["state.done"])
            await expect(broken).to_contain_text(words["state.failed"])
            await expect(job).to_contain_text(words["state.done"])
            links = [
                await one.get_by_role("link").get_attribute("href")
                for one in (hold, go_on, job, broken)
            ]
            trails = [await open_trail(page, gate, str(link), words) for link in links]
            sessions = [trail["session"] for trail in trails]
            for session, name in zip(sessions, TRIED, strict=True):
                assert session.startswith(f"try-{name}-")
            assert [turn["round"] for turn in trails[1]["turns"]] == [None, [1, 2], [2, 2]]
            assert (trails[2]["kind"], trails[2]["state"]) == ("job", "done")
            assert trails[3]["state"] == "failed"
            assert trails[0]["holds"][0]["until"] - trails[0]["holds"][0]["at"] <= 20_000


async def open_trail(page: Page, gate: GatewayProcess, link: str, words: dict[str, str]) -> Any:
    """Open an exchange's page by its link, see it told, and return its trail."""
    await page.goto(f"{gate.url}{link}")
    trail = await fetch(page, f"{gate.url}/api/console/exchanges/{link.partition('id=')[2]}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(trail["session"])
    await expect(page.locator(".head .pill")).to_contain_text(words[f"state.{trail['state']}"])
    await expect(page.locator(".story li").first).to_be_visible()
    return trail


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_scheduler_that_is_off_is_said_once(
    tmp_path: Path, chromium: Chromium, language: str
) -> None:
    words = WORDS[language]
    off = {"ROUTECODEX_CLOCK_NTP": "off", "HOLDGATE_CRON__ENABLED": "false"}
    with as_process(tmp_path, off) as gate:
        async with chromium.open(f"{gate.url}/console/", language=language) as tab:
            needs = tab.page.locator(".hero > :nth-child(2)")
            await expect(needs).to_contain_text(words["live.need_scheduler_off"])
            await tab.page.goto(f"{gate.url}/console/jobs")
            banner = tab.page.locator(".job-banner")
            await expect(banner).to_have_text(words["jobs.scheduler_off"])


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_a_job_is_made_with_a_preview_and_run(
    gate: GatewayProcess, chromium: Chromium, language: str
) -> None:
    words = WORDS[language]
    name = f"Water the plants {language}"
    async with chromium.open(f"{gate.url}/console/jobs", language=language) as tab:
        page = tab.page
        await page.get_by_role("button", name=words["jobs.new"]).first.click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label(words["editor.name"]).fill(name)
        await dialog.get_by_label(words["editor.message"]).fill("tell me a word")
        when = "weekdays at 18:30" if language == "en" else "工作日 18:30"
        await dialog.get_by_label(words["when.when"]).fill(when)
        await expect(dialog.get_by_text("18:30").nth(1)).to_be_visible()
        await dialog.get_by_label(words["editor.session_id"], exact=True).fill("garden")
        await dialog.get_by_role("button", name=words["frame.save"]).click()
        row = page.get_by_role("row").filter(has_text=name)
        await expect(row).to_contain_text("18:30")
        # The new job opens beside the list, which makes room for it: only then do rows stand still.
        await expect(page.get_by_role("region", name=words["job.title"])).to_be_visible()
        await row.get_by_role("button", name=words["jobs.run_named"].format(name=name)).click()
        await expect(row).to_contain_text(words["job.run_ok"])
        listed = (await fetch(page, f"{gate.url}/api/cron/list"))["data"]["jobs"]
        (job,) = [one for one in listed if one["name"] == name]
        assert (job["schedule"]["cron"], job["schedule"]["tz"]) == (
            "30 18 * * 1-5",
            "Asia/Shanghai",
        )
        assert job["last_status"] == "ok"
