"""Who sees what in the console: signing in and out in a browser, owners, and an admin."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from gateway.timestamps import iso
from tests.clock.holding import path_of
from tests.console.chromium import Chromium, Tab, open_tab, start_chromium
from tests.console.scripted import DIALECTS, WORDS, ScriptedGateway, fetch, start_scripted
from tests.gateway.client import Answer
from tests.gateway.wire import ask_of, chat, request
from tests.jobs.words import key, keys
from tests.reload.words import write_toml
from tests.run import until
from tests.sessions.talk import JSON

OWNERS = ("ann", "bob", "carol", "root")
REFUSALS = ("status of 401", "status of 404")
CANARY = 'canary-to-agent\ndemo: say="canary-from-agent" delay_ms=0'
UNKNOWN = "This key is not known to the gateway."
# Keeps what the page is answered, also what the feed tells while it goes on.
HEAR = """
window.heard = [];
const ask = window.fetch;
window.fetch = async (...given) => {
  const answer = await ask(...given);
  const one = { url: String(given[0]), text: "", isWhole: false };
  window.heard.push(one);
  const reader = answer.clone().body?.pipeThrough(new TextDecoderStream()).getReader();
  const read = async () => {
    for (let part; reader && !(part = await reader.read()).done; ) one.text += part.value;
    one.isWhole = true;
  };
  read().catch(() => (one.isWhole = true));
  return answer;
};
"""
# All topics of the page have been told once, and all else that it asked for is there.
HAS_ALL = """() =>
  heard.some((one) => one.text.includes("event: state")) &&
  heard.every((one) => one.isWhole || one.url.includes("/feed"))
"""


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedGateway]:
    home = tmp_path_factory.mktemp("owners")
    server = {"session_dir": str(home / "kept")}
    owners = keys(*OWNERS, admin="root")
    with start_scripted(home, server=server, keys=owners) as started:
        yield started


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """One loop for all tests here, since they share one browser."""
    return ("asyncio", {"use_uvloop": True})


@pytest.fixture(scope="module")
async def chromium() -> AsyncIterator[Chromium]:
    async with start_chromium() as started:
        yield started


async def send(scripted: ScriptedGateway, owner: str, sent: bytes) -> Answer:
    client = await scripted.gate.connect()
    await client.send(sent)
    return await client.answer()


async def post(scripted: ScriptedGateway, owner: str, path: str, body: Any) -> Any:
    """Send JSON with the key of an owner."""
    content = json.dumps(body).encode()
    answer = await send(scripted, owner, request("POST", path, JSON, key(owner), body=content))
    assert answer.status in (200, 201), bytes(answer.body)
    return answer.json if answer.headers["content-type"] == "application/json" else None


async def talk(scripted: ScriptedGateway, owner: str, session: str, text: str) -> str:
    """Ask a model in a session; return the id of the exchange."""
    body = chat(text, model=DIALECTS[0])
    answer = await send(scripted, owner, ask_of(body, f"x-session-id: {session}", key(owner)))
    assert answer.status == 200, bytes(answer.body)
    return answer.headers["x-holdgate-exchange"]


async def remind(scripted: ScriptedGateway, owner: str, session: str, task: str) -> None:
    """Set a reminder for an hour from now."""
    due = {"dueAt": iso(round(time.time() + 3600) * 1000), "task": task}
    await post(scripted, owner, path_of(session), due)


@dataclass(frozen=True)
class OwnersThings:
    """What bob has: all names begin with `bobs-`, all his texts with `canary-`."""

    exchange: str
    held: str
    job: str


@pytest.fixture(scope="module")
async def bobs(scripted: ScriptedGateway) -> OwnersThings:
    """Give bob something of every kind, before others look."""
    text = '<**stopMessage:"canary-stop",1**>canary-message\ndemo: say="canary-said" delay_ms=0'
    exchange = await talk(scripted, "bob", "bobs-talk", text)
    said = {"agentId": "helper", "sessionId": "bobs-agent", "message": CANARY}
    await post(scripted, "bob", "/api/chat", said)
    await remind(scripted, "bob", "bobs-tea", "canary-reminder")
    job = await add_job(scripted)
    client = await scripted.gate.connect()
    text = "remind me in 3000 seconds to drink canary-tea"
    headers = ("x-session-id: bobs-hold", "x-holdgate-notes: 1", key("bob"))
    await client.send(ask_of(chat(text, model=DIALECTS[0]), *headers))
    answer = await client.saw(b'"holding"')
    return OwnersThings(exchange, answer.headers["x-holdgate-exchange"], job)


async def add_job(scripted: ScriptedGateway) -> str:
    """Add a job whose result waits for bob's session."""
    wish = {
        "session_id": "bobs-jobs",
        "name": "bobs-job",
        "message": 'demo: say="canary-result" delay_ms=0',
        "model": DIALECTS[0],
        "schedule_text": "hourly",
    }
    added = await post(scripted, "bob", "/api/cron/add", wish)
    job: str = added["data"]["job"]["job_id"]
    await post(scripted, "bob", "/api/cron/run", {"job_id": job})
    await until(lambda: bool(scripted.log.find_requests("canary-result")), 60)
    return job


