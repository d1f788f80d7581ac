"""The console by keyboard alone. Nothing here points or clicks."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from playwright.async_api import Error, Locator, Page, expect

from tests.console.chromium import LASTING_NOTICES, Chromium, start_chromium
from tests.console.measures import set_text_size
from tests.console.scenes import KEY, QUICK, WORDS, Happened, let_things_happen, start_with_key
from tests.run import GatewayProcess

SAY = WORDS["en"]
PLACES = {"l": "live", "c": "chat", "s": "sessions", "t": "tools", "j": "jobs", "h": "health"}
# The page itself may have the focus, and is then not marked: nothing is pressed there.
FIND_FOCUS = """
() => {
  const node = document.activeElement;
  if (node === document.body || node === null) return "nowhere";
  if (node.tagName === "MAIN") return "";
  const { outlineStyle, outlineWidth } = getComputedStyle(node);
  return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 ? "" : `unseen on ${node.outerHTML.slice(0, 120)}`;
}
"""
MOST_TABS = 80


@dataclass
class Hands:
    """Somebody who has a keyboard and nothing else, and always sees where the focus is."""

    page: Page

    async def begin(self) -> None:
        """Take the link that skips the rail."""
        await self.page.locator(".skip").wait_for(state="attached")
        await self.press("Tab", "Enter")
        await expect(self.page.locator("main")).to_be_focused()

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            await self.page.keyboard.press(key)
            await self.look()

    async def type(self, text: str) -> None:
        """Type a text."""
        await self.page.keyboard.type(text)
        await self.look()

    async def look(self) -> None:
        """Find the focus: it is somewhere, and marked."""
        try:
            await self.page.wait_for_function(f"() => ({FIND_FOCUS})() === ''")
        except Error:
            raise AssertionError(f"focus: {await self.page.evaluate(FIND_FOCUS)}") from None

    async def tab_to(self, wanted: Locator, key: str = "Tab") -> None:
        """Press Tab until something has the focus."""
        await expect(wanted.first).to_be_attached()
        for _ in range(MOST_TABS):
            await self.press(key)
            if await wanted.first.evaluate("(node) => node === document.activeElement"):
                return
        raise AssertionError(f"{wanted} is not reached")

    async def find_title(self, name: str) -> None:
        """Wait for a page."""
        title = self.page.get_by_role("heading", level=1)
        await expect(title).to_have_text(SAY[f"{name}.title"])

    def button(self, word: str) -> Locator:
        """Find a button by its word."""
        return self.page.get_by_role("button", name=SAY[word], exact=True)


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Happened]:
    with let_things_happen(tmp_path_factory.mktemp("gateway")) as done:
        yield done


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with start_with_key(tmp_path_factory.mktemp("fresh")) as gate:
        yield gate


@pytest.fixture
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def test_every_place_is_reached_and_letters_in_fields_are_text(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open(happened.find_url("")) as tab:
        hands, page = Hands(tab.page), tab.page
        await hands.find_title("live")
        await page.keyboard.press("Tab")
        skip = page.get_by_role("link", name=SAY["frame.skip"])
        await expect(skip).to_be_focused()
        await expect(skip).to_be_in_viewport()
        await hands.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await hands.press("Tab")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await hands.press("Escape")
        for letter, name in PLACES.items():
            await page.keyboard.press("g")
            await hands.press(letter)
            await hands.find_title(name)
        await hands.press("g", "s")
        await hands.find_title("sessions")
        await hands.press("/")
        search = page.get_by_role("searchbox")
        await expect(search).to_be_focused()
        await hands.type("gj?/")
        await hands.find_title("sessions")
        await expect(search).to_have_value("gj?/")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await hands.press("Escape")
        await expect(search).to_have_value("")
        await expect(page).to_have_url(re.compile(r"/console/sessions$"))
        await hands.press("g", "t")
        await hands.find_title("tools")


async def test_single_keys_can_be_switched_off_and_only_they(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open(happened.find_url("jobs")) as tab:
        hands, page = Hands(tab.page), tab.page
        await expect(page.locator(".jobs-list .w-row:not([hidden])")).to_have_count(3)
        switch = page.get_by_role("checkbox", name=SAY["frame.keys_on"])
        dialog = page.get_by_role("dialog")
        await hands.begin()
        await hands.press("?")
        await expect(dialog).to_contain_text(SAY["jobs.key_new"])
        await hands.tab_to(switch)
        await hands.press("Space", "Escape")
        await expect(dialog).to_have_count(0)
        await hands.press("j", "n", "?", "x", "e", "/", "g", "l")
        await hands.find_title("jobs")
        await expect(dialog).to_have_count(0)
        await expect(page.locator(".bulk")).to_be_hidden()
        # All else goes on: Tab, arrows, Enter and Esc.
        await hands.tab_to(page.locator(".jobs-list .w-row[tabindex='0']"))
        await hands.press("ArrowDown", "Enter")
        await expect(page.locator(".detail")).to_be_visible()
        await hands.press("Escape")
        await expect(page.locator(".detail")).to_be_hidden()
        await hands.tab_to(page.get_by_role("button", name=SAY["frame.keys_short"]), "Shift+Tab")
        await hands.press("Enter")
        await hands.tab_to(switch)
        await hands.press("Space", "Escape")
        await expect(page.get_by_role("button", name=SAY["frame.keys_short"])).to_be_focused()
        await hands.press("g", "l")
        await hands.find_title("live")


async def test_an_exchange_is_found_and_read(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open(happened.find_url("")) as tab:
        hands, page = Hands(tab.page), tab.page
        rows = page.locator(".live-list .w-row:not([hidden])")
        await expect(rows.nth(3)).to_be_visible()
        await hands.begin()
        await hands.press("p")
        pause = page.locator("main .head button")
        await expect(pause).to_have_attribute("aria-pressed", "true")
        await hands.press("p")
        await expect(pause).to_have_attribute("aria-pressed", "false")
        await hands.tab_to(page.locator(".population [role=button]").last)
        await hands.press("Enter")
        await expect(page).to_have_url(re.compile("state=gone"))
        await hands.press("Escape")
        await expect(rows.nth(3)).to_be_visible()
        await hands.press("j", "j", "k", "ArrowDown", "ArrowUp")
        await expect(rows.first).to_be_focused()
        await hands.press("Enter")
        await expect(page).to_have_url(re.compile(r"/console/exchange\?id="))
        scale = page.get_by_role("button", name=SAY["exchange.true_scale"])
        await expect(scale).to_have_attribute("aria-pressed", "false")
        await hands.press("t")
        await expect(scale).to_have_attribute("aria-pressed", "true")
        await hands.press("ArrowRight", "ArrowRight")
        await expect(page.locator(".story li.chosen")).to_have_count(1)
        await expect(page.locator(".caption")).not_to_be_empty()
        first = page.url
        await hands.press("]")
        await expect(page).not_to_have_url(first)
        await expect(page.locator(".story li")).not_to_have_count(0)
        await hands.press("[")
        await expect(page).to_have_url(first)
        await expect(page.locator(".story li")).not_to_have_count(0)
        await hands.press("Escape")
        await hands.find_title("live")


async def test_arrows_scroll_what_is_wider_than_its_place(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open(happened.find_url("exchange?id={done}"), width=2240) as tab:
        hands, page = Hands(tab.page), tab.page
        await set_text_size(page, 200)
        await page.reload()
        turns = page.locator(".scrolls", has=page.locator(".turn-table"))
        await expect(turns.locator("tbody tr").first).to_be_visible()
        assert await turns.evaluate("(box) => box.scrollWidth > box.clientWidth")
        await hands.begin()
        await hands.tab_to(turns)
        for _ in range(3):
            await hands.press("ArrowRight")
        await page.wait_for_function("() => document.activeElement.scrollLeft > 0")
        await expect(page.locator(".story li.chosen")).to_have_count(0)
        # Elsewhere they step through the marks.
        await page.locator("main").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.locator(".story li.chosen")).to_have_count(1)


async def fill_editor(hands: Hands, name: str) -> None:
    """Write a new job, field by field."""
    page = hands.page
    await hands.type("tell me a word")
    await hands.press("Tab")
    await expect(page.locator("#when")).to_be_focused()
    await hands.type("every 2 hours")
    await expect(page.locator(".preview table")).to_be_visible()
    await hands.tab_to(page.locator("#job-name"))
    await hands.type(name)
    await hands.tab_to(page.locator("#job-session_id"))
    await hands.type("by-keys")
    await hands.tab_to(hands.button("frame.save"))
    await hands.press("Enter")


async def test_a_job_from_its_first_letter_to_its_end(
    chromium: Chromium, happened: Happened
) -> None:
    async with chromium.open(happened.find_url("jobs")) as tab:
        hands, page = Hands(tab.page), tab.page
        rows = page.locator(".jobs-list .w-row:not([hidden])")
        await expect(rows).to_have_count(3)
        await hands.begin()
        await hands.press("n")
        await expect(page.locator("#job-message")).to_be_focused()
        await fill_editor(hands, "A key job")
        row = rows.filter(has_text="A key job")
        await expect(row).to_be_visible()
        await expect(page.locator(".detail h2")).to_have_text("A key job")
        await hands.press("r")
        await expect(page.locator(".detail .run")).to_have_count(1)
        toggle = row.get_by_role("switch")
        await hands.press("e")
        await expect(toggle).to_have_attribute("aria-checked", "false")
        await hands.press("e")
        await expect(toggle).to_have_attribute("aria-checked", "true")
        await delete_by_menu(hands, page.locator(".detail-bar [aria-haspopup=menu]"))
        await expect(row).to_have_count(0)
        await hands.look()
        await hands.press("j")
        await expect(page.locator(".jobs-list .w-row:focus")).to_have_count(1)


async def delete_by_menu(hands: Hands, more: Locator) -> None:
    """Delete a job: by its menu, after two changes of mind."""
    page, menu, dialog = (
        hands.page,
        hands.page.get_by_role("menu"),
        hands.page.get_by_role("dialog"),
    )
    await hands.tab_to(more)
    await hands.press("Enter", "ArrowDown", "ArrowUp", "ArrowUp")
    delete = page.get_by_role("menuitem", name=SAY["jobs.delete_menu"])
    await expect(delete).to_be_focused()
    await hands.press("Home", "End", "Escape")
    await expect(menu).to_have_count(0)
    await expect(more).to_be_focused()
    await expect(page.locator(".detail")).to_be_visible()
    await hands.press("Enter", "End", "Enter")
    cancel = dialog.get_by_role("button", name=SAY["frame.cancel"])
    await expect(cancel).to_be_focused()
    for key in ("Tab", "Tab", "Tab", "Tab", "Shift+Tab", "Shift+Tab"):
        await hands.press(key)
        assert await page.evaluate("document.activeElement.closest('dialog') !== null")
    await hands.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(more).to_be_focused()
    await hands.press("Enter", "End", "Enter")
    await expect(cancel).to_be_focused()
    await hands.press("Tab", "Enter")
    await expect(dialog).to_have_count(0)


async def test_several_jobs_at_once(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open("about:blank") as tab:
        hands, page = Hands(tab.page), tab.page
        await page.add_init_script(LASTING_NOTICES)
        await page.goto(happened.find_url("jobs?sort=name"))
        rows = page.locator(".jobs-list .w-row:not([hidden])")
        await expect(rows).to_have_count(3)
        await hands.begin()
        await hands.press("j", "x", "j", "x")
        await expect(page.locator(".bulk b")).to_have_text("2 selected")
        await hands.tab_to(hands.button("jobs.do_disable"), "Shift+Tab")
        await hands.press("Enter")
        for at in (0, 1):
            switch = rows.nth(at).get_by_role("switch")
            await expect(switch).to_have_attribute("aria-checked", "false")
        await hands.look()
        undo = hands.button("frame.undo")
        await hands.tab_to(undo)
        await hands.press("Enter")
        await expect(rows.nth(0).get_by_role("switch")).to_have_attribute("aria-checked", "true")
        await hands.look()
        await hands.press("Escape")
        await expect(page.locator(".bulk")).to_be_hidden()


async def test_the_focus_stays_while_lists_change(chromium: Chromium, happened: Happened) -> None:
    """Rows keep their places under it, and what is written anew gives it back."""
    async with chromium.open(happened.find_url("")) as tab:
        hands, page = Hands(tab.page), tab.page
        await expect(page.locator(".live-list .w-row:not([hidden])").nth(3)).to_be_visible()
        await hands.begin()
        await hands.press("j", "j", "j")
        row = page.locator(".live-list .w-row:focus .c-session")
        before = await row.inner_text()
        body = {"model": "demo", "messages": [{"role": "user", "content": QUICK}]}
        for _ in range(3):
            await page.request.post(f"{happened.gate.url}/v1/chat/completions", data=body)
        # All of them: another one later would be new again.
        fresh = page.locator(".fresh")
        await expect(fresh).to_have_text(SAY["frame.fresh.other"].format(n=3))
        await expect(row).to_have_text(before)
        await hands.tab_to(fresh, "Shift+Tab")
        await hands.press("Enter")
        await expect(fresh).to_be_hidden()
        await hands.look()
        await page.goto(happened.find_url("jobs?id={job}"))
        runs = page.locator(".detail .run")
        await expect(runs).to_have_count(1)
        await hands.begin()
        await hands.tab_to(runs)
        await hands.press("r")
        await expect(runs).to_have_count(2)
        await expect(runs.last).to_be_focused()


async def test_a_conversation(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open(happened.find_url("chat")) as tab:
        hands, page = Hands(tab.page), tab.page
        await expect(page.locator("main option")).not_to_have_count(0)
        await hands.begin()
        await hands.press("i")
        message = page.get_by_role("textbox", name=SAY["chat.message"], exact=True)
        await expect(message).to_be_focused()
        await hands.type("remind me in 3000 seconds to drink tea")
        await hands.press("Enter")
        await expect(page.locator(".waiting")).to_be_visible()
        await hands.tab_to(hands.button("chat.end_now"), "Shift+Tab")
        await hands.press("Enter")
        await expect(page.locator(".said-foot > .s-done")).to_be_visible()
        await expect(message).to_be_focused()
        for how in ("Tab", "Escape"):
            await hands.type("demo: endless")
            await hands.press("Enter")
            stop = hands.button("chat.stop")
            await expect(stop).to_be_visible()
            if how == "Tab":
                await hands.tab_to(stop)
                await hands.press("Enter")
            else:
                await hands.press("Escape")
            await expect(page.locator(".said").last).to_contain_text("upstream closed after")
            await expect(message).to_be_focused()


async def test_a_session_and_its_reminders(chromium: Chromium, happened: Happened) -> None:
    async with chromium.open(happened.find_url("sessions?q=plans")) as tab:
        hands, page = Hands(tab.page), tab.page
        await expect(page.locator(".session-list .w-row:not([hidden])")).to_have_count(1)
        await hands.begin()
        await hands.press("j", "Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("plans")
        force = page.get_by_role("tab", name=SAY["session.tab_force"])
        await hands.tab_to(force)
        await hands.press("ArrowRight")
        reminders = page.get_by_role("tab", name=SAY["session.tab_reminders"])
        await expect(reminders).to_be_focused()
        await expect(reminders).to_have_attribute("aria-selected", "true")
        add = page.get_by_role("tabpanel").get_by_role("button", name=SAY["session.add_reminder"])
        await hands.tab_to(add)
        await hands.press("Enter")
        await hands.type("water the plants")
        save = page.get_by_role("dialog").get_by_role("button", name=SAY["session.add_reminder"])
        await hands.tab_to(save)
        await hands.press("Enter")
        panel = page.get_by_role("tabpanel")
        await expect(panel).to_contain_text("water the plants")
        await expect(add).to_be_focused()
        await hands.press("Tab", "Enter")
        await expect(page.locator(".toast")).to_be_visible()
        await hands.look()
        await hands.press("Escape")
        await hands.find_title("sessions")


async def test_signing_in(chromium: Chromium, fresh: GatewayProcess) -> None:
    async with chromium.open(f"{fresh.url}/console/jobs", tolerated=("401",)) as tab:
        hands, page = Hands(tab.page), tab.page
        await expect(page.locator("#key")).to_be_focused()
        await hands.type("g j ? wrong")
        await hands.press("Enter")
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await hands.press("Control+a")
        await hands.type(KEY)
        await hands.press("Tab", "Enter")
        await hands.find_title("jobs")
        await hands.look()
        out = hands.button("frame.sign_out")
        await hands.tab_to(out, "Shift+Tab")
        await hands.press("Enter")
        await expect(page.locator("#key")).to_be_focused()
