"""Who plays with the runner on its stage: a client, upstreams, a store, a tool and jobs.

Each writes what the runner does to it into the `Transcript`, in plain words, and waits until the
story says what it does in turn. Nothing here sleeps, opens a socket or starts a thread.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable
from typing import Any

from gateway.errors import Headers
from gateway.exchange.additions import ToolDeclaration
from gateway.stores.delivery_rows import OutboxItem
from gateway.stores.documents import DocumentKey, SealedDocument, Stored, StoreUnavailable
from gateway.stores.memory import Memory
from gateway.stores.waiting import Unsubscribe, Watchers
from gateway.wire.http_client.upstream import Endpoint

JSON: Headers = ((b"content-type", b"application/json"),)
STREAM: Headers = ((b"content-type", b"text/event-stream"),)
_result = re.compile(r"result\]:\n(.*)")
_reminder = re.compile(r'scheduled task:"(.*?)"')


class Transcript:
    """What was done, line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line)

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


# What is read of bytes.


def describe_frames(data: bytes) -> list[str]:
    """Say what a client sees in frames: texts, calls, how it ends, errors, notes."""
    seen: list[str] = []
    for block in data.split(b"\n\n"):
        if block.startswith(b":"):
            seen.append(block.decode().removeprefix(": "))
        elif block.startswith(b"data: {"):
            seen += _describe_chunk(json.loads(block[6:]))
    # Texts that come together are one text; a new line would be taken for one of the story's.
    return ", ".join(seen).replace('", text "', "").replace("\n", "¶").split(", ") if seen else []


def _describe_chunk(chunk: dict[str, Any]) -> list[str]:
    if "error" in chunk:
        return [f"error {chunk['error']['code']}"]
    seen = []
    for choice in chunk["choices"]:
        seen += _describe_message(choice.get("delta") or choice.get("message") or {})
        if choice.get("finish_reason"):
            seen.append(f"finish {choice['finish_reason']}")
    return seen


def _describe_message(message: dict[str, Any]) -> list[str]:
    calls = [f"call {call['function']['name']}" for call in message.get("tool_calls") or ()]
    return [f'text "{message["content"]}"', *calls] if message.get("content") else calls


def describe_history(message: dict[str, Any]) -> str:
    """Say what a model reads in one message."""
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part["text"] for part in content)
    if text.startswith("[Time/Date]"):
        return "the time"
    if found := _reminder.findall(text):
        return f"reminders {', '.join(found)}"
    if found := _result.findall(text):
        return f"results {', '.join(found)}"
    if message["role"] == "tool" and text.startswith("{"):
        return "tool of the clock"
    calls = [f"call {call['function']['name']}" for call in message.get("tool_calls") or ()]
    return " ".join([message["role"], *([f'"{text}"'] if text else []), *calls])


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """Write one frame of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    about = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: %b\n\n" % json.dumps({**about, "choices": [choice]}).encode()


def whole(message: dict[str, Any], finish: str) -> bytes:
    """Write an answer of one piece."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    about = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**about, "choices": [choice]}).encode()


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    """Write one call of a tool."""
    function = {"name": name, "arguments": arguments}
    return {"index": number, "id": f"call_{number}", "type": "function", "function": function}


# Who plays.


class FakeClient:
    """A client that notes what it is shown, and reads or leaves as the story says."""

    scope = None
    last = 0.0
    blocked_since: float | None = None

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self.started = False
        self.ended = False
        self.blocked = False
        self.raises: Exception | None = None
        self.give_up: Callable[[], None] = lambda: None
        self.leave: Callable[[], None] | None = None
        self._heartbeat: Callable[[], bytes] | None = None
        self._reads: asyncio.Future[None] | None = None

    def watch(self, left: Callable[[], None]) -> Callable[[], object]:
        self.leave = left

        def unwatch() -> None:
            self.leave = None

        return unwatch

    def rest(self) -> None:
        pass

    def ready(self, headers: Headers, heartbeat: Callable[[], bytes]) -> None:
        self._heartbeat = heartbeat

    def send_heartbeat_now(self) -> bool:
        assert self._heartbeat is not None
        self.started = True
        self.last += 1
        self._transcript.add("client sees a heartbeat")
        return True

    async def send_heartbeat(self) -> None:
        self.send_heartbeat_now()

    async def frames(self, frames: bytes) -> None:
        if self.raises is not None:
            raise self.raises
        self.started = True
        if seen := describe_frames(frames):
            self._transcript.add(f"client sees {', '.join(seen)}")

    async def drain(self) -> None:
        self._transcript.add("client is waited for")
        await self._read()

    async def end(self, frames: bytes) -> None:
        if self.blocked:
            await self._read()
        assert not self.ended
        self.started = self.ended = True
        told = describe_frames(frames) or describe_body(frames)
        self._transcript.add(f"client sees {', '.join([*told, 'the end'])}")

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        if self.blocked:
            await self._read()
        assert not self.ended
        self.started = self.ended = True
        self._transcript.add(f"client sees {', '.join([str(status), *describe_body(body)])}")

    async def _read(self) -> None:
        self._reads = asyncio.get_running_loop().create_future()
        await self._reads

    def read_on(self) -> None:
        self.blocked = False
        if self._reads is not None and not self._reads.done():
            self._reads.set_result(None)