@asynccontextmanager
async def sign_in(
    chromium: Chromium, scripted: ScriptedGateway, owner: str, place: str = "", language: str = "en"
) -> AsyncIterator[Tab]:
    """Open a page of the console in a fresh profile, and sign in there."""
    context = await chromium.browser.new_context(locale="zh-CN" if language == "zh" else "en-GB")
    await context.add_init_script(HEAR)
    try:
        async with open_tab(context, f"{scripted.url}/console/{place}", REFUSALS) as tab:
            await enter_key(tab.page, WORDS[language], f"key-{owner}")
            await expect(tab.page.locator("nav.rail .owner")).to_contain_text(owner)
            yield tab
    finally:
        await context.close()


async def enter_key(page: Page, words: Mapping[str, str], text: str) -> None:
    await page.get_by_label(words["sign_in.key"]).fill(text)
    await page.get_by_role("button", name=words["sign_in.sign_in"]).click()


@dataclass(frozen=True)
class Seen:
    """What a page shows, and what it was told."""

    text: str
    told: str

    def has(self, word: str) -> bool:
        return word in self.text or word in self.told


async def look(page: Page, scripted: ScriptedGateway, place: str, fact: str = "") -> Seen:
    """Open a page, wait until it is live and shows a fact, and return all that came."""
    # A list that is pointed at stands still.
    await page.mouse.move(0, 0)
    await page.goto(f"{scripted.url}/console/{place}")
    await expect(page.locator("nav.rail .live-dot")).to_have_class(re.compile("is-live"))
    if fact:
        await expect(page.locator("main")).to_contain_text(fact)
    await page.wait_for_function(HAS_ALL)
    told = await page.evaluate("heard.map((one) => one.url + '\\n' + one.text).join('\\n')")
    return Seen(await page.locator("body").inner_text(), told)


