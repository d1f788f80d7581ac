"""Chat in a real browser, in both languages: each dialect, an agent, holds, rounds, options and Stop."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from playwright.async_api import Locator, Page, expect

from tests.console.chromium import Chromium, start_chromium
from tests.console.scripted import (
    DIALECTS,
    READ_STEPS,
    WORDS,
    ScriptedGateway,
    fetch,
    list_steps,
    show_moment,
    start_scripted,
)

NEAR_SECONDS = 5
LANGUAGES = ("en", "zh")
TITLES = dict(zip(DIALECTS, ("Chat Completions", "Responses", "Messages"), strict=True))
REMIND = {
    "en": ("remind me in {} seconds to drink tea", "drink tea"),
    "zh": ("{}秒后提醒我喝茶", "喝茶"),
}
TWO = {
    "en": "remind me in 2000 seconds to drink tea and in 2015 seconds to eat cake",
    "zh": "2000秒后提醒我喝茶，2015秒后提醒我吃蛋糕",
}
SAYS_THE_SAME = """() => {
  const left = document.querySelector(".waiting [role=timer]")?.textContent;
  return left && document.querySelector(".this-answer li.on")?.textContent.includes(left);
}"""
DUE = {"en": "It is time: drink tea", "zh": "时间到了：喝茶"}


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedGateway]:
    with start_scripted(tmp_path_factory.mktemp("chat")) as started:
        yield started


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """One loop for all tests here, since they share one browser."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


@dataclass
class ChatPage:
    """The page Chat, as a person uses it."""

    page: Page
    words: dict[str, str]

    def say(self, name: str, **values: object) -> str:
        """Return a sentence of the page in its language."""
        return self.words[name].format(**values)

    def button(self, name: str) -> Locator:
        """Find a button of the page."""
        # Its key may stand behind its name.
        begins = re.compile(f"^{re.escape(self.words[name])}")
        return self.page.locator("main").get_by_role("button", name=begins)

    @property
    def answer(self) -> Locator:
        """The newest answer."""
        return self.page.get_by_role("article", name=self.words["chat.answer"], exact=True).last

    @property
    def ring(self) -> Locator:
        """The countdown of the newest answer."""
        return self.answer.locator(".waiting")

    @property
    def panel(self) -> Locator:
        """What stands beside the answers."""
        return self.page.get_by_role("complementary", name=self.words["chat.this_answer"])

    async def choose(self, target: str) -> None:
        """Choose a model or an agent."""
        field = self.page.get_by_label(self.words["chat.target"])
        await field.select_option(target)
        await expect(field).to_have_value(target)

    async def send(self, text: str) -> None:
        """Write a message and send it."""
        await self.page.get_by_label(self.words["chat.message"], exact=True).fill(text)
        await self.button("chat.send").click()

    async def begin(self, text: str, target: str = f"model:{DIALECTS[0]}") -> None:
        """Begin a conversation of its own with a message."""
        await self.choose(target)
        await self.button("chat.new").click()
        await self.send(text)

    async def end(self, state: str = "done") -> dict[str, Any]:
        """Wait until the newest answer has ended so; return its trail, as the gateway tells it."""
        foot = self.answer.locator("footer .state")
        await expect(foot).to_have_text(self.words[f"state.{state}"])
        await expect(self.page).to_have_url(re.compile("answer=req_"))
        link = self.answer.get_by_role("link", name=self.words["chat.open"]).first
        await expect(link).to_have_attribute("href", re.compile("id=req_"))
        exchange = str(await link.get_attribute("href")).rpartition("=")[2]
        path = f"/api/console/exchanges/{exchange}"
        trail: dict[str, Any] = await fetch(self.page, path)
        # The answer is whole a moment before its exchange has ended.
        while trail["ended"] is None:
            await anyio.sleep(0.02)
            trail = await fetch(self.page, path)
        assert trail["state"] == state
        return trail

    async def check_panel(self, trail: dict[str, Any]) -> None:
        """Compare what is shown of the newest answer with its trail."""
        ended = show_moment(trail["ended"], self.words)
        await expect(self.panel.locator("li").last).to_contain_text(ended)
        shown = await self.panel.locator("li").evaluate_all(READ_STEPS)
        steps = [(state.removeprefix("s-"), note) for state, _, note in shown]
        expected = list_steps(trail, self.words)
        assert set(expected) <= set(steps)
        for state in ("tooling", "holding", "failed", "opening"):
            assert [one for one in steps if one[0] == state] == [
                one for one in expected if one[0] == state
            ]
        texts = " ".join(text for _, text, _ in shown)
        for tool in trail["tools"]:
            assert f"{tool['name']} {tool['action']}" in texts
        assert trail["route"] in texts