def describe_body(body: bytes) -> list[str]:
    """Say what a client sees in a whole answer."""
    seen = _describe_chunk(json.loads(body)) if body else []
    return [one.replace("\n", "¶") for one in seen]


class FakeTurn:
    """An answer that says what the story has it say."""

    def __init__(self, name: str, transcript: Transcript, headers: Headers) -> None:
        self.name = name
        self.headers = headers
        self.calls = 0
        self.is_open = True
        self._transcript = transcript
        self._items: deque[bytes | Exception | None] = deque()
        self._news: asyncio.Future[None] | None = None
        self._ended = False

    @property
    def over(self) -> bool:
        return self._ended and not self._items

    def put(self, item: bytes | Exception | None) -> None:
        assert self.is_open, f"{self.name} is not being read"
        if item is None:
            self._ended = True
        else:
            self._items.append(item)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def __aiter__(self) -> FakeTurn:
        return self

    async def __anext__(self) -> bytes:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        item = self._items.popleft()
        if isinstance(item, Exception):
            raise item
        assert item is not None
        return item

    def pause(self) -> None:
        pass

    async def release(self) -> None:
        self._finish("released")

    async def aclose(self) -> None:
        self._finish("closed")

    def _finish(self, how: str) -> None:
        assert self.is_open, f"{self.name} was let go of twice"
        self.is_open = False
        self._transcript.add(f"{self.name} is {how}")


class FakeUpstream:
    """An upstream that opens, fails or hesitates as the story says."""

    busy = 0

    def __init__(self, name: str, transcript: Transcript, history: list[str]) -> None:
        self.endpoint = Endpoint(name, f"http://{name}.invalid/")
        self.turns: list[FakeTurn] = []
        self.asks: asyncio.Future[FakeTurn] | None = None
        self._name = name
        self._transcript = transcript
        self._history = history

    async def open(
        self, body: bytes, headers: Headers, query: bytes = b"", model: str = ""
    ) -> FakeTurn:
        history = [describe_history(message) for message in json.loads(body)["messages"]]
        new = history[len(self._history) :]
        self._history[:] = history
        self._transcript.add(f"opens {self._name}" + (f" with {', '.join(new)}" if new else ""))
        self.asks = asyncio.get_running_loop().create_future()
        try:
            return await self.asks
        except asyncio.CancelledError:
            self._transcript.add(f"{self._name} is no longer asked")
            raise

    def answer(self, headers: Headers) -> FakeTurn:
        """Open what is asked for, or return what is open already."""
        if self.asks is None or self.asks.done():
            return self.turns[-1]
        turn = FakeTurn(self._name, self._transcript, headers)
        self.asks.set_result(turn)
        self.turns.append(turn)
        return turn

    def fail(self, error: Exception) -> None:
        if self.asks is not None and not self.asks.done():
            self.asks.set_exception(error)
        else:
            self.turns[-1].put(error)

    def copy_with_url(self, url: str) -> FakeUpstream:
        return self

    async def retire(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class FakeTool:
    """A tool of the gateway's that returns when the story says so."""

    def __init__(self, name: str, transcript: Transcript) -> None:
        self.declaration = ToolDeclaration(name, "Rolls.", '{"type":"object"}')
        self.result: asyncio.Future[str] | None = None
        self._name = name
        self._transcript = transcript

    async def run(self, arguments: str) -> str:
        self._transcript.add(f"runs {self._name}")
        self.result = asyncio.get_running_loop().create_future()
        try:
            return await self.result
        except asyncio.CancelledError:
            self._transcript.add(f"{self._name} is stopped")
            raise


class FakeStore(Memory):
    """The memory store, which can be down, or have a fault."""

    error: Exception | None = None

    async def read(self, key: DocumentKey) -> Stored | None:
        self._check()
        return await super().read(key)

    async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
        self._check()
        return await super().write(key, draft, revision)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def go_down(self) -> None:
        self.error = StoreUnavailable("The store is down.")


class FakeDeliveries:
    """The rows of results that wait for sessions, in a store of one process."""

    is_shared = False

    def __init__(self) -> None:
        self.items: list[OutboxItem] = []

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        return [item for item in self.items if (item.owner, item.session) == (owner, session)]

    async def deliver(
        self, owner: str, session: str, ids: tuple[str, ...], tell: object = None
    ) -> tuple[str, ...]:
        self.items = [item for item in self.items if item.id not in ids]
        return ids


class FakeJobs:
    """Jobs of which one may be under way."""

    def __init__(self) -> None:
        self.begins_ms: int | None = None
        self._watchers = Watchers()

    def expecting(self, owner: str, session: str) -> int | None:
        return self.begins_ms

    def is_known(self, owner: str, session: str) -> bool:
        return True

    async def refresh(self, owner: str, session: str) -> None:
        pass

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        return self._watchers.watch((owner, session), callback)

    def end(self, owner: str, session: str) -> None:
        self.begins_ms = None
        self._watchers.notify((owner, session))