class TestSigningIn:
    @pytest.mark.parametrize("language", ["en", "zh"])
    async def test_a_wrong_key_a_right_one_and_out_again(
        self, scripted: ScriptedGateway, chromium: Chromium, language: str
    ) -> None:
        words = WORDS[language]
        url = f"{scripted.url}/console/jobs?q=disk&state=off"
        async with chromium.open(url, language=language, tolerated=REFUSALS) as tab:
            page = tab.page
            await expect(page.get_by_role("heading", level=1)).to_have_text(words["sign_in.title"])
            await enter_key(page, words, "no-such-key")
            await expect(page.get_by_role("alert")).to_have_text(UNKNOWN)
            field = page.get_by_label(words["sign_in.key"])
            await expect(field).to_have_value("no-such-key")
            await expect(field).to_be_focused()
            await field.fill("key-ann")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", level=1)).to_have_text(words["jobs.title"])
            await expect(page).to_have_url(url)
            await expect(page.get_by_role("searchbox")).to_have_value("disk")
            assert (await fetch(page, "/api/console/me"))["signed_in"]
            await page.get_by_role("button", name=words["frame.sign_out"]).click()
            await expect(page.get_by_role("heading", level=1)).to_have_text(words["sign_in.title"])
            assert (await page.request.get(f"{scripted.url}/api/console/me")).status == 401
            await page.reload()
            await expect(page.get_by_role("heading", level=1)).to_have_text(words["sign_in.title"])
            await expect(page).to_have_url(url)

    async def test_the_key_is_kept_nowhere_in_the_browser(
        self, scripted: ScriptedGateway, chromium: Chromium
    ) -> None:
        async with sign_in(chromium, scripted, "ann") as tab:
            kept = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
            assert "key-ann" not in await tab.page.evaluate(kept)
            cookies = await tab.page.context.cookies()
            assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
            assert "key-ann" not in json.dumps(cookies)

    async def test_who_signs_in_next_sees_nothing_of_who_was_there(
        self, scripted: ScriptedGateway, chromium: Chromium
    ) -> None:
        words = WORDS["en"]
        async with sign_in(chromium, scripted, "ann", "chat") as tab:
            page = tab.page
            await page.get_by_label(words["chat.message"], exact=True).fill("anns-secret")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("log")).to_contain_text("You said")
            await page.get_by_role("button", name=words["frame.sign_out"]).click()
            await expect(page.locator("body")).not_to_contain_text("anns-secret")
            await enter_key(page, words, "key-carol")
            await expect(page.locator("nav.rail .owner")).to_contain_text("carol")
            await expect(page.get_by_role("heading", level=1)).to_have_text(words["chat.title"])
            await expect(page.locator(".chat-empty")).to_be_visible()
            await expect(page.locator("body")).not_to_contain_text("anns-secret")

    @pytest.mark.parametrize("language", ["en", "zh"])
    async def test_a_removed_key_ends_the_session(
        self, scripted: ScriptedGateway, chromium: Chromium, language: str
    ) -> None:
        words = WORDS[language]
        async with sign_in(chromium, scripted, "carol", language=language) as tab:
            page = tab.page
            set_owners(scripted, *[owner for owner in OWNERS if owner != "carol"])
            try:
                title = page.get_by_role("heading", level=1)
                await expect(title).to_have_text(words["sign_in.title"])
                await enter_key(page, words, "key-carol")
                await expect(page.get_by_role("alert")).to_have_text(UNKNOWN)
            finally:
                set_owners(scripted, *OWNERS)
            await enter_key(page, words, "key-ann")
            await expect(title).to_have_text(words["live.title"])


def set_owners(scripted: ScriptedGateway, *owners: str) -> None:
    """Give keys to these owners only, and have the gateway read that."""
    tables = {**scripted.tables, "keys": keys(*owners, admin="root")}
    Path(scripted.gate.home / "holdgate.toml").write_text(write_toml(tables))
    scripted.gate.signal(signal.SIGHUP)


PLACES = ("live?state=ended", "sessions", "jobs", "tools", "health", "chat")


