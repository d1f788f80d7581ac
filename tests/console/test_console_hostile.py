"""A hundred hostile texts in every text field of the console, and in what upstreams answer.

Nothing runs, nothing is loaded, and all is shown as it was typed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from playwright.async_api import Locator, Page, ViewportSize, expect

from gateway.sessions.identity import refuse_session_id
from tests.console.chromium import start_chromium
from tests.console.hostile_scene import (
    CALL_TOOLS,
    CONFIGURED,
    REFUSE,
    STRANGERS,
    send_all,
    sign_in,
    start_gateway,
    type_all,
    visit_all,
)
from tests.console.hostile_strings import HOSTILE

NAMES = [name for name in HOSTILE if not refuse_session_id(name)]
"""Those that can be the name of a session."""
WIDE: ViewportSize = {"width": 1440, "height": 900}
TALL: ViewportSize = {"width": 1440, "height": 9000}
"""So tall that a list shows all of its rows."""
FAILED_LOAD = "Failed to load resource"
"""What Chromium writes when a server refuses something, as it should here."""


def visit(page_name: str, query: dict[str, str], *wanted: tuple[str, str]) -> dict[str, Any]:
    """Write an address of the console, and which texts must stand there."""
    return {"address": f"/console/{page_name}?{urlencode(query)}", "wanted": [*map(list, wanted)]}


async def read_texts(found: Locator) -> list[str]:
    """Read texts exactly as they stand in the page."""
    texts: list[str] = await found.evaluate_all("(all) => all.map((node) => node.textContent)")
    return texts


def trim(text: str) -> str:
    """Take white space from both ends, as a page does."""
    return text.strip(" \t\n\r\v\f\xa0\ufeff\u2028\u2029")


def unline(text: str) -> str:
    """Leave out blanks and line ends: a field of one line has no line ends."""
    return re.sub("[\r\n ]", "", text)


def fold(text: str) -> str:
    """Write a text as a list does: in one line."""
    return re.sub(r"[\s\ufeff]+", " ", text)


async def check_jobs(page: Page) -> None:
    """Jobs: name, message and session, in the list and in full."""
    wishes = [
        {"name": name[:128], "message": name, "session_id": session, "schedule_text": "hourly"}
        for name, session in zip(HOSTILE, (NAMES * 2)[: len(HOSTILE)], strict=True)
    ]
    answers = await send_all(page, [("/api/cron/add", wish) for wish in wishes])
    made = [json.loads(body)["data"]["job"] for status, body, _ in answers if status == 200]
    for (status, body, _), wish in zip(answers, wishes, strict=True):
        assert status == 200 or "\0" in wish["name"], body
    assert len(made) >= 99
    visits = [
        visit(
            "jobs",
            {"id": job["job_id"]},
            (".detail h2", job["name"]),
            (".detail .quote", job["payload"]["message"]),
            (".detail .job-facts a", job["session_id"]),
        )
        for job in made
    ]
    await visit_all(page, visits)
    names = [text.split("\n")[0] for text in await read_texts(page.locator(".c-name"))]
    assert {fold(job["name"]) for job in made} <= set(names)


async def check_sessions(page: Page) -> None:
    """Sessions: their names, in the list and as a page; what cannot be one is refused in words."""
    hello = [{"role": "user", "content": "hi"}]
    asked = [{"model": name, "messages": hello, "metadata": {"session_id": name}} for name in NAMES]
    answers = await send_all(page, [("/v1/chat/completions", body) for body in asked])
    assert [status for status, _, _ in answers] == [200] * len(NAMES)
    kept = [name.strip() for name in NAMES]
    await visit_all(
        page,
        [
            visit("exchange", {"id": ident}, ("h1", name), (".exchange-facts dd", model))
            for (_, _, ident), name, model in zip(answers, kept, NAMES, strict=True)
        ],
    )
    await visit_all(
        page, [visit("session", {"id": name, "tab": name}, ("h1", name)) for name in kept]
    )
    await expect(page.locator(".beside-list .cut").first).to_be_visible()
    assert set(await read_texts(page.locator(".beside-list .cut"))) <= set(kept)
    refused = sorted(set(HOSTILE) - set(NAMES))
    assert len(refused) == 2
    for name in refused:
        sentence = f"The session id {refuse_session_id(name)}."
        await visit_all(page, [visit("session", {"id": name}, ("h1", name))])
        await expect(page.locator("main")).to_contain_text(sentence)
    await visit_all(page, [visit("sessions", {}, ("h1", "Sessions"), (".c-name a", kept[0]))])
    await expect(page.locator(".c-name a")).to_have_count(len(set(kept)))
    assert set(await read_texts(page.locator(".c-name a"))) == set(kept)
    await visit_all(
        page, [visit("live", {"state": "done"}, ("h1", "Live"), (".c-session a", kept[0]))]
    )
    assert set(kept) <= set(await read_texts(page.locator(".c-session a")))


async def check_reminders(page: Page) -> None:
    """Reminders: their texts in the session's list."""
    path = f"/api/sessions/{quote('reminded', safe='')}/reminders"
    due = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    wishes = [(path, {"task": task, "dueAt": due}) for task in HOSTILE]
    answers = await send_all(page, wishes)
    kept = [task for task, (status, _, _) in zip(HOSTILE, answers, strict=True) if status == 201]
    assert len(kept) >= 98, [body for status, body, _ in answers if status != 201]
    await visit_all(
        page,
        [visit("session", {"id": "reminded", "tab": "reminders"}, (".items .what span", kept[0]))],
    )
    shown = await read_texts(page.locator(".items .what span"))
    listed = json.loads(await page.evaluate(f"fetch({path!r}).then((answer) => answer.text())"))
    assert sorted(shown) == sorted(one["task"] for one in listed["items"])
    assert len({*kept} & {*shown}) >= 95
    await page.get_by_role("button", name="Add reminder").click()
    typed = await type_all(page, "dialog textarea", HOSTILE)
    assert typed == [text.replace("\r\n", "\n") for text in HOSTILE]
    # NUL is refused: the server's sentence is shown, and what was typed stays.
    (nul,) = [text for text in HOSTILE if "\0" in text]
    await type_all(page, "dialog textarea", [nul])
    async with page.expect_response("**/reminders") as answer:
        await page.get_by_role("dialog").get_by_role("button", name="Add reminder").click()
    told = (await (await answer.value).json())["error"]["message"]
    await expect(page.locator("dialog .refused")).to_have_text(told)
    assert await page.locator("dialog textarea").input_value() == nul
    await page.keyboard.press("Escape")


