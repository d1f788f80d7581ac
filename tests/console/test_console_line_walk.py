"""The line between page and gateway breaks in every way; the page says so and mends itself.

While the line is broken a sampler in the page notes, many times a second, what a person sees. At
no time may old figures look like those of now.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from playwright.async_api import BrowserContext, Error, Page, expect

from tests.console.chromium import Chromium, Tab, open_tab, start_chromium
from tests.console.proxy import LineProxy, start_proxy
from tests.gateway.wire import ask_of, chat, text, turn
from tests.jobs.words import keys
from tests.run import ROOT, GatewayProcess, as_process, plain_failures, upstreams_of
from tests.wire.fake import CHUNKED, LAST, FakeUpstream, Peer, chunk, fake_upstream

SAMPLE = """
(() => {
  window.samples = [];
  const shown = (node) => node !== null && !node.hidden;
  window.takeSample = () => {
    const word = document.querySelector(".connection span:last-child");
    const main = document.querySelector("main");
    if (!word?.textContent || !main) return;
    const banner = document.querySelector(".banner");
    const rows = [...document.querySelectorAll(".w-row:not([hidden])")];
    const figures = [...document.querySelectorAll("main :is(.state, .w-row:not([hidden]) > *, .chips b, .notes li, .figures dd, .story li, .tab-list b)")];
    const isGrey = (node) => node !== null && (getComputedStyle(node).filter.includes("saturate") || isGrey(node.parentElement));
    samples.push({
      at: Date.now(),
      word: word.textContent,
      stale: main.hasAttribute("data-stale"),
      figures: figures.length,
      grey: figures.every(isGrey),
      banner: shown(banner) ? banner.textContent : "",
      count: document.querySelector("a.item .count")?.textContent ?? "",
      rows: rows.map((row) => row.textContent),
    });
  };
  // After each frame, when all is drawn.
  const sampleNext = () => requestAnimationFrame(() => setTimeout(() => { takeSample(); sampleNext(); }));
  sampleNext();
  // A word may be gone before the next frame.
  window.staleWords = [];
  const noteStale = (changes) => {
    if (!changes.some((one) => one.target.matches("main[data-stale]"))) return;
    staleWords.push(document.querySelector(".connection span:last-child").textContent);
  };
  const watched = { attributeFilter: ["data-stale"], subtree: true };
  new MutationObserver(noteStale).observe(document, watched);
})();
"""
# What browsers say of a line that a test has broken.
BROKEN = ("Failed to load resource", "ERR_", "Failed to fetch dynamically imported module")
AGAIN = re.compile(r"offline.*again in \d+:\d\d.*as of \d\d:\d\d:\d\d")
# A connection that was closed is heard of at once; this is for a busy machine.
SLACK_MS = 15_000
STALL_MS = 15_000
PATIENCE = 60
HANGS = "hang"
# The browser says so when its network is back; then nothing waits.
ONLINE = "dispatchEvent(new Event('online'))"
WORD = ".connection span:last-child"
HIDE = """
window.isHidden = false;
Object.defineProperty(document, "hidden", { get: () => window.isHidden });
window.setHidden = (hidden) => {
  window.isHidden = hidden;
  document.dispatchEvent(new Event("visibilitychange"));
};
"""


async def play_model(peer: Peer) -> None:
    """Answer at once, unless the message says to hang."""
    while True:
        request = await peer.request()
        if HANGS.encode() in request.body:
            await peer.send(CHUNKED, chunk(text("one moment")))
            await peer.gone()
            return
        await peer.send(CHUNKED, chunk(turn("done")), LAST)


@dataclass
class Line:
    """A gateway that can be started again, the proxy before it, and a browser."""

    home: Path
    settings: dict[str, str]
    gate: GatewayProcess
    proxy: LineProxy
    chromium: Chromium

    async def ask(self, message: str, session: str) -> None:
        """Ask the model directly, beside the proxy; wait for its answer, or for its begin."""
        client = await self.gate.connect()
        await client.send(ask_of(chat(message), f"x-session-id: {session}"))
        await client.saw(b"one moment" if message == HANGS else b"[DONE]")

    async def add_job(self, page: Page, name: str) -> None:
        """Add a job that is not due for long."""
        schedule = {"kind": "every", "every_ms": 3_600_000}
        job = {"name": name, "message": "hi", "session_id": "tea", "schedule": schedule}
        answer = await page.request.post(f"{self.gate.url}/api/cron/add", data=job)
        assert answer.ok, await answer.text()

    async def fetch(self, page: Page, path: str) -> Any:
        """Ask the gateway for JSON, as the page would."""
        return await (await page.request.get(f"{self.gate.url}{path}")).json()

    async def list_exchanges(self, page: Page, query: str = "") -> list[str]:
        """Return the ids of all exchanges that the gateway knows."""
        found = await self.fetch(page, f"/api/console/exchanges?limit=500{query}")
        return sorted(row["id"] for row in found["exchanges"])

    async def restart(self, **settings: str) -> None:
        """Start the gateway again, at another port, behind the same proxy."""
        await self.gate.__aexit__()
        self.gate = as_process(self.home, {**self.settings, **settings})
        await self.gate.__aenter__()
        self.proxy.target = self.gate.port

    @asynccontextmanager
    async def open(self, *paths: str, **options: Any) -> AsyncIterator[list[Tab]]:
        """Open tabs of one profile, each with a sampler."""
        async with AsyncExitStack() as stack:
            context = await self.chromium.browser.new_context(locale="en-GB", **options)
            stack.push_async_callback(context.close)
            await context.add_init_script(SAMPLE)
            yield [await stack.enter_async_context(self.open_one(context, one)) for one in paths]

    def open_one(self, context: BrowserContext, path: str) -> AbstractAsyncContextManager[Tab]:
        """Open one tab; it may say that the line is broken."""
        return open_tab(context, f"{self.proxy.url}/console/{path}", BROKEN)


@asynccontextmanager
async def draw_line(home: Path, **settings: str) -> AsyncIterator[Line]:
    """Start all of it."""
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        fake: FakeUpstream = await stack.enter_async_context(fake_upstream(play_model))
        tables = upstreams_of(fake.port)
        named = {f"HOLDGATE_{name.upper()}": json.dumps(table) for name, table in tables.items()}
        fixed = {"ROUTECODEX_CLOCK_NTP": "off", **named, **settings}
        gate = as_process(home, fixed)
        await gate.__aenter__()
        proxy = await stack.enter_async_context(start_proxy(gate.port))
        chromium = await stack.enter_async_context(start_chromium())
        line = Line(home, fixed, gate, proxy, chromium)
        try:
            yield line
        finally:
            await line.gate.__aexit__()


async def wait_until(page: Page, fact: str) -> None:
    """Wait until something is so in a page, whose policy forbids Playwright's own way."""
    with anyio.fail_after(PATIENCE):
        while True:
            # It may be loaded again at this moment.
            with suppress(Error):
                if await page.evaluate(f"() => {fact}"):
                    return
            await anyio.sleep(0.02)


