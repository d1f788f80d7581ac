"""A gateway, an upstream and a browser full of hostile texts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

from tests.clock.reminding import variables
from tests.console.hostile_strings import HOSTILE
from tests.gateway.wire import DONE, event, text
from tests.jobs.words import keys
from tests.run import GatewayProcess, as_process, plain_failures
from tests.wire.fake import CHUNKED, LAST, Peer, chunk, fake_upstream, sized

CONFIGURED = [name for name in HOSTILE if "\0" not in name]
"""Those that a configuration may hold."""
REFUSE = "refuse: "
CALL_TOOLS = "call all tools"
JSON_TYPE = "content-type: application/json"

SEND_ALL = """
async (calls) => Promise.all(calls.map(async ([path, body]) => {
  const headers = { "content-type": "application/json" };
  const sent = { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(path, sent);
  const text = await answer.text();
  return [answer.status, text, answer.headers.get("x-holdgate-exchange")];
}))
"""
# Opens one address after the other within the page, and waits until what is wanted stands there.
VISIT_ALL = """
async (visits) => {
  const wrong = [];
  const read = (selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent);
  for (const { address, wanted } of visits) {
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
    await new Promise((done) => setTimeout(done));
    const until = performance.now() + 60000;
    for (const [selector, text] of wanted) {
      while (!read(selector).includes(text) && performance.now() < until)
        await new Promise((done) => setTimeout(done, 2));
      if (!read(selector).includes(text)) wrong.push([address, selector, text, read(selector).slice(0, 5)]);
    }
    if (wrong.length > 5) break;
  }
  return wrong;
}
"""
# Types one text after the other into the fields that a selector finds, and returns what stayed there.
TYPE_ALL = """
async ([selector, texts]) => {
  const typed = [];
  const tell = (field, name) => field.dispatchEvent(new Event(name, { bubbles: true }));
  for (const text of texts) {
    for (const field of document.querySelectorAll(selector)) {
      field.value = text;
      tell(field, "input");
      tell(field, "change");
      typed.push(field.value);
    }
    await Promise.resolve();
  }
  return typed;
}
"""
STRANGERS = """
() => [...document.querySelectorAll(
  "img, iframe, object, embed, base, video, marquee, math, style, script:not([type=module]), link:not([rel~=stylesheet]):not([rel~=icon]):not([rel~=modulepreload])"
)].map((node) => node.outerHTML)
  .concat([...document.querySelectorAll("*")]
    .filter((node) => [...node.attributes].some(({ name }) => name.startsWith("on")))
    .map((node) => node.outerHTML))
  .concat([...document.querySelectorAll("a[href]")]
    .filter((node) => !node.href.startsWith(location.origin)).map((node) => node.outerHTML))
  .concat("pwned" in window || "pwned" in {} ? ["pwned"] : [])
"""


async def echo(peer: Peer) -> None:
    """Say what the user said; refuse with it, or call tools by all hostile names, if so asked."""
    while True:
        asked = json.loads((await peer.request()).body)
        spoken = [message["content"] for message in asked["messages"] if message["role"] == "user"]
        said = next(one for one in reversed(spoken) if not one.startswith("[Time/Date]"))
        called = any(message["role"] == "assistant" for message in asked["messages"])
        if REFUSE in said:
            message = said.rpartition(REFUSE)[2]
            error = json.dumps({"error": {"message": message, "code": message}})
            await peer.send(sized(error.encode(), JSON_TYPE, status="400 Bad Request"))
        elif CALL_TOOLS in said and not called:
            calls = [call_of(number, name) for number, name in enumerate(HOSTILE)]
            begun = event({"role": "assistant", "tool_calls": calls})
            await peer.send(CHUNKED, chunk(begun + event({}, "tool_calls") + DONE), LAST)
        else:
            begun = event({"role": "assistant", "content": ""}, ident=said) + text(said, said)
            await peer.send(CHUNKED, chunk(begun + event({}, "stop", said) + DONE), LAST)


def call_of(number: int, name: str) -> dict[str, Any]:
    """Write a call of a tool with a hostile name and hostile arguments."""
    function = {"name": name, "arguments": json.dumps({"x": name})}
    return {"index": number, "id": f"call_{number}", "type": "function", "function": function}


@asynccontextmanager
async def start_gateway(home: Path) -> AsyncIterator[GatewayProcess]:
    """Start a gateway whose models and agents have hostile names."""
    async with AsyncExitStack() as stack:
        stack.enter_context(plain_failures())
        upstream = await stack.enter_async_context(fake_upstream(echo))
        names = [{"name": "m", "routes": ["a/m"]}]
        names += [{"name": name, "routes": ["a/m"]} for name in CONFIGURED]
        agents = [
            {"id": f"agent{number}", "name": name, "model": "m"}
            for number, name in enumerate(CONFIGURED)
        ]
        settings = variables(
            upstream.port,
            models=json.dumps(names),
            agents=json.dumps(agents),
            keys=json.dumps(keys("ann", admin="ann")),
            limits__jobs_per_owner=1000,
            server__session_dir=home / "sessions",
        )
        yield await stack.enter_async_context(as_process(home, settings))


async def sign_in(page: Page) -> None:
    """Sign in with the right key."""
    await page.get_by_label("Key").fill("key-ann")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Live")


async def send_all(page: Page, calls: Sequence[tuple[str, Any]]) -> list[tuple[int, Any, str]]:
    """Post all of this, as the page would; return statuses, answers and the exchanges' ids."""
    found = await page.evaluate(SEND_ALL, [list(call) for call in calls])
    return [(status, body, ident) for status, body, ident in found]


async def type_all(page: Page, selector: str, texts: Sequence[str]) -> list[str]:
    """Type texts into fields, one after the other; return what stood there after each."""
    typed: list[str] = await page.evaluate(TYPE_ALL, [selector, list(texts)])
    assert await page.evaluate(STRANGERS) == []
    return typed


async def visit_all(page: Page, visits: Sequence[dict[str, Any]]) -> None:
    """Open addresses in turn; what is wanted must stand there, and nothing that is no text."""
    missing = await page.evaluate(VISIT_ALL, list(visits))
    assert missing == [], missing
    assert await page.evaluate(STRANGERS) == []