def pattern_of(sentence: str) -> re.Pattern[str]:
    """Match a sentence of the page whatever time stands in it; the time is its one group."""
    before, after = sentence.split("{time}")
    return re.compile(re.escape(before) + r"(\d+ (?:ms|毫秒)|\d+\.\d (?:s|秒))" + re.escape(after))


@pytest.fixture(params=LANGUAGES)
async def chat(
    request: pytest.FixtureRequest, scripted: ScriptedGateway, chromium: Chromium
) -> AsyncIterator[ChatPage]:
    """The page, in one language after the other."""
    language = request.param
    url = f"{scripted.url}/console/chat"
    # A refusal that a test asks for is an error in the browser's log.
    async with chromium.open(url, language=language, tolerated=("status of 400",)) as tab:
        yield ChatPage(tab.page, WORDS[language])


def language_of(chat: ChatPage) -> str:
    return "en" if chat.words is WORDS["en"] else "zh"


async def test_a_model_in_each_dialect_and_an_agent(
    chat: ChatPage, scripted: ScriptedGateway
) -> None:
    await chat.button("chat.options").click()
    for dialect in DIALECTS:
        await chat.page.get_by_label(chat.words["chat.dialect"]).select_option(TITLES[dialect])
        text = f"{dialect}-{language_of(chat)}"
        order = f'demo: say="one {text}\\n\\n```\\nlet x = 1 < 2;\\n```" delay_ms=0'
        await chat.begin(order, f"model:{dialect}")
        trail = await chat.end()
        assert (trail["dialect"], trail["model"], trail["route"]) == (
            dialect,
            dialect,
            f"{dialect}/demo",
        )
        await expect(chat.answer.locator(".prose p").first).to_have_text(f"one {text}")
        await expect(chat.answer.locator("pre code")).to_have_text("let x = 1 < 2;")
        await chat.check_panel(trail)
        # What was said before is part of the next request.
        await chat.send(f'demo: say="two {text}" delay_ms=0')
        await expect(chat.answer.locator(".prose p").first).to_have_text(f"two {text}")
        (asked,) = scripted.log.find_requests(f"two {text}")
        assert f"one {text}" in str(asked["body"])
    await chat.begin(chat.words["chat.example_time"], "agent:helper")
    trail = await chat.end()
    assert (trail["kind"], trail["agent"]) == ("chat", "helper")
    await expect(chat.answer.locator(".chipline")).to_contain_text("clock get")
    await chat.check_panel(trail)


async def test_a_hold_counts_down_and_the_answer_goes_on(chat: ChatPage) -> None:
    language = language_of(chat)
    ask, task = REMIND[language]
    await chat.begin(ask.format(10))
    await expect(chat.ring).to_be_visible()
    await expect(chat.ring).to_contain_text(chat.words["chat.held_until"].partition("{")[0])
    left = chat.ring.get_by_role("timer")
    before, arc = await left.inner_text(), await read_arc(chat)
    await expect(left).not_to_have_text(before)
    assert await read_arc(chat) < arc
    # Read at one moment: it counts.
    await chat.page.wait_for_function(SAYS_THE_SAME)
    trail = await chat.end()
    await expect(chat.ring).to_be_hidden()
    await expect(chat.answer).to_contain_text(DUE[language])
    await expect(chat.answer).to_contain_text(chat.say("chat.turn_reminder", n=3))
    await expect(chat.answer.locator(".chipline").first).to_contain_text("clock schedule")
    assert [(hold["turn"], hold["outcome"]) for hold in trail["holds"]] == [(2, "due")]
    assert [turn["why"] for turn in trail["turns"]] == ["request", "clock", "reminder"]
    await chat.check_panel(trail)
    assert task in await chat.answer.inner_text()


