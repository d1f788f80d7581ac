"""What else a person does in the console, in both languages: sessions, exchanges, Live, Health, the frame."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.console.chromium import LASTING_NOTICES, start_chromium
from tests.console.scenes import QUICK, ROW, WORDS, Happened, Visitor, let_things_happen

LANGUAGES = ("en", "zh")
RUNS = 20
NO_CLIPBOARD = "Object.defineProperty(Navigator.prototype, 'clipboard', { get: () => undefined });"


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    with let_things_happen(tmp_path_factory.mktemp("gateway")) as done:
        yield done


@pytest.fixture
def visitor(happened: Happened) -> Iterator[Visitor]:
    with ExitStack() as stack:
        yield Visitor(happened.gate.url, stack)


@dataclass
class Hand:
    """Somebody at a page, in one language."""

    page: Page
    words: dict[str, str]
    happened: Happened

    def name(self, about: str) -> str:
        """Return a name that no test of the other language uses."""
        return f"{about}-{'en' if self.words is WORDS['en'] else 'zh'}"

    def say(self, key: str, **values: object) -> str:
        """Return the words of the page."""
        return self.words[key].format(**values)

    def button(self, key: str, within: Locator | None = None) -> Locator:
        """Return a button by its words; its key may stand behind them."""
        name = re.compile(f"^{re.escape(self.words[key])}")
        return (within or self.page).get_by_role("button", name=name)

    async def open(self, path: str) -> None:
        """Open a page."""
        await self.page.goto(self.happened.find_url(path))

    async def ask(self, path: str) -> Any:
        """Read something of the gateway, as the page would."""
        answer = await self.page.request.get(f"{self.happened.gate.url}/api/{path}")
        return await answer.json() if answer.ok else None

    async def see(self, key: str, **values: object) -> None:
        """Wait until a notice says this."""
        await expect(self.page.locator(".toast").last).to_contain_text(self.say(key, **values))


@pytest.fixture(params=LANGUAGES)
async def hand(request: pytest.FixtureRequest, happened: Happened) -> AsyncIterator[Hand]:
    """A fresh profile in one language after the other."""
    language = request.param
    rights = ["clipboard-read", "clipboard-write"]
    async with (
        start_chromium() as chromium,
        # Of a session that was forgotten nothing is kept.
        chromium.open(
            "about:blank", language=language, permissions=rights, tolerated=("404",)
        ) as tab,
    ):
        await tab.page.add_init_script(LASTING_NOTICES)
        yield Hand(tab.page, WORDS[language], happened)


async def test_what_is_in_force_is_cleared_and_a_session_forgotten(
    hand: Hand, visitor: Visitor
) -> None:
    session = hand.name("forget")
    visitor.chat(session, f'<**stopMessage:"{QUICK}",2**><**!demo**> {QUICK}')
    await hand.open(f"session?id={session}")
    items = hand.page.locator("#session-tab li")
    await expect(items).to_have_count(2)
    kept = await hand.ask(f"sessions/{session}")
    assert (kept["stopMessage"]["maxRepeats"], kept["directives"]) == (2, ["<**!demo**>"])
    await hand.button("session.clear", items.filter(has_text="stopMessage")).click()
    await hand.see("session.cleared")
    await expect(items).to_have_count(1)
    kept = await hand.ask(f"sessions/{session}")
    assert (kept["stopMessage"], kept["directives"]) == (None, ["<**!demo**>"])
    await hand.button("session.clear", items.filter(has_text="demo")).click()
    await expect(hand.page.get_by_text(hand.say("session.no_force"))).to_be_visible()
    assert (await hand.ask(f"sessions/{session}"))["directives"] == []
    await forget_session(hand, session)


async def forget_session(hand: Hand, session: str) -> None:
    """Forget a session, after a change of mind."""
    dialog = hand.page.get_by_role("dialog")
    await hand.button("session.forget").click()
    await expect(dialog).to_contain_text(hand.say("session.forget_title", name=session))
    await expect(hand.button("frame.cancel", dialog)).to_be_focused()
    await hand.page.keyboard.press("Enter")
    assert await hand.ask(f"sessions/{session}") is not None
    await hand.button("session.forget").click()
    await hand.button("session.forget_yes", dialog).click()
    await hand.see("session.forgotten", name=session)
    await expect(hand.page.get_by_role("heading", level=1)).to_have_text(hand.say("sessions.title"))
    assert await hand.ask(f"sessions/{session}") is None


async def test_theme_zone_and_language_are_chosen_and_kept(hand: Hand) -> None:
    page = hand.page
    await hand.open("exchange?id={done}")
    begun = page.locator(".exchange-facts time")
    await expect(begun).to_be_visible()
    before = await begun.inner_text()
    await page.get_by_label(hand.say("frame.zone")).select_option("utc")
    await expect(begun).not_to_have_text(before)
    paper = "getComputedStyle(document.body).backgroundColor"
    assert await page.evaluate(paper) == "rgb(246, 246, 243)"
    await page.get_by_label(hand.say("frame.theme")).select_option("dark")
    assert await page.evaluate(paper) == "rgb(15, 17, 20)"
    shown = await begun.inner_text()
    await page.reload()
    await expect(begun).to_have_text(shown)
    assert await page.evaluate(paper) == "rgb(15, 17, 20)"
    other = WORDS["zh" if hand.words is WORDS["en"] else "en"]
    name = {"en": "English", "zh": "中文"}["zh" if hand.words is WORDS["en"] else "en"]
    await page.get_by_role("button", name=name).click()
    await expect(page.get_by_role("link", name=other["frame.jobs"]).first).to_be_visible()
    await expect(page.locator(".head .pill")).to_have_text(other["state.done"])
    await page.reload()
    await expect(page.locator(".head .pill")).to_have_text(other["state.done"])


async def test_chips_pause_and_the_cards_of_live(hand: Hand, visitor: Visitor) -> None:
    page = hand.page
    await hand.open("")
    rows = page.locator(f".live-list {ROW}")
    await expect(rows.first).to_be_visible()
    for chip, state in (("holding", "holding"), ("failed", "failed"), ("ended", "")):
        node = hand.button(f"live.chip_{chip}", page.locator("main .chips"))
        await node.click()
        await expect(node).to_have_attribute("aria-pressed", "true")
        await expect(page).to_have_url(re.compile(f"state={chip}$"))
        if state:
            await expect(rows.first.locator(".c-state")).to_have_text(hand.say(f"state.{state}"))
    await hand.button("live.chip_live", page.locator("main .chips")).click()
    await page.mouse.move(0, 0)
    session = hand.name("paused")
    await hand.button("live.pause").click()
    visitor.chat(session, QUICK)
    await expect(page.locator(".fresh")).to_be_visible()
    await expect(rows.filter(has_text=session)).to_have_count(0)
    await hand.button("live.go_on").click()
    await page.mouse.move(0, 0)
    await expect(rows.filter(has_text=session)).to_have_count(1)
    cards = page.locator(".try-panel")
    await hand.button("live.try_dismiss", cards).click()
    await expect(cards).to_be_hidden()
    await page.reload()
    await expect(rows.first).to_be_visible()
    await expect(cards).to_be_hidden()


async def test_the_cursor_of_health_shows_all_plots_of_one_moment(hand: Hand) -> None:
    page = hand.page
    await hand.open("health")
    moment = page.get_by_role("slider", name=hand.say("health.cursor"))
    await expect(page.locator(".plot").first).to_be_visible()
    report = await hand.ask("console/metrics?window=hour")
    await expect(moment).to_have_attribute("max", re.compile(r"\d+"))
    assert report["times"]
    last = await page.locator(".cursor-line output").inner_text()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", last)
    await moment.focus()
    await page.keyboard.press("Home")
    places = page.locator(".plot-cursor").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('x1'))"
    )
    assert len(set(await places)) == 1
    box = await page.locator(".plot").first.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 5)
    shown = await page.locator(".keys b").all_inner_texts()
    assert shown
    assert all(shown)


async def test_older_runs_of_a_job_and_its_id(hand: Hand, visitor: Visitor) -> None:
    page, job = hand.page, hand.happened.ids["job"]
    while len(visitor.list_runs(job)) < RUNS + 2:
        visitor.run_job(job, "ok")
    await hand.open("jobs?id={job}")
    runs = page.locator(".detail .run")
    await expect(runs).to_have_count(RUNS)
    await hand.button("job.more_runs").click()
    await expect(runs).to_have_count(RUNS + 2)
    await expect(hand.button("job.more_runs")).to_have_count(0)
    await page.locator(".detail-bar [aria-haspopup=menu]").click()
    await page.get_by_role("menuitem", name=hand.say("jobs.copy_id")).click()
    await hand.see("frame.copied")
    assert await page.evaluate("navigator.clipboard.readText()") == job


async def test_an_id_is_copied_where_pages_have_no_clipboard(hand: Hand) -> None:
    """Over plain http, as on most local networks."""
    page = hand.page
    await page.add_init_script(NO_CLIPBOARD)
    await hand.open("exchange?id={done}")
    await hand.button("exchange.copy").click()
    await hand.see("frame.copied")
    await hand.open("")
    search = page.get_by_role("searchbox")
    await search.focus()
    await page.keyboard.press("Control+V")
    await expect(search).to_have_value(hand.happened.ids["done"])


async def test_an_exchange_is_shown_to_scale_its_hold_ended_and_cut_off(
    hand: Hand, visitor: Visitor
) -> None:
    page = hand.page
    held, long = "remind me in 3000 seconds to drink tea", "demo: tokens=90000 delay_ms=20"
    for how, text, before, state in (
        ("end_hold", held, "holding", "done"),
        ("cut", long, "relaying", "failed"),
    ):
        session = hand.name(how)
        visitor.chat_and_stay(session, text)
        exchange = visitor.find_exchange(session, before)
        await page.goto(f"{hand.happened.gate.url}/console/exchange?id={exchange}")
        scale = hand.button("exchange.true_scale")
        for pressed in ("true", "false"):
            await scale.click()
            await expect(scale).to_have_attribute("aria-pressed", pressed)
        await hand.button(f"exchange.{how}").click()
        if how == "cut":
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text(hand.say("exchange.cut_text"))
            await hand.button("exchange.cut", dialog).click()
        await expect(page.locator(".head .pill")).to_have_text(hand.say(f"state.{state}"))
        assert (await hand.ask(f"console/exchanges/{exchange}"))["state"] == state
        await hand.button("exchange.copy").click()
        await hand.see("frame.copied")
        assert await page.evaluate("navigator.clipboard.readText()") == exchange


async def test_more_is_marked_where_no_tab_leads(hand: Hand) -> None:
    page = hand.page
    await page.set_viewport_size({"width": 390, "height": 844})
    more = page.locator(".tabs button")
    for name in ("tools", "health"):
        await hand.open(name)
        await expect(page.get_by_role("heading", level=1)).to_have_text(hand.say(f"{name}.title"))
        await expect(more).to_have_attribute("aria-current", "true")
        await more.click()
        place = page.get_by_role("dialog").get_by_role("link", name=hand.say(f"frame.{name}"))
        await expect(place).to_have_attribute("aria-current", "page")
        await page.keyboard.press("Escape")
    await page.locator(".tabs a").first.click()
    await expect(more).not_to_have_attribute("aria-current", "true")


async def test_exchanges_and_sessions_are_searched(hand: Hand) -> None:
    page = hand.page
    await hand.open("")
    rows = page.locator(f".live-list {ROW}")
    await expect(rows.nth(2)).to_be_visible()
    await page.get_by_role("searchbox", name=hand.say("live.search")).fill("rounds")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(hand.say("state.done"))
    await expect(page).to_have_url(re.compile("q=rounds"))
    await page.keyboard.press("Escape")
    await page.keyboard.press("Escape")
    await expect(rows.nth(2)).to_be_visible()
    await (
        page.locator(".population [role=button]").filter(has_text=hand.say("state.failed")).click()
    )
    await expect(page).to_have_url(re.compile("state=failed"))
    await expect(rows.first).to_contain_text(hand.say("state.failed"))
    await hand.open("sessions")
    found = page.locator(f".session-list {ROW}")
    await expect(found.nth(2)).to_be_visible()
    await page.get_by_role("searchbox", name=hand.say("sessions.search")).fill("plans")
    await expect(found).to_have_count(1)
    await found.get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("plans")


async def test_neighbours_steps_and_the_switch_of_keys(hand: Hand) -> None:
    page = hand.page
    await hand.open("exchange?id={done}")
    caption, first = page.locator(".caption"), page.locator(".story li").first
    await expect(first).to_be_visible()
    await first.click()
    await expect(caption).to_contain_text(await first.locator("span").last.inner_text())
    before = page.url
    for key in ("exchange.older", "exchange.newer"):
        seen = page.url
        await page.get_by_role("button", name=hand.say(key), exact=True).click()
        await expect(page).not_to_have_url(seen)
        await expect(first).to_be_visible()
    await expect(page).to_have_url(before)
    dialog = page.get_by_role("dialog")
    # Its key stands before its words.
    name = re.compile(f"{re.escape(hand.say('frame.keys_short'))}$")
    await page.get_by_role("button", name=name).click()
    await expect(dialog).to_contain_text(hand.say("exchange.newer"))
    await dialog.get_by_role("checkbox", name=hand.say("frame.keys_on")).uncheck()
    await hand.button("frame.close", dialog).last.click()
    await expect(dialog).to_have_count(0)
    scale = hand.button("exchange.true_scale")
    await page.keyboard.press("t")
    await page.keyboard.press("ArrowRight")
    await expect(first).to_have_class(re.compile("chosen"))
    await expect(scale).to_have_attribute("aria-pressed", "false")