async def see(page: Page, word: str) -> None:
    """Wait until the foot says this of the connection."""
    await expect(page.locator(WORD)).to_have_text(word)


async def see_offline(page: Page) -> None:
    """Wait until the page says that it is offline, and was sampled while it does."""
    await see(page, "offline")
    await expect(page.locator(".banner")).to_have_text(AGAIN)
    await wait_until(page, "samples.at(-1).at - samples.find((one) => one.stale)?.at > 1000")


async def read_rows(page: Page) -> list[str]:
    """Return the ids of the exchanges in the list."""
    links = page.locator(".w-row:not([hidden]) .c-session a")
    hrefs = await links.evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
    return sorted(href.partition("id=")[2] for href in hrefs)


async def take_samples(page: Page) -> list[dict[str, Any]]:
    """Return what was seen since the last time."""
    found: list[dict[str, Any]] = await page.evaluate("samples.splice(0)")
    return found


def check_samples(
    samples: list[dict[str, Any]], broke_at: float, allowed_ms: float, back_at: float
) -> None:
    """From soon after the line broke until it was mended, nothing may have looked like now."""
    after = [one for one in samples if broke_at <= one["at"] <= back_at]
    seen = list(itertools.dropwhile(lambda one: not one["stale"], after))
    assert seen
    assert seen[0]["at"] < broke_at + allowed_ms + SLACK_MS
    for one in seen:
        assert one["word"] in ("offline", "behind", "draining"), one
        assert one["stale"], one
        assert one["figures"] > 0, one
        assert one["grey"], one
        assert re.search(r"as of \d\d:\d\d:\d\d", one["banner"]), one
    # What is shown as of an earlier time stands still; the last answer may just have come.
    settled = [one for one in seen if one["at"] > seen[0]["at"] + 500]
    figures = {json.dumps([one["count"], one["rows"]]) for one in settled}
    assert len(figures) == 1, figures


