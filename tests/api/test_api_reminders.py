"""Reminders by hand: the routes, raw, in front of the real service and the store in memory."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

import pytest
from starlette.routing import BaseRoute

from gateway.api.admission import LOCAL, Admission, AdmissionMiddleware, Keys, Owner
from gateway.api.error_router import ErrorRouter
from gateway.api.reminders import RemindersArea
from gateway.clock.manual import ManualClock
from gateway.clock.protocol import NtpState
from gateway.clock.zone import Zone
from gateway.reminders.clock_calls import render_time
from gateway.reminders.model import Rules
from gateway.reminders.service import ReminderService
from gateway.stores import Memory, Stored, StoreUnavailable
from gateway.stores.documents import DocumentKey
from gateway.timestamps import iso
from gateway.wire.http_server.request_body import BodyLimits

NOW = 1_770_067_358_229
SOON = NOW + 600_000
TOKYO = ZoneInfo("Asia/Tokyo")
LIMITS = BodyLimits(size=20_000, depth=16)
JSON = ((b"content-type", b"application/json"),)
TEA = {"dueAt": iso(SOON), "task": "drink tea"}

Headers = tuple[tuple[bytes, bytes], ...]


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        assert self.headers[b"content-type"] == b"application/json"
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


class Desk:
    """The area behind the front door, and a client that speaks raw ASGI."""

    def __init__(
        self, keys: dict[str, str] | None = None, kind_of_store: type[Memory] = Memory
    ) -> None:
        self.clock = ManualClock(NOW, NtpState("synced", -12, "time.example", 18, NOW - 5))
        store = kind_of_store(self.clock.now_ms, lambda name, reason: None)
        self.noted: list[str] = []
        self.reminders = ReminderService(store, self.clock, Rules(most=3), self._note)
        hashes = {sha256(key.encode()).hexdigest(): name for key, name in (keys or {}).items()}
        known = Keys({digest: Owner(name) for digest, name in hashes.items()})
        zone = Zone(TOKYO, "Asia/Tokyo")
        self.area = RemindersArea(self.reminders, self.clock, known, zone, LIMITS)
        self.app = AdmissionMiddleware(
            ErrorRouter(self.area.routes(), lifespan=_no_lifespan), Admission(), {}
        )

    def _note(self, event: str, **fields: object) -> None:
        self.noted.append(f"{event} {fields}")

    async def ask(
        self, method: str, path: str, *headers: tuple[bytes, bytes], body: bytes | None = b""
    ) -> Answer:
        """Send a request; without a body the client leaves before it is whole."""
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost"), *headers],
        }
        answer = Answer()

        async def receive() -> dict[str, Any]:
            if body is None:
                return {"type": "http.disconnect"}
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.headers = message["status"], dict(message["headers"])
            else:
                answer.body += message.get("body", b"")

        await self.app(scope, receive, send)
        return answer

    async def post(self, item: Any, *headers: tuple[bytes, bytes], session: str = "s") -> Answer:
        return await self.ask(
            "POST", path(session), *JSON, *headers, body=json.dumps(item).encode()
        )

    async def listed(self, *headers: tuple[bytes, bytes], session: str = "s") -> Any:
        answer = await self.ask("GET", path(session), *headers)
        assert answer.status == 200, answer.body
        return answer.json

    async def texts(self, *headers: tuple[bytes, bytes], session: str = "s") -> list[str]:
        return [item["task"] for item in (await self.listed(*headers, session=session))["items"]]


@asynccontextmanager
async def _no_lifespan(app: Any) -> AsyncIterator[None]:
    yield


def path(session: str = "s", task_id: str = "") -> str:
    base = f"/api/sessions/{quote(session, safe='')}/reminders"
    return f"{base}/{task_id}" if task_id else base


def key(text: bytes) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + text)


async def test_a_session_not_seen_has_an_empty_list() -> None:
    assert await Desk().listed() == {"sessionId": "s", "items": [], "ended": []}


async def test_set_look_and_remove() -> None:
    desk = Desk()
    answer = await desk.post(TEA)
    assert answer.status == 201
    (item,) = answer.json["scheduled"]
    assert item == {**TEA, "taskId": item["taskId"], "deliveryCount": 0}
    assert (await desk.listed())["items"] == [item]
    gone = await desk.ask("DELETE", path(task_id=item["taskId"]))
    assert (gone.status, gone.json) == (200, {"sessionId": "s", "removed": item["taskId"]})
    assert await desk.texts() == []


async def test_what_became_of_it_is_told_for_a_day() -> None:
    desk = Desk()
    (item,) = (await desk.post(TEA)).json["scheduled"]
    desk.clock.advance(1000)
    await desk.ask("DELETE", path())
    (ended,) = (await desk.listed())["ended"]
    assert ended == {
        "taskId": item["taskId"],
        "dueAt": TEA["dueAt"],
        "task": "drink tea",
        "outcome": "cancelled",
        "at": iso(NOW + 1000),
    }
    desk.clock.advance(25 * 3_600_000)
    assert (await desk.listed())["ended"] == []


@pytest.mark.parametrize("due_at", ["2026-02-02T22:00Z", "2026-02-03T06:00+0800"])
async def test_seconds_and_the_offset_s_colon_may_be_left_out(due_at: str) -> None:
    desk = Desk()
    assert (await desk.post({**TEA, "dueAt": due_at})).status == 201
    (item,) = (await desk.listed())["items"]
    assert item["dueAt"] == "2026-02-02T22:00:00.000Z"


async def test_a_delivered_one_says_so() -> None:
    desk = Desk()
    await desk.post(TEA)
    desk.clock.set(SOON)
    reservation = await desk.reminders.reserve("local", "s", "chain")
    assert reservation is not None
    await desk.reminders.commit(reservation)
    listed = await desk.listed()
    assert listed["items"][0]["deliveredAt"] == iso(SOON)
    assert listed["items"][0]["deliveryCount"] == 1
    assert listed["ended"][0]["outcome"] == "delivered"


async def test_all_at_once() -> None:
    desk = Desk()
    for task in ("one", "two"):
        await desk.post({**TEA, "task": task})
    gone = await desk.ask("DELETE", path())
    assert (gone.status, gone.json) == (200, {"sessionId": "s", "removedCount": 2})
    assert (await desk.ask("DELETE", path())).json["removedCount"] == 0


async def test_the_same_one_again_is_the_same_one() -> None:
    desk = Desk()
    first, second = [(await desk.post(TEA)).json["scheduled"] for _ in range(2)]
    assert first == second
    assert len(await desk.texts()) == 1


@pytest.mark.parametrize(
    "given, shown",
    [
        ({"to": ["Ann"]}, {"to": ["Ann"]}),
        ('{"to": ["Ann"]}', {"to": ["Ann"]}),
        ({}, None),
        ("", None),
        ("{}", None),
        (None, None),
    ],
)
async def test_arguments_as_an_object_or_as_text(given: Any, shown: Any) -> None:
    desk = Desk()
    answer = await desk.post({**TEA, "tool": "phone", "arguments": given})
    (item,) = answer.json["scheduled"]
    assert item["tool"] == "phone"
    assert item.get("arguments") == shown
    assert (await desk.listed())["items"] == [item]


@pytest.mark.parametrize(
    "session", ["a/b", "a/reminders", "团队 1", "conversation:42", "%2F", "x" * 256, "ntp-state"]
)
async def test_a_session_may_be_called_anything(session: str) -> None:
    desk = Desk()
    (item,) = (await desk.post(TEA, session=session)).json["scheduled"]
    assert (await desk.listed(session=session))["sessionId"] == session
    assert await desk.texts(session=session) == ["drink tea"]
    gone = await desk.ask("DELETE", path(session, item["taskId"]))
    assert gone.json == {"sessionId": session, "removed": item["taskId"]}


async def test_a_session_must_be_called_something() -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = await Desk().ask(method, path(""), *JSON, body=json.dumps(TEA).encode())
        assert answer.status == 404, method


async def test_and_not_too_much() -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = await Desk().ask(method, path("é" * 129), *JSON, body=json.dumps(TEA).encode())
        assert answer.status == 400, method
        assert "longer than 256 bytes" in answer.error["message"]


@pytest.mark.parametrize(
    "item, says",
    [
        ({}, "dueAt"),
        ({"task": "x"}, "dueAt"),
        ({**TEA, "dueAt": "tomorrow"}, "dueAt"),
        ({**TEA, "dueAt": None}, "dueAt"),
        ({**TEA, "dueAt": 5}, "`dueAt` is not as expected"),
        ({**TEA, "dueAt": "2026-02-30T00:00:00Z"}, "dueAt is not a real date"),
        ({**TEA, "dueAt": "2028-02-02T00:00:00Z"}, "a year ahead"),
        ({**TEA, "dueAt": "2026-02-01T00:00:00Z"}, "past"),
        ({**TEA, "task": " "}, "task is empty"),
        ({**TEA, "task": "x" * 5000}, "5000 bytes"),
        ({**TEA, "tool": []}, "`tool` is not as expected"),
        ({**TEA, "arguments": [1]}, "`arguments` is not as expected"),
        ({**TEA, "arguments": {"x": "y" * 9000}}, "bytes"),
        ([TEA], "The body must be a JSON object."),
    ],
)
async def test_what_cannot_be(item: Any, says: str) -> None:
    desk = Desk()
    answer = await desk.post(item)
    assert answer.status == 400
    assert says in answer.error["message"], answer.error
    assert await desk.texts() == []


async def test_a_wrong_time_is_told_the_right_one() -> None:
    answer = await Desk().post({**TEA, "dueAt": "tomorrow"})
    assert iso(NOW) in answer.error["message"]


async def test_members_that_nobody_knows_are_named() -> None:
    desk = Desk()
    answer = await desk.post({**TEA, "due_at": iso(SOON), "taskId": "t"})
    assert answer.status == 400
    assert answer.error["message"] == (
        "Unknown: `due_at`, `taskId`; a reminder has `dueAt`, `task`, `tool`, `arguments`."
    )
    assert answer.error["param"] == "due_at"
    assert await desk.texts() == []


async def test_too_many_are_refused() -> None:
    desk = Desk()
    for number in range(3):
        assert (await desk.post({**TEA, "task": str(number)})).status == 201
    answer = await desk.post(TEA)
    assert answer.status == 400
    assert "cancel some first" in answer.error["message"]
    assert await desk.texts() == ["0", "1", "2"]


@pytest.mark.parametrize(
    "headers, body, status, says",
    [
        ((), json.dumps(TEA).encode(), 415, "Send the body as JSON"),
        (((b"content-type", b"text/plain"),), json.dumps(TEA).encode(), 415, "Send the body"),
        (JSON, b"{", 400, "not valid JSON"),
        (JSON, b'{"task":"\xff"}', 400, "not valid UTF-8"),
        (JSON, b'{"arguments":' + b'{"a":' * 16 + b"1" + b"}" * 17, 400, "more than 16 levels"),
        (JSON, b" " * 20_001, 413, "larger than 20000 bytes"),
        (JSON, None, 400, "before the whole body had arrived"),
    ],
    ids=["no type", "text", "cut", "not UTF-8", "deep", "large", "left"],
)
async def test_bodies(headers: Headers, body: bytes | None, status: int, says: str) -> None:
    desk = Desk()
    answer = await desk.ask("POST", path(), *headers, body=body)
    assert answer.status == status
    assert says in answer.error["message"]
    assert await desk.texts() == []


async def test_the_time_is_told_as_the_tool_tells_it() -> None:
    desk = Desk()
    answer = await desk.ask("GET", "/api/clock")
    assert answer.status == 200
    assert answer.body.decode() == render_time(NOW, TOKYO, "Asia/Tokyo", desk.clock.ntp)
    assert answer.json["local"] == "2026-02-03 06:22:38.229 +09:00"


class Down(Memory):
    """A store on a disk that cannot be read."""

    def absent(self, key: DocumentKey) -> bool:
        return False

    async def read(self, key: DocumentKey) -> Stored | None:
        raise StoreUnavailable("The disk cannot be read.")


async def test_a_store_that_is_down_is_503() -> None:
    desk = Desk(kind_of_store=Down)
    for method, target in (("GET", path()), ("DELETE", path()), ("DELETE", path(task_id="t"))):
        answer = await desk.ask(method, target)
        assert (answer.status, answer.error["code"]) == (503, "store_unavailable"), method
    assert (await desk.post(TEA)).status == 503


ANN, BOB = key(b"ann's key"), key(b"bob's key")


def shared() -> Desk:
    return Desk({"ann's key": "ann", "bob's key": "bob"})


async def test_owners_see_only_their_own() -> None:
    desk = shared()
    (hers,) = (await desk.post(TEA, ANN)).json["scheduled"]
    assert await desk.listed(BOB) == {"sessionId": "s", "items": [], "ended": []}
    foreign = await desk.ask("DELETE", path(task_id=hers["taskId"]), BOB)
    assert (await desk.ask("DELETE", path(), BOB)).json["removedCount"] == 0
    assert await desk.texts(ANN) == ["drink tea"]
    missing = await desk.ask("DELETE", path(task_id="0" * 36), BOB)
    assert foreign.status == missing.status == 404
    assert foreign.body.replace(hers["taskId"].encode(), b"0" * 36) == missing.body


def every_route() -> list[tuple[str, str]]:
    """Method and path of every route of the area."""
    routes: list[BaseRoute] = Desk().area.routes()
    found = [(method, route.path) for route in routes for method in sorted(route.methods)]  # type: ignore[attr-defined]
    return [(m, p.replace("{name:path}", "s").replace("{task_id}", "t")) for m, p in found]


@pytest.mark.parametrize("method, target", every_route())
async def test_every_route_needs_a_key_where_there_are_keys(method: str, target: str) -> None:
    body = json.dumps(TEA).encode()
    for wrong in ((), (key(b"no such key"),)):
        answer = await shared().ask(method, target, *JSON, *wrong, body=body)
        assert answer.status == 401
    assert (await shared().ask(method, target, *JSON, ANN, body=body)).status != 401


async def test_without_keys_everybody_is_the_local_owner() -> None:
    desk = Desk()
    await desk.post(TEA)
    assert len((await desk.reminders.list_reminders(LOCAL.name, "s")).items) == 1


async def test_task_text_is_not_logged() -> None:
    desk = Desk()
    await desk.post(TEA)
    await desk.listed()
    await desk.ask("DELETE", path())
    assert len(desk.noted) == 3
    assert "tea" not in "".join(desk.noted)
