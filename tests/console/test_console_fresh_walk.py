"""What is shown is of now, or grey: figures of every page while the line is broken, and when it is back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Page, Route, expect

from tests.console.chromium import open_tab, start_chromium
from tests.console.measures import FIGURES, POINTER, find_bright, measure
from tests.console.proxy import LineProxy, start_proxy
from tests.console.scenes import QUICK, WORDS, Happened, get_answer, let_things_happen
from tests.console.test_console_line_walk import BROKEN, ONLINE, see

SAY = WORDS["en"]
PATHS = {
    "live": "",
    "exchange": "exchange?id={done}",
    "session": "session?id=tea&tab=exchanges",
    "sessions": "sessions",
    "tools": "tools",
    "jobs": "jobs?id={failing}",
    "job": "job?id={failing}",
    "health": "health",
    "chat": "chat",
}
MANY_CALLS = 4321


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    with let_things_happen(tmp_path_factory.mktemp("gateway")) as done:
        yield done


@pytest.fixture
async def proxy(happened: Happened) -> AsyncIterator[LineProxy]:
    async with start_proxy(happened.gate.port) as started:
        yield started


@pytest.fixture
async def context() -> AsyncIterator[BrowserContext]:
    async with start_chromium() as chromium:
        found = await chromium.browser.new_context(
            locale="en-GB", viewport={"width": 1440, "height": 900}
        )
        yield found
        await found.close()


async def make_ready(page: Page, name: str) -> None:
    """Have something to be seen for each figure of a page."""
    await see(page, "live")
    if name == "live":
        card = page.get_by_role("button", name=f"{SAY['live.try_run']}: {SAY['live.try_go_on']}")
        await card.click()
    if name == "chat":
        await get_answer(page, SAY)
    for selector in FIGURES[name]:
        await expect(page.locator(selector).first).to_be_visible()


async def break_line(page: Page, proxy: LineProxy) -> None:
    proxy.fail(502)
    await see(page, "offline")


async def mend_line(page: Page, proxy: LineProxy) -> None:
    proxy.pass_on()
    await page.evaluate(ONLINE)
    await see(page, "live")


async def test_while_the_line_is_broken_no_figure_looks_like_now(
    happened: Happened, proxy: LineProxy, context: BrowserContext
) -> None:
    async with open_tab(context, f"{proxy.url}/console/", BROKEN) as tab:
        page = tab.page
        for name, path in PATHS.items():
            await page.goto(f"{proxy.url}/console/{path.format(**happened.ids)}")
            await make_ready(page, name)
            assert len(await find_bright(page, name)) >= len(FIGURES[name]), name
            await break_line(page, proxy)
            assert await find_bright(page, name) == [], name
            # The line says each second when it tries again; it is read out once.
            faults = await measure(page, POINTER)
            assert [one for one in faults if one.startswith("silent")] == [], name
            assert await page.locator(".banner [role=timer]").count() == 1
            await mend_line(page, proxy)
            assert len(await find_bright(page, name)) >= len(FIGURES[name]), name


async def add_calls(route: Route) -> None:
    """Answer as the gateway does, as if the first tool had been called often."""
    answer = await route.fetch()
    found: Any = await answer.json()
    found["tools"][0]["calls"] = MANY_CALLS
    await route.fulfill(response=answer, json=found)


async def test_tools_go_on_while_a_button_has_the_focus(
    proxy: LineProxy, context: BrowserContext
) -> None:
    async with open_tab(context, f"{proxy.url}/console/tools", BROKEN) as tab:
        page = tab.page
        schema = page.get_by_role("button", name=SAY["tools.schema_of"].format(name="clock"))
        await schema.click()
        await page.keyboard.press("Escape")
        await expect(schema).to_be_focused()
        await page.route("**/api/console/tools", add_calls)
        await break_line(page, proxy)
        await mend_line(page, proxy)
        calls = SAY["tools.n_calls.other"].format(n=f"{MANY_CALLS:,}")
        await expect(page.get_by_role("row").filter(has_text="clock")).to_contain_text(calls)
        await expect(schema).to_be_focused()


async def test_usage_goes_on(happened: Happened, proxy: LineProxy, context: BrowserContext) -> None:
    """It is read again with the plots, and when the line is back."""
    async with open_tab(context, f"{proxy.url}/console/", BROKEN) as tab:
        page = tab.page
        await page.clock.install()
        await page.goto(f"{proxy.url}/console/health")
        await see(page, "live")
        number = page.locator(".table:not(.tight) tbody tr td").nth(2)
        before = int(await number.inner_text())
        await ask_model(page, happened)
        await page.clock.fast_forward(11_000)
        await expect(number).to_have_text(str(before + 1))
        await ask_model(page, happened)
        await break_line(page, proxy)
        await mend_line(page, proxy)
        await expect(number).to_have_text(str(before + 2))


async def ask_model(page: Page, happened: Happened) -> None:
    """Ask the demo model, and read its answer to the end."""
    body = {"model": "demo", "messages": [{"role": "user", "content": QUICK}]}
    url = f"{happened.gate.url}/v1/chat/completions"
    assert (await page.request.post(url, data=body)).ok