def tell_time() -> float:
    """Return the time in UTC milliseconds, as pages do."""
    return time.time() * 1000


async def wait_for_rows(line: Line, page: Page, query: str = "") -> None:
    """Wait until the list has exactly what the gateway says: no row doubled or lost."""
    with anyio.fail_after(PATIENCE):
        while True:
            wanted = await line.list_exchanges(page, query)
            shown = await read_rows(page)
            if shown == wanted:
                return
            await anyio.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_restart_heals_every_page(tmp_path: Path, number: int) -> None:
    async with draw_line(tmp_path, HOLDGATE_SERVER__DRAIN_MS="15000") as line:
        await line.ask("hello", "tea")
        await line.ask(HANGS, "tea")
        paths = ("", "jobs", "session?id=tea&tab=exchanges")
        async with line.open(*paths, viewport={"width": 1280, "height": 900}) as tabs:
            live, jobs, session = (tab.page for tab in tabs)
            await line.add_job(jobs, "Morning check")
            (hangs,) = await line.list_exchanges(live, "&state=live")
            one = line.open_one(live.context, f"exchange?id={hangs}")
            async with one as exchange_tab:
                exchange = exchange_tab.page
                pages = (live, jobs, session, exchange)
                for page in pages:
                    await see(page, "live")
                await wait_for_rows(line, live)
                await expect(jobs.get_by_role("row")).to_have_count(2)
                await expect(exchange.locator("main .state").first).to_have_text("relaying")
                line.gate.signal(number)
                if number == signal.SIGTERM:
                    for page in pages:
                        await see(page, "draining")
                    # What is still open is still shown as it is.
                    assert await line.list_exchanges(live) == await read_rows(live)
                await line.gate.gone()
                gone_at = tell_time()
                for page in pages:
                    await see_offline(page)
                back_at = tell_time()
                await line.restart()
                for page in pages:
                    await see(page, "live")
                    await expect(page.locator(".banner")).to_be_hidden()
                    check_samples(await take_samples(page), gone_at, 0, back_at)
                await line.ask("hello", "tea")
                await wait_for_rows(line, live)
                await wait_for_rows(line, session, "&session=tea")
                await expect(jobs.get_by_role("row")).to_have_count(2)
                await expect(jobs.get_by_role("row").last).to_contain_text("Morning check")
                # It was under way when the gateway went.
                if number == signal.SIGTERM:
                    await expect(exchange.locator("main .state").first).to_have_text("failed")
                else:
                    await expect(exchange.get_by_role("alert")).to_contain_text("not_found")


async def open_hidden(line: Line, page: Page) -> None:
    """Hide the page for longer than the feed lasts then."""
    await page.evaluate("setHidden(true)")
    await page.clock.fast_forward(31_000)
    with anyio.fail_after(PATIENCE):
        await line.proxy.wait_until_no_feed()