class TestOwners:
    @pytest.mark.parametrize("language", ["en", "zh"])
    async def test_an_owner_sees_nothing_of_another(
        self,
        scripted: ScriptedGateway,
        chromium: Chromium,
        bobs: OwnersThings,
        language: str,
    ) -> None:
        name = f"anns-{language}"
        await talk(scripted, "ann", name, 'demo: say="hi" delay_ms=0')
        await remind(scripted, "ann", name, "drink tea")
        async with sign_in(chromium, scripted, "ann", language=language) as tab:
            for place in PLACES:
                fact = name if place in PLACES[:2] else ""
                seen = await look(tab.page, scripted, place, fact)
                assert not seen.has("bob"), place
                assert not seen.has("canary"), place
            await look(tab.page, scripted, "health", WORDS[language]["health.for_admins"])
            # How often all owners called it is for admins, too.
            await look(tab.page, scripted, "tools", "clock")
            clock = tab.page.get_by_role("row").filter(has_text="clock").get_by_role("cell")
            await expect(clock.filter(has_text="–")).to_have_count(2)
            # By an address that somebody passed on: not there, in the words for what never was.
            for known in (bobs.held, bobs.exchange):
                seen = await look(tab.page, scripted, f"exchange?id={known}", known)
                assert not seen.has("bob"), known
                assert '"states"' not in seen.told
            absent = {"session?id=bobs-talk": "session.unknown", f"job?id={bobs.job}": "job.gone"}
            for place, gone in absent.items():
                seen = await look(tab.page, scripted, place, WORDS[language][gone])
                assert not seen.has("canary"), place
                assert '"owner":"bob"' not in seen.told


class TestAdmin:
    @pytest.mark.parametrize("language", ["en", "zh"])
    async def test_an_admin_sees_all_exchanges_and_jobs_but_no_texts_of_others(
        self,
        scripted: ScriptedGateway,
        chromium: Chromium,
        bobs: OwnersThings,
        language: str,
    ) -> None:
        words = WORDS[language]
        async with sign_in(chromium, scripted, "root", language=language) as tab:
            page = tab.page
            facts = {"live": "bobs-hold", "sessions": "bobs-tea"}
            for place in ("live", "sessions", "tools", "health", "chat"):
                fact = facts.get(place, "")
                seen = await look(page, scripted, place, fact)
                assert fact in seen.told
                assert not seen.has("canary"), place
            await look(page, scripted, "sessions", "bobs-tea")
            for name in ("bobs-talk", "bobs-agent", "bobs-jobs", "bobs-tea", "bobs-hold"):
                row = page.get_by_role("row").filter(has_text=name)
                await expect(row).to_contain_text("bob")
            await page.get_by_role("row").filter(has_text="bobs-hold").get_by_role("link").click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("bobs-hold · bob")
            await expect(page.get_by_role("tab")).to_have_count(1)
            await expect(page.get_by_role("tab")).to_contain_text(words["session.tab_exchanges"])
            await expect(page.locator("main")).to_contain_text(words["state.holding"])
            beside = page.locator(".beside-list li").filter(has_text="bobs-tea")
            await expect(beside.locator(".small")).to_have_text("bob")
            await expect(beside.locator("[data-due]")).to_be_visible()
            held = page.locator(".beside-list li").filter(has_text="bobs-hold")
            await expect(held.locator(".glyph")).to_have_class(re.compile("s-holding"))
            await follow_to_others(page, scripted, bobs)
            for known in (bobs.held, bobs.exchange):
                seen = await look(page, scripted, f"exchange?id={known}", "bobs-")
                assert not seen.has("canary"), known
            seen = await look(page, scripted, "jobs", "bobs-job")
            seen = await look(page, scripted, f"jobs?id={bobs.job}", words["job.run_ok"])
            assert not seen.has("canary-message")
            assert not seen.has("canary-reminder")


async def follow_to_others(page: Page, scripted: ScriptedGateway, bobs: OwnersThings) -> None:
    """Links to what is somebody else's lead to theirs: from Live, an exchange and a job."""
    title = page.get_by_role("heading", level=1)
    await look(page, scripted, "live", "bobs-tea")
    await page.locator(".hero > :nth-child(3) a").filter(has_text="bobs-tea").click()
    await expect(title).to_have_text("bobs-tea · bob")
    await look(page, scripted, f"exchange?id={bobs.exchange}", "bobs-talk")
    await page.locator(".exchange-facts a").filter(has_text="bobs-talk").click()
    await expect(title).to_have_text("bobs-talk · bob")
    await look(page, scripted, f"jobs?id={bobs.job}", "bobs-jobs")
    await page.locator(".job-facts a").filter(has_text="bobs-jobs").click()
    await expect(title).to_have_text("bobs-jobs · bob")