async def read_arc(chat: ChatPage) -> float:
    """Return how much of the ring is left, in units of its drawing."""
    drawn = await chat.ring.locator(".ring-left").get_attribute("stroke-dasharray")
    return float(str(drawn).partition(" ")[0])


async def test_a_hold_is_ended_by_hand_and_by_a_new_message(chat: ChatPage) -> None:
    ask, task = REMIND[language_of(chat)]
    await chat.begin(ask.format(3000))
    await expect(chat.ring).to_be_visible()
    await chat.button("chat.end_now").click()
    trail = await chat.end()
    assert [hold["outcome"] for hold in trail["holds"]] == ["by_hand"]
    await expect(chat.answer).to_contain_text(chat.words["exchange.outcome_by_hand"])
    await expect(chat.ring).to_be_hidden()
    await chat.check_panel(trail)
    # The reminder still waits, so the next answer is held for it, until there is another message.
    await chat.send('demo: say="waiting" delay_ms=0')
    await expect(chat.ring).to_be_visible()
    held = chat.answer
    await expect(held).to_contain_text("waiting")
    await chat.send('demo: say="again" delay_ms=0')
    await expect(chat.page.get_by_text(chat.words["exchange.outcome_taken_over"])).to_be_visible()
    await expect(chat.ring).to_be_visible()
    await chat.button("chat.cancel_reminder").click()
    await expect(chat.page.get_by_text(chat.say("chat.cancelled", task=task))).to_be_visible()
    trail = await chat.end()
    assert [hold["outcome"] for hold in trail["holds"]] == ["reminder_gone"]


async def test_the_ring_moves_to_the_next_reminder_when_one_is_cancelled(chat: ChatPage) -> None:
    await chat.begin(TWO[language_of(chat)])
    await expect(chat.ring).to_be_visible()
    why = chat.ring.locator(".two > span").last
    before, moved = await why.inner_text(), await read_until(chat)
    await chat.button("chat.cancel_reminder").click()
    await expect(why).not_to_have_text(before)
    assert await read_until(chat) - moved == pytest.approx(15_000, abs=1500)
    await expect(chat.panel.locator("li.on")).to_be_visible()
    shown = await chat.ring.get_by_role("timer").inner_text()
    await expect(chat.panel.locator("header")).to_contain_text(shown.partition(":")[0])
    await chat.button("chat.cancel_reminder").click()
    trail = await chat.end()
    assert [hold["outcome"] for hold in trail["holds"]] == ["reminder_gone"]


async def read_until(chat: ChatPage) -> int:
    """Return until when the page counts, in UTC milliseconds."""
    return int(str(await chat.ring.get_by_role("timer").get_attribute("data-until")))


async def test_rounds_of_a_stop_message_are_divided(chat: ChatPage) -> None:
    await chat.begin('<**stopMessage:"thanks",2**>demo: say="first" delay_ms=0')
    trail = await chat.end()
    assert [turn["round"] for turn in trail["turns"]] == [None, [1, 2], [2, 2]]
    dividers = chat.answer.locator(".between")
    await expect(dividers).to_have_text(
        [chat.say("chat.turn_stop_message", n=n + 1, used=n, max=2) for n in (1, 2)]
    )
    await chat.check_panel(trail)