async def check_tools(page: Page) -> None:
    """Names and arguments of tools that a model made up, in a conversation with an agent."""
    chat = {"agentId": "agent0", "sessionId": "tools", "message": CALL_TOOLS}
    ((status, body, _),) = await send_all(page, [("/api/chat", chat)])
    assert status == 200, body
    await visit_all(
        page,
        [visit("session", {"id": "tools", "tab": "conversation"}, ("summary span", HOSTILE[0]))],
    )
    assert set(HOSTILE) <= set(await read_texts(page.locator(".kept summary span")))
    arguments = {json.dumps({"x": name}) for name in HOSTILE}
    assert arguments <= set(await read_texts(page.locator(".kept pre")))


async def check_lists_of_names(page: Page) -> None:
    """Models and agents: their names in Chat and in Tools."""
    await visit_all(page, [visit("chat", {}, ("option", HOSTILE[0]), ("option", HOSTILE[-1]))])
    shown = await read_texts(page.locator("optgroup option"))
    assert sorted(shown) == sorted([*CONFIGURED, *CONFIGURED, "m"])
    await visit_all(page, [visit("tools", {}, (".agents b", HOSTILE[0]))])
    assert await read_texts(page.locator(".agents b")) == CONFIGURED


async def check_chat(page: Page) -> None:
    """Chat: session, system text, messages and answers."""
    await visit_all(page, [visit("chat", {"model": "m"}, ("option", "m"))])
    session, message = (
        page.get_by_role("textbox", name=name, exact=True) for name in ("Session", "Message")
    )
    typed = await type_all(page, ".chat-head input", NAMES)
    assert [unline(name) for name in typed] == [unline(trim(name)) for name in NAMES]
    await session.fill("中文 “x” <b>")
    await page.get_by_role("button", name="Options").click()
    await page.get_by_label("System text").fill("\n".join(HOSTILE))
    plain = [text for text in HOSTILE if "\n" not in text and "\r" not in text]
    for place in range(0, len(plain), 20):
        said = "\n\n".join(plain[place : place + 20])
        await message.fill(said)
        await message.press("Enter")
        await expect(page.locator("article.model")).to_have_count(place // 20 + 1)
        answer = page.locator("article.model").last
        await expect(answer.locator("footer .word")).to_have_text("done")
        asked = await read_texts(page.locator("article.user").last.locator("p"))
        assert "\n\n".join(asked) == trim(said)
        assert "\n\n".join(await read_texts(answer.locator(".prose p"))) == trim(said)
    await message.fill(REFUSE + "\u2022".join(HOSTILE))
    await message.press("Enter")
    error = page.locator(".said-error").last
    await expect(error).to_contain_text(plain[0])
    (told,) = await read_texts(error.locator("> span > span").first)
    assert told == "\u2022".join(HOSTILE).replace("\r\n", "\n")
    assert await page.evaluate(STRANGERS) == []
    await visit_all(page, [visit("live", {"q": "“x” <b>"}, (".c-session a", "中文 “x” <b>"))])


QUERIES: dict[str, tuple[str, ...]] = {
    "live": ("q", "state"),
    "exchange": ("id",),
    "chat": ("session", "model", "agent", "answer"),
    "sessions": ("q",),
    "jobs": ("q", "state", "id", "sort"),
    "job": ("id", "run"),
    "health": ("window",),
}


async def check_queries(page: Page) -> None:
    """The address of each page may hold anything; the feed goes on, whatever it names."""
    await page.set_viewport_size(WIDE)
    statuses: Counter[int] = Counter()
    page.on("response", lambda one: statuses.update([one.status] * ("/feed?" in one.url)))
    for name, members in QUERIES.items():
        wanted = [] if name in ("exchange", "job") else [("h1", name.capitalize())]
        await visit_all(
            page, [visit(name, dict.fromkeys(members, text), *wanted) for text in HOSTILE]
        )
    await visit_all(page, [visit("job", {}), visit("exchange", {}), visit("session", {})])
    await expect(page.get_by_text("live", exact=True).last).to_be_visible()
    assert statuses.keys() == {200}


async def check_searches(page: Page) -> None:
    """Search fields: what is typed stays, and is what the address says."""
    for name in ("live", "sessions", "jobs"):
        await visit_all(page, [visit(name, {}, ("h1", name.capitalize()))])
        typed = await type_all(page, "input[type=search]", HOSTILE)
        assert [unline(text) for text in typed] == [unline(text) for text in HOSTILE]


async def check_editor(page: Page) -> None:
    """The editor of a job and the dialog of a reminder: what is typed stays, what is wrong is said."""
    await visit_all(page, [visit("jobs", {}, ("h1", "Jobs"))])
    await page.get_by_role("button", name="New job").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_text("More").first.click()
    preview = dialog.locator("#when-preview")
    for text in HOSTILE:
        typed = await type_all(page, "dialog :is(input[id^=job]:not([type]), textarea)", [text])
        assert {unline(one) for one in typed} == {unline(text)}
        async with page.expect_response("**/api/cron/preview") as answer:
            await type_all(page, "#when, #zone", [text[:120] + "?"])
            await page.clock.run_for(300)
        told = (await (await answer.value).json())["error"]["message"]
        await expect(preview).to_have_text(re.sub(r"\s+", " ", told).strip())
        assert unline(await dialog.locator("#when").input_value()) == unline(text[:120] + "?")
    await expect(dialog.get_by_role("button", name="Save")).to_be_disabled()
    assert await page.evaluate(STRANGERS) == []


async def check_sign_in(page: Page) -> None:
    """The key: a wrong one is refused in the server's words, and stays."""
    field = page.get_by_label("Key")
    for text in HOSTILE:
        await field.fill(text)
        async with page.expect_response("**/api/console/login") as answer:
            await page.keyboard.press("Enter")
        told = (await (await answer.value).json())["error"]["message"]
        await expect(page.locator("#refused")).to_have_text(told)
        assert unline(await field.input_value()) == unline(text)
    assert await page.evaluate(STRANGERS) == []


@pytest.mark.timeout(240)
async def test_hostile_texts_are_texts(tmp_path: Path) -> None:
    async with start_gateway(tmp_path) as gate, start_chromium() as chromium:
        url = f"{gate.url}/console/"
        async with chromium.open(url, tolerated=(FAILED_LOAD,)) as tab:
            page = tab.page
            await sign_in(page)
            await page.set_viewport_size(TALL)
            for check in (
                check_jobs,
                check_sessions,
                check_reminders,
                check_tools,
                check_lists_of_names,
                check_chat,
                check_queries,
                check_searches,
            ):
                await check(page)
                tab.check()
            await page.clock.install()
            await check_editor(page)
        async with chromium.open(url, tolerated=(FAILED_LOAD,)) as tab:
            await check_sign_in(tab.page)