async def test_what_a_proxy_answers_is_not_taken_for_the_gateway(tmp_path: Path) -> None:
    async with draw_line(tmp_path) as line:
        await line.ask(HANGS, "tea")
        async with line.open("", "", viewport={"width": 1280, "height": 900}) as tabs:
            page, second = (tab.page for tab in tabs)
            for one in (page, second):
                await see(one, "live")
                await wait_for_rows(line, one)
            for status in (502, 503):
                await take_samples(page)
                broke_at = tell_time()
                line.proxy.fail(status)
                for one in (page, second):
                    await see_offline(one)
                # What happens meanwhile is not lost.
                await line.ask("hello", f"during-{status}")
                back_at = tell_time()
                line.proxy.pass_on()
                for one in (page, second):
                    if status == 503:
                        await one.evaluate(ONLINE)
                    await see(one, "live")
                    await wait_for_rows(line, one)
                check_samples(await take_samples(page), broke_at, 0, back_at)
            # A page whose files were never loaded opens by itself when the line is back.
            line.proxy.fail(502)
            await see_offline(page)
            await page.get_by_role("link", name="Health").first.click()
            await expect(page.get_by_role("alert")).to_be_visible()
            line.proxy.pass_on()
            await page.evaluate(ONLINE)
            await expect(page.get_by_role("heading", level=1)).to_have_text("Health")
            await see(page, "live")


async def test_no_number_is_shown_before_one_is_known(tmp_path: Path) -> None:
    async with draw_line(tmp_path) as line:
        async with line.open("") as (tab,):
            page = tab.page
            # The page's files come, and nothing else.
            await page.route("**/api/console/feed?*", lambda route: route.abort())
            await page.reload()
            await expect(page.get_by_role("heading", level=1)).to_have_text("Live")
            await see(page, "offline")
            await expect(page.locator("main svg text")).to_have_count(0)
            await page.unroute("**/api/console/feed?*")
            await see(page, "live")
            await expect(page.locator("main svg text").first).to_be_visible()


async def test_a_stall_is_noticed_and_the_page_connects_again(tmp_path: Path) -> None:
    async with draw_line(tmp_path) as line:
        async with line.open("") as (tab,):
            page = tab.page
            await page.clock.install()
            await page.reload()
            await see(page, "live")
            await line.ask("hello", "tea")
            await wait_for_rows(line, page)
            line.proxy.stall()
            # So long a page may believe that nothing happens.
            await page.clock.fast_forward(STALL_MS)
            await see(page, "behind")
            await expect(page.locator(".banner")).to_have_text(re.compile("behind.*as of"))
            await expect(page.locator("main")).to_have_attribute("data-stale", "")
            await line.ask("hello", "tea")
            await page.evaluate("takeSample()")
            assert len(await read_rows(page)) == 1
            line.proxy.pass_on()
            await see(page, "live")
            await wait_for_rows(line, page)


async def test_sleep_a_hidden_tab_and_a_second_tab(tmp_path: Path) -> None:
    async with draw_line(tmp_path) as line:
        async with line.open("", "") as tabs:
            page, second = (tab.page for tab in tabs)
            await page.add_init_script(HIDE)
            await page.clock.install()
            await page.reload()
            for one in (page, second):
                await see(one, "live")
            # The lid is closed for five minutes; nothing was heard meanwhile, and then all is.
            await line.ask("hello", "during-sleep")
            await page.clock.fast_forward(300_000)
            await wait_until(page, "staleWords.includes('behind')")
            await see(page, "live")
            await wait_for_rows(line, page)
            # The same while the line was cut.
            line.proxy.cut()
            await page.clock.fast_forward(300_000)
            await see(page, "live")
            await wait_for_rows(line, page)
            await second.close()
            tabs[1].wrong.clear()
            await open_hidden(line, page)
            await line.ask("hello", "while-hidden")
            assert await page.locator(WORD).text_content() == "behind"
            await page.evaluate("setHidden(false)")
            await see(page, "live")
            await wait_for_rows(line, page)
            assert line.proxy.feeds == 1


