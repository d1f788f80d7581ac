"""The whole gateway, seen from outside: what waited reaches the model, or whoever asks, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.clock import ManualClock
from gateway.stores.delivery_rows import OutboxItem
from tests.clock.reminding import NO_HOLD, remind, reminding
from tests.gateway.wire import get, in_turn, request, streaming, turn
from tests.outbox.house import MINUTE, NOW, SOON, answer_of
from tests.outbox.receiver import receiving
from tests.run import Running, in_process, until, within
from tests.sessions.talk import JSON, SESSION, messages, talk
from tests.wire.fake import Request, once, sized

HEADING = '[Scheduled task "check" result]:'
INBOX, ACK, EVENTS = (f"/api/sessions/s/{part}" for part in ("inbox", "inbox/ack", "events"))
HELLO = streaming(turn("hello"))


async def result(gate: Running, text: str = "all is well", number: int = 1) -> str:
    """Have a job's run end with a result for the session, as the scheduler does."""
    parts = gate.gateway.parts
    run = f"run-{number}"
    item = OutboxItem(run, "local", "s", parts.base.clock.now_ms(), text, "job-1", run, "check")
    parts.deliveries.announce(await parts.rows.deliveries.add(item))
    return run


async def inbox(gate: Running, query: str = "") -> Any:
    """Return what is shown as waiting."""
    answer = await answer_of(await gate.send(get(INBOX + query)))
    return answer.json["items"] if answer.status == 200 else []


async def ack(gate: Running, *ids: str) -> Any:
    answer = await gate.fetch(request("POST", ACK, JSON, body=json.dumps({"ids": ids}).encode()))
    return answer.json["acked"]


def brought(asked: Request) -> list[str]:
    """Return the results that a request brings."""
    told = [message["content"] for message in messages(asked) if message["role"] == "user"]
    return [text for text in told if text.startswith(HEADING)]


async def test_a_result_comes_with_the_next_request_once() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        await result(gate)
        await gate.ask(talk("hi"), "x-session-id: another")
        await gate.ask(talk("hi"), SESSION)
        await gate.ask(talk("hi", "again"), SESSION)
        other, first, second = gate.requests
        assert (brought(other), brought(second)) == ([], [])
        assert brought(first) == [f"{HEADING}\nall is well"]
        contents = [message["content"] for message in messages(first)]
        assert contents[:2] == ["hi", f"{HEADING}\nall is well"]
        assert contents[2].startswith("[Time/Date]")
        assert await inbox(gate) == []


async def test_without_a_clock_results_come_all_the_same() -> None:
    async with in_process(HELLO) as gate:
        await result(gate)
        await gate.ask(talk("hi"), SESSION)
        assert brought(gate.requests[0]) == [f"{HEADING}\nall is well"]


async def test_when_the_upstream_fails_it_comes_again() -> None:
    failing = once(sized(b'{"error": {"message": "no"}}', JSON, status="500 Hm"))
    async with in_process(in_turn(failing, HELLO), clock=ManualClock(NOW)) as gate:
        await result(gate)
        assert (await gate.ask(talk("hi"), SESSION)).status == 500
        assert len(await inbox(gate)) == 1
        await gate.ask(talk("hi"), SESSION)
        assert [len(brought(asked)) for asked in gate.requests] == [1, 1]
        assert await inbox(gate) == []