async def test_options(chat: ChatPage, scripted: ScriptedGateway) -> None:
    language = language_of(chat)
    ask, _ = REMIND[language]
    await chat.button("chat.options").click()

    async def switch(name: str, on: bool) -> None:
        await chat.page.get_by_label(chat.words[f"chat.{name}"], exact=True).set_checked(on)

    # An answer of one piece is held, too, and shown as a ring.
    await switch("stream", False)
    await chat.page.get_by_label(chat.words["chat.system"]).fill(f"Be brief, {language}.")
    await chat.begin(ask.format(10))
    await expect(chat.ring).to_be_visible()
    trail = await chat.end()
    assert not trail["stream"]
    await expect(chat.answer).to_contain_text(DUE[language])
    assert scripted.log.find_body(f"Be brief, {language}.")["stream"] is False
    await chat.check_panel(trail)
    await switch("stream", True)
    await switch("hold", False)
    await chat.begin(ask.format(3000))
    trail = await chat.end()
    assert (trail["stream"], trail["holds"]) == (True, [])
    assert [tool["name"] for tool in trail["tools"]] == ["clock"]
    await switch("clock", False)
    await chat.begin(f'no tools {language}\ndemo: say="none" delay_ms=0')
    assert not (await chat.end())["tools"]
    assert "tools" not in scripted.log.find_body(f"no tools {language}")
    await chat.choose("agent:helper")
    await expect(chat.page.get_by_text(chat.words["chat.agent_options"])).to_be_visible()
    await expect(chat.page.get_by_label(chat.words["chat.system"])).to_be_hidden()


async def test_stop_closes_the_upstream_and_says_when(
    chat: ChatPage, scripted: ScriptedGateway
) -> None:
    language = language_of(chat)
    for order, key in (("endless delay_ms=20", ""), ("hang", "Escape")):
        name = f"{order.split()[0]} {language}"
        await chat.begin(f"{name}\ndemo: {order}")
        await scripted.log.wait_for(name)
        if key:
            await chat.page.keyboard.press(key)
        else:
            await expect(chat.answer.locator(".prose p").first).to_contain_text("words come")
            await chat.button("chat.stop").click()
        trail = await chat.end("gone")
        closed = pattern_of(chat.words["chat.stopped_closed"])
        await expect(chat.answer.locator("footer")).to_contain_text(closed)
        shown = closed.search(await chat.answer.locator("footer").inner_text())
        last = trail["turns"][-1]
        assert shown is not None
        assert shown[1] == show_moment(max(0, last["closed"] - trail["ended"]), chat.words)
        at = await scripted.log.wait_for_close(name)
        assert at == pytest.approx((trail["begun_at"] + last["closed"]) / 1000, abs=NEAR_SECONDS)
        assert (trail["first"] is None) == (order == "hang")
        await chat.check_panel(trail)
        await expect(chat.button("chat.send")).to_be_visible()
        await expect(chat.button("chat.stop")).to_be_hidden()


async def test_stop_during_a_hold_says_nothing_of_an_upstream(chat: ChatPage) -> None:
    """Its turn has ended, so no upstream was there to be closed."""
    await chat.begin(REMIND[language_of(chat)][0].format(3000), "agent:helper")
    await expect(chat.ring).to_be_visible()
    await chat.button("chat.stop").click()
    trail = await chat.end("gone")
    assert [hold["outcome"] for hold in trail["holds"]] == ["client_gone"]
    await expect(chat.answer).to_contain_text(chat.words["exchange.outcome_client_gone"])
    foot = await chat.answer.locator("footer").inner_text()
    assert chat.words["chat.stopped"] in foot
    assert not pattern_of(chat.words["chat.stopped_closed"]).search(foot)
    await chat.check_panel(trail)


