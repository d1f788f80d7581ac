"""What goes wrong in Chat: models that cannot be read, and messages that are refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Route, expect

from tests.console.chromium import Tab, start_chromium
from tests.console.scenes import WORDS
from tests.run import GatewayProcess, as_process

LANGUAGES = ("en", "zh")
REFUSED = 'demo: status=400 message="not so" code=no_way'
# What the browser says of the refusals that are asked for.
TOLERATED = ("status of 400", "ERR_FAILED")
Opened = tuple[Tab, dict[str, str]]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with as_process(tmp_path_factory.mktemp("gate"), {"ROUTECODEX_CLOCK_NTP": "off"}) as started:
        yield started


@pytest.fixture(params=LANGUAGES)
async def opened(request: pytest.FixtureRequest, gate: GatewayProcess) -> AsyncIterator[Opened]:
    language = request.param
    async with (
        start_chromium() as chromium,
        chromium.open("about:blank", language=language, tolerated=TOLERATED) as tab,
    ):
        yield tab, WORDS[language]


async def test_models_that_could_not_be_read_are_read_again(
    opened: Opened, gate: GatewayProcess
) -> None:
    tab, words = opened
    page = tab.page

    async def break_off(route: Route) -> None:
        await route.abort()

    await page.route("**/v1/models", break_off)
    await page.goto(f"{gate.url}/console/chat")
    trouble = page.get_by_role("alert").filter(has_text=words["frame.unreachable"])
    await expect(trouble).to_be_visible()
    target = page.get_by_label(words["chat.target"])
    await expect(target.get_by_role("option")).to_have_count(0)
    retry = trouble.get_by_role("button", name=words["frame.retry"])
    await retry.click()
    await expect(trouble).to_be_visible()
    await page.unroute("**/v1/models")
    await retry.click()
    await expect(trouble).to_be_hidden()
    await expect(target).to_have_value("model:demo")


async def test_a_message_that_is_refused_stays_where_it_was_typed(
    opened: Opened, gate: GatewayProcess
) -> None:
    tab, words = opened
    page = tab.page
    await page.goto(f"{gate.url}/console/chat")
    await expect(page.get_by_label(words["chat.target"])).to_have_value("model:demo")
    field = page.get_by_role("textbox", name=words["chat.message"], exact=True)
    await field.fill(REFUSED)
    await page.keyboard.press("Enter")
    await expect(page.locator(".said-error")).to_contain_text("not so")
    await expect(field).to_have_value(REFUSED)
    # It is changed and sent once more; then the field is empty.
    await field.fill('demo: say="well" delay_ms=0')
    await page.keyboard.press("Enter")
    await expect(page.locator(".said-foot > .s-done")).to_be_visible()
    await expect(field).to_have_value("")
    # What was typed meanwhile is not lost either, nor by a look at another page.
    await field.fill("half a word")
    await page.get_by_role("link", name=words["frame.tools"]).first.click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(words["tools.title"])
    await page.get_by_role("link", name=words["frame.chat"]).first.click()
    await expect(field).to_have_value("half a word")