class SlowRows:
    """A store that takes its time to say what waits."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.asked, self.cue = 0, anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rows, name)

    async def pending(self, *where: str) -> Any:
        self.asked += 1
        await self.cue.wait()
        return await self._rows.pending(*where)


async def test_who_leaves_while_results_are_looked_for_leaves_the_reminder_too() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        await result(gate)
        deliveries: Any = gate.gateway.parts.deliveries
        slow = deliveries.rows = SlowRows(deliveries.rows)
        client = await gate.start(talk("hi"), SESSION)
        await until(lambda: slow.asked == 1)
        client.leave()
        await gate.quiet()
        slow.cue.set()
        await gate.ask(talk("hi"), SESSION, NO_HOLD)
        (asked,) = gate.requests
        assert reminding(asked)
        assert brought(asked) == [f"{HEADING}\nall is well"]


async def test_of_many_requests_one_brings_it() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        await result(gate)
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(gate.ask, talk("hi"), SESSION)
        assert sum(len(brought(asked)) for asked in gate.requests) == 1


async def test_reading_the_inbox_takes_nothing_and_a_receipt_does() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        tea = await remind(gate, "drink tea", NOW)
        run = await result(gate)
        assert [item["id"] for item in await inbox(gate)] == [tea, run]
        assert [item["id"] for item in await inbox(gate)] == [tea, run]
        assert await ack(gate, tea, run) == [tea, run]
        await gate.ask(talk("hi"), SESSION, NO_HOLD)
        (asked,) = gate.requests
        assert (brought(asked), reminding(asked)) == ([], [])
        assert await inbox(gate) == []


async def test_what_was_only_read_is_brought() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        await remind(gate, "drink tea", NOW)
        await result(gate)
        assert len(await inbox(gate)) == 2
        await gate.ask(talk("hi"), SESSION, NO_HOLD)
        (asked,) = gate.requests
        assert (len(brought(asked)), len(reminding(asked))) == (1, 1)


async def test_a_long_poll_hears_of_a_reminder_set_by_another_request() -> None:
    clock = ManualClock(NOW)
    async with in_process(HELLO, clock=clock, clock__due_window_ms=0) as gate:
        client = await gate.send(get(f"{INBOX}?wait_ms=60000"))
        await until(lambda: len(gate.gateway.parts.inbox.subscribers) == 1)
        await remind(gate, "drink tea", NOW + MINUTE)
        clock.advance(MINUTE)
        async with within(SOON):
            answer = await answer_of(client)
        assert [item["text"] for item in answer.json["items"]] == ["drink tea"]


async def test_a_subscriber_comes_back_and_has_missed_nothing() -> None:
    clock = ManualClock(NOW)
    async with in_process(HELLO, clock=clock, clock__due_window_ms=0) as gate:
        client = await gate.send(get(EVENTS))
        place = (await client.head()).headers["x-holdgate-event-id"]
        client.reset()
        ids = [await remind(gate, text, NOW + MINUTE) for text in ("tea", "cake")]
        clock.advance(MINUTE)
        back = await gate.send(get(EVENTS, f"last-event-id: {place}"))
        answer = await back.saw(ids[1].encode())
        assert [event["data"]["id"] for event in answer.events] == ids


async def test_all_who_wait_are_sent_home_when_the_gateway_leaves() -> None:
    async with in_process(HELLO, clock=ManualClock(NOW)) as gate:
        stream = await gate.send(get(EVENTS))
        await stream.head()
        poll = await gate.send(get(f"{INBOX}?wait_ms=60000"))
        await until(lambda: len(gate.gateway.parts.inbox.subscribers) == 1)
        left = anyio.Event()
        gate.gateway.leave(left.set)
        async with within(1):
            assert (await stream.answer()).ending == "whole"
            assert (await answer_of(poll)).status == 204
            await left.wait()


@pytest.mark.parametrize("url", ["", "sqlite"])
async def test_what_waits_outlives_the_process(tmp_path: Path, url: str) -> None:
    clock = ManualClock(NOW)
    settings = {
        "store__url": f"sqlite:///{tmp_path}/kept.sqlite3" if url else "",
        "server__session_dir": str(tmp_path / "sessions"),
    }
    async with in_process(HELLO, clock=clock, settings=settings) as gate:
        await result(gate, "one", 1)
        await result(gate, "two", 2)
        assert await ack(gate, "run-1") == ["run-1"]
    async with in_process(HELLO, clock=clock, settings=settings) as gate:
        await gate.ask(talk("hi"), SESSION)
        assert brought(gate.requests[0]) == [f"{HEADING}\ntwo"]
    async with in_process(HELLO, clock=clock, settings=settings) as gate:
        await gate.ask(talk("hi"), SESSION)
        assert brought(gate.requests[0]) == []


async def test_a_subscriber_of_the_former_process_hears_of_what_came_due(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    settings = {
        "store__url": "",
        "server__session_dir": str(tmp_path / "sessions"),
        "clock__due_window_ms": 0,
    }
    async with in_process(HELLO, clock=clock, settings=settings) as gate:
        client = await gate.send(get(EVENTS))
        place = (await client.head()).headers["x-holdgate-event-id"]
        tea = await remind(gate, "drink tea", NOW + MINUTE)
    clock.advance(MINUTE)
    async with in_process(HELLO, clock=clock, settings=settings) as gate:
        # Told without anybody asking: it is there for whoever comes.
        await until(lambda: len(gate.gateway.parts.feed.open) == 0)
        client = await gate.send(get(EVENTS, f"last-event-id: {place}"))
        answer = await client.saw(tea.encode())
        assert [event["event"] for event in answer.events] == ["reminder.due"]


async def test_a_webhook_of_the_configuration_is_posted_to() -> None:
    clock = ManualClock(NOW)
    async with receiving() as receiver:
        url = f"http://127.0.0.1:{receiver.port}/"
        hooks = [{"owner": "local", "url": url, "secret": "quiet"}]
        async with in_process(
            HELLO, clock=clock, tables={"webhooks": hooks}, clock__due_window_ms=0
        ) as gate:
            await remind(gate, "drink tea", NOW + MINUTE)
            clock.advance(MINUTE)
            await until(lambda: bool(receiver.posted))
            assert receiver.posted[0].json["data"]["text"] == "drink tea"
            assert "quiet" not in gate.log


async def test_how_many_polls_may_wait_is_configured() -> None:
    async with in_process(HELLO, limits__inbox_polls_per_owner=1) as gate:
        await gate.send(get(INBOX + "?wait_ms=20000"))
        await until(lambda: len(gate.gateway.parts.inbox.subscribers) == 1)
        assert (await gate.fetch(get(INBOX + "?wait_ms=20000"))).status == 429