async def test_an_error_of_the_upstream_is_shown_with_its_code(chat: ChatPage) -> None:
    await chat.begin('demo: say="half of it" error_after=2 status=503')
    await chat.end("failed")
    await expect(chat.answer.get_by_role("alert")).to_be_visible()
    await chat.send('demo: status=400 message="not so" code=no_way')
    await expect(chat.answer.get_by_role("alert")).to_contain_text("not so")
    await expect(chat.answer.get_by_role("alert")).to_contain_text("no_way")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_on_a_phone_this_answer_folds_under_each_reply(
    scripted: ScriptedGateway, chromium: Chromium, language: str
) -> None:
    url = f"{scripted.url}/console/chat"
    async with chromium.open(url, language=language, theme="dark", width=390) as tab:
        chat = ChatPage(tab.page, WORDS[language])
        await chat.begin('demo: say="one" delay_ms=0')
        await expect(chat.answer.locator("footer .state")).to_be_visible()
        await chat.send('demo: say="two" delay_ms=0')
        await expect(chat.answer).to_contain_text("two")
        await expect(chat.panel).to_be_hidden()
        folds = chat.page.locator("summary", has_text=chat.words["chat.this_answer"])
        await expect(folds).to_have_count(2)
        for fold in await folds.all():
            await fold.click()
            steps = fold.locator("xpath=..").get_by_role("listitem")
            await expect(steps.first).to_be_visible()
            await expect(steps.last).to_contain_text(chat.words["exchange.end_done"])
        width = await tab.page.evaluate("document.documentElement.scrollWidth")
        assert width == 390


async def test_an_agents_conversation_is_kept_and_shown_again(
    scripted: ScriptedGateway, chromium: Chromium
) -> None:
    async with chromium.open(
        f"{scripted.url}/console/chat?agent=helper&session=kept", tolerated=("status of 404",)
    ) as tab:
        chat = ChatPage(tab.page, WORDS["en"])
        await expect(tab.page.get_by_label(chat.words["chat.target"])).to_have_value("agent:helper")
        await chat.send('demo: say="I keep that" delay_ms=0')
        await chat.end()
        await tab.page.reload()
        await expect(tab.page.get_by_role("log")).to_contain_text("I keep that")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_tools_and_agents(
    scripted: ScriptedGateway, chromium: Chromium, language: str
) -> None:
    words, session = WORDS[language], f"with-agent-{language}"
    url = f"{scripted.url}/console/tools"
    # Of a new session nothing is kept.
    async with chromium.open(url, language=language, tolerated=("status of 404",)) as tab:
        page = tab.page
        row = page.get_by_role("row").filter(has_text="schedule_task")
        await row.get_by_role("button", name=words["tools.schema"]).click()
        await expect(page.get_by_role("dialog")).to_contain_text('"schedule_text"')
        await page.get_by_role("dialog").get_by_text(words["frame.close"]).click()
        await expect(page.get_by_role("dialog")).to_have_count(0)
        agent = page.get_by_role("listitem").filter(has_text="helper")
        await agent.get_by_role("link", name=words["frame.chat"]).click()
        chat = ChatPage(page, words)
        await expect(page.get_by_label(words["chat.target"])).to_have_value("agent:helper")
        await page.get_by_label(words["chat.session"]).fill(session)
        await page.keyboard.press("Tab")
        await chat.send('demo: say="noted" delay_ms=0')
        await chat.end()
        await page.get_by_role("link", name=words["frame.tools"]).click()
        await agent.get_by_role("link", name=words["frame.sessions"]).click()
        # A list that is pointed at stands still.
        await page.mouse.move(0, 0)
        # Found by the agent: its own name says nothing of it.
        await expect(page.get_by_role("row").filter(has_text=session)).to_contain_text("helper")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_health_of_the_last_hour_and_day(
    scripted: ScriptedGateway, chromium: Chromium, language: str
) -> None:
    words = WORDS[language]
    async with chromium.open(f"{scripted.url}/console/health", language=language) as tab:
        page = tab.page
        for dialect in DIALECTS:
            await expect(page.get_by_role("row").filter(has_text=dialect).first).to_contain_text(
                words["state.ok"]
            )
        day = page.get_by_role("button", name=words["health.window_day"], exact=True)
        async with page.expect_response(re.compile("metrics.window=day")):
            await day.click()
        await expect(day).to_have_attribute("aria-pressed", "true")
        await expect(page).to_have_url(re.compile("window=day"))
        await expect(page.locator("figure")).not_to_have_count(0)