async def test_a_key_that_is_gone_leads_to_the_sign_in(tmp_path: Path) -> None:
    known = json.dumps(keys("ann"))
    async with draw_line(tmp_path, HOLDGATE_KEYS=known) as line:
        async with line.open("jobs") as (tab,):
            page = tab.page
            await sign_in(page, "ann")
            await see(page, "live")
            line.proxy.cut()
            await line.restart(HOLDGATE_KEYS=json.dumps(keys("bob")))
            await expect(page.get_by_label("Key")).to_be_visible()
            assert await page.locator(".w-row").count() == 0
            await line.restart(HOLDGATE_KEYS=known)
            await sign_in(page, "ann")
            await see(page, "live")
            await expect(page.locator(".banner")).to_be_hidden()
            await expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


async def sign_in(page: Page, owner: str) -> None:
    """Sign in with a key."""
    await page.get_by_label("Key").fill(f"key-{owner}")
    await page.get_by_role("button", name="Sign in").click()


async def test_a_new_version_loads_unless_something_is_edited(tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ROOT / "gateway", other / "gateway", ignore=shutil.ignore_patterns("*.pyc"))
    with (other / "gateway/api/console/base.css").open("a") as file:
        file.write("/* another version */\n")
    home = tmp_path / "home"
    home.mkdir()
    async with draw_line(home) as line:
        async with line.open("", "jobs") as tabs:
            idle, edits = (tab.page for tab in tabs)
            for page in (idle, edits):
                await see(page, "live")
                await page.evaluate("window.isOld = true")
            await edits.get_by_role("button", name="New job").first.click()
            name = edits.get_by_role("dialog").get_by_label("Name")
            await name.fill("Half written")
            line.proxy.cut()
            await line.restart(PYTHONPATH=str(other))
            await wait_until(idle, "window.isOld === undefined")
            await see(idle, "live")
            await see(edits, "new version")
            await expect(name).to_have_value("Half written")
            assert await edits.evaluate("window.isOld")
            await edits.keyboard.press("Escape")
            await wait_until(edits, "window.isOld === undefined")
            await see(edits, "live")


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_five_minutes_of_sleep(tmp_path: Path) -> None:
    """The page stands still for five minutes, while the gateway goes on and begins anew."""
    async with draw_line(tmp_path) as line:
        async with line.open("", "jobs") as tabs:
            live, jobs = (tab.page for tab in tabs)
            await line.add_job(jobs, "Morning check")
            await line.ask(HANGS, "tea")
            for page in (live, jobs):
                await see(page, "live")
            await wait_for_rows(line, live)
            for number in (signal.SIGSTOP, signal.SIGCONT):
                await signal_renderers(line.chromium, number)
                if number == signal.SIGSTOP:
                    slept_at = tell_time()
                    # Much happens, so that what was sent before it ended is old.
                    for second in range(30):
                        await anyio.sleep(10)
                        await line.ask("hello", f"during-{second}")
                        if second == 20:
                            await line.gate.kill()
                            await line.restart()
            woke_at = tell_time()
            for page in (live, jobs):
                await see(page, "live")
            await wait_for_rows(line, live)
            await expect(jobs.get_by_role("row")).to_have_count(2)
            assert woke_at - slept_at >= 300_000
            for one in await take_samples(live):
                # The exchange that hung is gone with its gateway.
                assert one["at"] < woke_at or one["stale"] or one["count"] == "", one


async def signal_renderers(chromium: Chromium, number: int) -> None:
    """Send a signal to the processes that run the pages."""
    session = await chromium.browser.new_browser_cdp_session()
    found = await session.send("SystemInfo.getProcessInfo")
    for process in found["processInfo"]:
        if process["type"] == "renderer":
            os.kill(process["id"], number)
    await session.detach()
