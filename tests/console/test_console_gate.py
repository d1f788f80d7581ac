"""The console's view of real exchanges: trails, the feed, and ends by hand."""

from __future__ import annotations

import json
import time
from typing import Any, ClassVar
from urllib.parse import quote

import anyio
import pytest

from gateway.clock import ManualClock, SystemClock
from tests.clock.holding import HOUR, NOW, SECOND, Act, acting, remind, room, says, schedules
from tests.console.calm import play_when_calm
from tests.console.words import FeedPage, collect_trails, fetch_json, list_settled, post
from tests.gateway.wire import (
    DONE,
    chat,
    event,
    get,
    hanging,
    request,
    streaming,
    text,
    turn,
)
from tests.jobs.words import key, keys
from tests.run import Running, in_process, until
from tests.sessions.talk import SESSION, talk
from tests.wire.fake import CHUNKED, LAST, Peer, Story, chunk, sized

NEAR_MS = 50
TWICE = '<**stopMessage:"go on",2**> remind me'


class Diary:
    """When an upstream was asked and when it answered, in seconds."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.ended: list[float] = []

    def story(self, *acts: Act) -> Story:
        """Play acts as `acting` does, each a moment after it was asked for, and note when."""

        async def play(peer: Peer) -> None:
            while True:
                asked = json.loads((await peer.request()).body)
                self.asked.append(time.monotonic())
                spoken = sum(message["role"] == "assistant" for message in asked["messages"])
                await anyio.sleep(0.15)
                await peer.send(*acts[min(spoken, len(acts) - 1)](asked, "abcdefgh"[spoken]))
                self.ended.append(time.monotonic())

        return play


async def busy(peer: Peer) -> None:
    """Answer everything with 429."""
    while True:
        await peer.request()
        await peer.send(sized(b'{"error":{"message":"slow down"}}', status="429 Too Many Requests"))


def near(found: list[int], begun: float, moments: list[float]) -> bool:
    """Whether marks stand where the log of somebody else says."""
    wanted = [(moment - begun) * 1000 for moment in moments]
    return len(found) == len(wanted) and all(
        abs(one - other) <= NEAR_MS for one, other in zip(found, wanted, strict=True)
    )


async def wait_for_row(gate: Running, **members: Any) -> Any:
    """Wait until the newest exchange is so; the feed tells when to look again."""
    news = await FeedPage.open(gate, "live")
    try:
        while True:
            rows = (await fetch_json(gate, "exchanges?limit=1"))["exchanges"]
            if rows and all(rows[0][name] == value for name, value in members.items()):
                return rows[0]
            await news.read()
    finally:
        news.leave()


class TestOneAnswerOverItsTurns:
    """A route that refuses, a call of the clock, a hold, and two stop messages."""

    @pytest.mark.alone
    async def test_every_mark_is_where_the_logs_say_and_live_equals_afterwards(self) -> None:
        await play_when_calm(self.play)

    async def play(self, _time: int) -> None:
        """Ask once, and compare what is told with what was written down."""
        diary = Diary()
        acts = (schedules(3 * SECOND), says("I will."), says("One."), says("Two."), says("Tea."))
        model = diary.story(*acts)
        async with room(SystemClock(), busy, model) as gate:
            begun = time.monotonic()
            client = await gate.start(talk(TWICE), SESSION, "x-request-id: tea")
            page = await FeedPage.open(gate, "exchange:tea,live,summary")
            snapshots: list[Any] = []
            # The request was sent; that it has begun is another thing.
            await wait_for_row(gate)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(collect_trails, gate, "tea", snapshots)
                live = await page.until("exchange:tea", "trail", state="holding")
                answer = await client.answer()
                ended = time.monotonic()
                tasks.cancel_scope.cancel()
            seen = await page.until("exchange:tea", "trail", state="done")
            view = await fetch_json(gate, "exchanges/tea")
            page.leave()
        assert view == seen
        assert b"Tea." in answer.body
        turns = view["turns"]
        assert [one["why"] for one in turns] == [
            "request",
            "clock",
            "stop_message",
            "stop_message",
            "reminder",
        ]
        assert [one["round"] for one in turns] == [None, None, [1, 2], [2, 2], None]
        refused, answered = turns[0]["tries"]
        assert (refused["route"], refused["status"], answered["route"]) == ("a/m", 429, "b/m")
        asked = [one["tries"][-1]["at"] for one in turns]
        assert near(asked, begun, diary.asked)
        assert near([one["first"] for one in turns], begun, diary.ended)
        assert near([one["ended"] for one in turns], begun, diary.ended)
        assert near([view["ended"]], begun, [ended])
        (hold,) = view["holds"]
        assert (hold["turn"], hold["outcome"]) == (4, "due")
        assert near([hold["ended"]], begun, [diary.asked[4]])
        (tool,) = view["tools"]
        assert (tool["name"], tool["action"], tool["turn"], tool["ok"]) == (
            "clock",
            "schedule",
            1,
            True,
        )
        assert [state for _, state in view["states"]] == (
            ["opening", "opening", "relaying", "tooling"]
            + ["opening", "relaying"] * 3
            + ["holding", "opening", "relaying", "closing", "done"]
        )
        # What was shown live was true: it is the beginning of what is shown now.
        for shown in (live, *snapshots):
            assert list_settled(shown) <= list_settled(view)
        assert len({shown["version"] for shown in snapshots}) >= 4
        assert live["holds"][0]["until"] == hold["until"]
        assert "drink tea" not in json.dumps(view)

    async def test_the_feed_shows_it_move_and_leave(self) -> None:
        async with room(
            SystemClock(), acting(schedules(5 * SECOND), says("Yes."), says("Tea."))
        ) as gate:
            page = await FeedPage.open(gate, "live,summary")
            await page.until("summary", "all")
            client = await gate.start(talk("hi"), SESSION)
            held = await wait_for_row(gate, state="holding")
            row = await page.until("live", held["id"], state="holding")
            assert abs(row["until"] - (row["begun_at"] + row["states"][-1][0] + 5 * SECOND)) < 2000
            await client.answer()
            assert (await page.until("live", held["id"], state="done"))["turns"] == 3
            while page.rows["summary"]["all"]["ended"]["done"] == 0:
                await page.read()
            while held["id"] in page.rows["live"]:
                await page.read()
            names = [name for name, _ in page.events]
            page.leave()
        assert names[0] == "hello"
        assert "beat" in names


class TestByHand:
    async def test_a_hold_that_is_ended_goes_on_with_the_answer(self) -> None:
        model = acting(schedules(100 * SECOND), says("I will."), says("Tea."))
        async with room(SystemClock(), model, clock__hold_max_ms=600 * SECOND) as gate:
            client = await gate.start(talk("hi"), SESSION)
            row = await wait_for_row(gate, state="holding")
            ended = await post(gate, f"{row['id']}/end_hold")
            assert (ended.status, ended.json) == (200, {"ended": True})
            answer = await client.answer()
            assert answer.ending == "whole"
            assert answer.body.endswith(DONE)
            view = await fetch_json(gate, f"exchanges/{row['id']}")
            assert view["state"] == "done"
            assert [hold["outcome"] for hold in view["holds"]] == ["by_hand"]
            again = await post(gate, f"{row['id']}/end_hold")
            assert (again.status, again.json["error"]["code"]) == (409, "not_holding")
            # The reminder was not lost.
            reminders = await gate.fetch(get("/api/sessions/s/reminders"))
            assert len(reminders.json["items"]) == 1

    async def test_what_relays_is_not_holding(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(text("hel")))) as gate:
            client = await gate.start(chat(stream=True))
            await client.saw(b"hel")
            row = await wait_for_row(gate, state="relaying")
            assert (await post(gate, f"{row['id']}/end_hold")).status == 409

    @pytest.mark.parametrize("is_begun", [True, False])
    async def test_an_exchange_that_is_cut_closes_its_upstream(self, is_begun: bool) -> None:
        async with in_process(
            hanging(*([CHUNKED, chunk(text("hel"))] if is_begun else []))
        ) as gate:
            client = await gate.start(chat(stream=True))
            await until(lambda: len(gate.requests) == 1)
            if is_begun:
                await client.saw(b"hel")
            row = await wait_for_row(gate, state="relaying" if is_begun else "opening")
            cut = await post(gate, f"{row['id']}/cut")
            assert (cut.status, cut.json) == (200, {"cut": True})
            answer = await client.answer()
            assert b"cut_off" in answer.body
            await gate.quiet()
            view = await fetch_json(gate, f"exchanges/{row['id']}")
            assert (view["state"], view["code"]) == ("failed", "cut_off")
            (turn,) = view["turns"]
            assert turn["was_cut"]
            assert turn["closed"] <= view["ended"]
            again = await post(gate, f"{row['id']}/cut")
            assert (again.status, again.json["error"]["code"]) == (409, "has_ended")

    async def test_a_client_that_leaves_before_the_first_byte(self) -> None:
        async with in_process(hanging()) as gate:
            client = await gate.start(chat(stream=True), "x-request-id: mine")
            await until(lambda: len(gate.requests) == 1)
            client.leave()
            await gate.quiet()
            (turn,) = (await fetch_json(gate, "exchanges/mine"))["turns"]
        assert (turn["was_cut"], turn["first"], turn["stop"]) == (True, None, "broke")


async def test_bytes_and_heartbeats_of_a_slow_answer_are_sampled() -> None:
    is_beaten = anyio.Event()

    async def slow(peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED, chunk(text("a")))
        await is_beaten.wait()
        await peer.send(chunk(text("b") + event({}, "stop") + DONE), LAST)

    async with in_process(slow, server__keepalive_ms=100) as gate:
        client = await gate.start(chat(stream=True), "x-request-id: slow")
        page = await FeedPage.open(gate, "exchange:slow")
        while not (await page.until("exchange:slow", "trail"))["beats"]:
            await page.read()
        is_beaten.set()
        view = await page.until("exchange:slow", "trail", state="done")
        answer = await client.answer()
        page.leave()
    (flow,) = [turn["flow"] for turn in view["turns"]]
    assert flow[0][1] < flow[-1][1] == view["bytes"]
    assert view["beats"]
    assert len(view["beats"]) <= answer.body.count(b"\n\n")


async def test_the_list_is_paged_and_narrowed() -> None:
    async with in_process(streaming(turn("hi"))) as gate:
        for number in range(5):
            await gate.ask(chat(stream=True), f"x-request-id: n{number}")
        await gate.quiet()
        page = await fetch_json(gate, "exchanges?limit=2&state=ended")
        names = [row["request_id"] for row in page["exchanges"]]
        assert page["total"] == 5
        while page["next"]:
            page = await fetch_json(gate, f"exchanges?limit=2&after={page['next']}")
            names += [row["request_id"] for row in page["exchanges"]]
        assert names == ["n4", "n3", "n2", "n1", "n0"]
        assert (await fetch_json(gate, "exchanges?q=n3"))["total"] == 1
        assert (await fetch_json(gate, "exchanges?state=live"))["total"] == 0
        for wrong in ("exchanges?state=x", "exchanges?after=x", "exchanges?limit=0"):
            assert (await gate.fetch(get(f"/api/console/{wrong}"))).status == 400
        assert (await gate.fetch(get("/api/console/exchanges/n9"))).status == 404


async def test_a_trail_of_another_process_is_not_here_and_the_answer_names_it() -> None:
    async with in_process(None) as gate:
        other = "0123456789abcdef"
        answer = await gate.fetch(get(f"/api/console/exchanges/req_{other}00000001"))
    assert answer.status == 404
    assert other in answer.json["error"]["message"]


class TestOwners:
    TABLES: ClassVar[dict[str, Any]] = {"keys": keys("ann", "bob", "root", admin="root")}

    async def test_others_see_nothing_and_end_nothing(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(text("hel"))), tables=self.TABLES) as gate:
            client = await gate.start(chat(stream=True), key("ann"), "x-request-id: anns")
            await client.saw(b"hel")
            for name in ("anns", *[run.info.exchange_id for run in gate.gateway.exchanges.live]):
                for path in (f"{name}/end_hold", f"{name}/cut"):
                    assert (await post(gate, path, key("bob"))).status == 404
                shown = await gate.fetch(get(f"/api/console/exchanges/{name}", key("bob")))
                assert shown.status == 404
                page = await FeedPage.open(gate, f"exchange:{name},live,summary", key("bob"))
                while "summary" not in page.rows:
                    await page.read()
                assert page.rows[f"exchange:{name}"] == page.rows["live"] == {}
                assert sum(page.rows["summary"]["all"]["live"].values()) == 0
            listed = await fetch_json(gate, "exchanges", key("bob"))
            assert listed == {"exchanges": [], "next": None, "total": 0}
            asked = get("/api/console/exchanges?owner=ann", key("bob"))
            assert (await gate.fetch(asked)).status == 403
            assert gate.live == 1

    async def test_an_admin_sees_and_ends_all(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(text("hel"))), tables=self.TABLES) as gate:
            client = await gate.start(chat(stream=True), key("ann"), "x-request-id: anns")
            await client.saw(b"hel")
            listed = await fetch_json(gate, "exchanges?owner=ann", key("root"))
            assert [row["owner"] for row in listed["exchanges"]] == ["ann"]
            assert (await post(gate, "anns/cut", key("root"))).status == 200
            await client.answer()


class TestTheStream:
    async def test_a_page_that_comes_back_gets_what_changed(self) -> None:
        async with in_process(hanging(CHUNKED, chunk(text("hel")))) as gate:
            page = await FeedPage.open(gate, "live")
            while not page.place:
                await page.read()
            page.leave()
            client = await gate.start(chat(stream=True))
            await client.saw(b"hel")
            (row,) = (await fetch_json(gate, "exchanges"))["exchanges"]
            again = await FeedPage.open(gate, "live", after=page.place, former=page)
            await again.until("live", row["id"], state="relaying")
            assert "reset" not in [name for name, _ in again.events]
            other = await FeedPage.open(gate, "live", after="ffff.7", former=again)
            assert [await other.read() for _ in range(3)] == ["hello", "reset", "state"]
            assert other.rows["live"].keys() == {row["id"]}

    async def test_an_owner_has_a_limit_of_streams(self) -> None:
        async with in_process(None, limits__subscriptions_per_owner=1) as gate:
            page = await FeedPage.open(gate, "live")
            await page.read()
            assert (await gate.fetch(get("/api/console/feed?topics=live"))).status == 429

    async def test_it_says_goodbye_when_the_gateway_leaves(self) -> None:
        async with in_process(None) as gate:
            page = await FeedPage.open(gate, "live,jobs,sessions,session:s,job:x,health")
            while not page.place:
                await page.read()
            assert page.rows["health"]["all"]["upstreams"][0]["id"] == "a"
            gate.gateway.leave(lambda: None)
            while await page.read() != "bye":
                pass
            assert page.events[-1] == ("bye", {"reason": "draining"})

    async def test_a_key_that_is_removed_ends_the_stream(self) -> None:
        tables = {"keys": keys("ann", "bob", "root", admin="root")}
        async with in_process(None, tables=tables) as gate:
            page = await FeedPage.open(gate, "live", key("ann"))
            await page.read()
            await gate.reload(keys=keys("bob", "root", admin="root"))
            while await page.read() != "bye":
                pass
            assert page.events[-1] == ("bye", {"reason": "signed_out"})

    async def test_unknown_topics_are_refused(self) -> None:
        async with in_process(None) as gate:
            for topics in ("", "nothing", "exchange:"):
                answer = await gate.fetch(get(f"/api/console/feed?topics={topics}"))
                assert answer.status == 400

    async def test_what_a_topic_is_about_may_hold_a_comma(self) -> None:
        async with in_process(None) as gate:
            page = await FeedPage.open(gate, "session:a%252Cb,live")
            while not page.place:
                await page.read()
            assert page.rows.keys() == {"session:a,b", "live"}
            page.leave()

    async def test_an_admin_follows_the_sessions_of_all_others_only_their_own(self) -> None:
        tables = {"keys": keys("ann", "bob", "root", admin="root")}
        async with in_process(streaming(turn("hi")), tables=tables, clock=ManualClock(NOW)) as gate:
            await remind(gate, HOUR, "secret", quote("teas, 100%"), key("ann"))
            bob = await FeedPage.open(gate, "sessions", key("bob"))
            root = await FeedPage.open(gate, "sessions", key("root"))
            row = await root.until("sessions", "ann\nteas, 100%", reminders=1)
            assert (row["owner"], row["sessionId"]) == ("ann", "teas, 100%")
            assert "secret" not in json.dumps(root.events)
            while not bob.place:
                await bob.read()
            assert bob.rows["sessions"] == {}

    async def test_the_name_of_a_session_may_have_commas(self) -> None:
        async with in_process(None, clock=ManualClock(NOW)) as gate:
            page = await FeedPage.open(gate, "summary,session:tea%252C%20100%2525")
            first = await page.until("session:tea, 100%", "changed")
            await remind(gate, HOUR, "drink tea", quote("tea, 100%"))
            while page.rows["session:tea, 100%"]["changed"] == first:
                await page.read()

    async def test_a_job_that_is_added_is_shown(self) -> None:
        async with in_process(streaming(turn("hi"))) as gate:
            page = await FeedPage.open(gate, "jobs,summary")
            wish = {"session_id": "s", "message": "well?", "schedule_text": "hourly", "name": "Tea"}
            body = json.dumps(wish).encode()
            kind = "content-type: application/json"
            added = await gate.fetch(request("POST", "/api/cron/add", kind, body=body))
            job = added.json["data"]["job"]["job_id"]
            await page.until("jobs", job, name="Tea")
            while not page.rows.get("summary", {}).get("all", {}).get("coming"):
                await page.read()
            (coming,) = page.rows["summary"]["all"]["coming"]
            assert (coming["kind"], coming["name"], coming["id"]) == ("job", "Tea", job)

    async def test_a_job_is_shown_with_its_last_runs(self) -> None:
        """They were in the list over HTTP, and vanished when the feed told of the same job."""
        tables = {"agents": [{"id": "helper", "model": "m"}]}
        async with in_process(acting(says("fine")), tables=tables) as gate:
            kind = "content-type: application/json"
            wish = {"agent_id": "helper", "message": "x", "schedule_text": "hourly"}
            body = json.dumps(wish).encode()
            added = await gate.fetch(request("POST", "/api/cron/add", kind, body=body))
            job = added.json["data"]["job"]["job_id"]
            page = await FeedPage.open(gate, f"jobs,job:{job}")
            named = json.dumps({"job_id": job}).encode()
            await gate.fetch(request("POST", "/api/cron/run", kind, body=named))
            await page.until("jobs", job, last_runs=["ok"])
            await page.until(f"job:{job}", "job", last_runs=["ok"])


async def test_what_an_agent_and_a_job_ask_is_named() -> None:
    tables = {"agents": [{"id": "helper", "model": "m"}]}
    async with in_process(acting(says("fine")), tables=tables) as gate:
        kind = "content-type: application/json"
        body = json.dumps({"agentId": "helper", "message": "hi"}).encode()
        await gate.fetch(request("POST", "/api/chat", kind, body=body))
        row = await wait_for_row(gate, state="done")
        assert (row["kind"], row["agent"]) == ("chat", "helper")
        wish = {"session_id": "s", "agent_id": "helper", "message": "x", "schedule_text": "hourly"}
        added = await gate.fetch(
            request("POST", "/api/cron/add", kind, body=json.dumps(wish).encode())
        )
        job = added.json["data"]["job"]["job_id"]
        named = json.dumps({"job_id": job}).encode()
        await gate.fetch(request("POST", "/api/cron/run", kind, body=named))
        row = await wait_for_row(gate, state="done", kind="job")
        view = await fetch_json(gate, f"exchanges/{row['id']}")
        assert (view["job"], view["run"], view["agent"]) == (job, row["id"], "helper")
