"""Plays stories with the runner: `>>` is what happens, `<<` is what the runner does about it.

    >> client asks
    << opens a
    >> a fails with 503
    << opens b
    >> b sends "Hi"
    << client sees text "Hi"
    >> b stops
    << b is released
    << client sees finish stop, the end
    << exchange is done

After each `>>` all tasks run until every one of them waits for the story; what they did meanwhile
must be the lines that follow, in this order. So a story is also a list of all effects: one too many
fails as one too few does, and the failure is a difference between two texts.

Time is a clock that the story moves; stores are memory. Every story is played three times: before
nobody, before an observer of everything, and before one that has to be waited for. Observers decide
nothing, so the lines are the same. At the end nothing may be left: no upstream open, no claim held,
no hold, no slot of follow-ups, no heartbeat, nobody watching.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import ndiff
from typing import Any, get_args

import anyio
import anyio.lowlevel
import pytest

from gateway.clock.manual import ManualClock
from gateway.clock.timer_queue import TimerQueue
from gateway.clock.zone import zone_of
from gateway.dialects.openai_chat import DIALECT
from gateway.dialects.translators import Translators, UpstreamDialect
from gateway.errors import (
    Draining,
    SessionDeleted,
    Unavailable,
    UpstreamAnswered,
    UpstreamBroke,
    UpstreamUnreachable,
)
from gateway.exchange.model import Route
from gateway.exchange.observer import NOBODY, ExchangeEnded, Happening, Observer, Wants
from gateway.exchange.ports import Limits, Request, Services
from gateway.exchange.prepare import ExchangeInput, ExchangePreparer
from gateway.exchange.rules import RULES, Rule
from gateway.exchange.runner import LiveExchanges
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.holds import Holds
from gateway.reminders.model import ReminderRequest, Rules
from gateway.reminders.server_tools import ToolServices
from gateway.reminders.service import ReminderService
from gateway.reminders.tool_scope import TimeSettings
from gateway.routing import Models, PublicModel
from gateway.sessions.request_session import SessionStates
from gateway.sessions.service import Sessions
from gateway.sessions.session_request import SessionSettings
from gateway.sessions.task_tracker import TaskTracker
from gateway.stores.delivery_rows import OutboxItem
from gateway.wire.heartbeats import Heartbeats

from .fakes import (
    JSON,
    STREAM,
    FakeClient,
    FakeDeliveries,
    FakeJobs,
    FakeStore,
    FakeTool,
    FakeUpstream,
    Transcript,
    call,
    chunk,
    whole,
)

NOW = 1_770_067_358_229
OWNER, SESSION, EXCHANGE = "local", "s", "exchange"
DOOR = {"type": "function", "function": {"name": "door", "parameters": {"type": "object"}}}
# Of the log, what tells of things that outlive the exchange.
LOGGED = re.compile(
    r"(reminders|deliveries)_(reserved|committed|released|owed)|stop_message|.*_not_"
)
SLOTS = 2


@dataclass(frozen=True, slots=True)
class Scene:
    """What is there when a story begins."""

    text: str = "Hi"
    stream: bool = True
    routes: str = "a"
    """The upstreams of the model, one letter each."""
    session: str | None = SESSION
    clock: bool = False
    """Whether the model is offered the clock, and told the time and what is due."""
    dice: bool = False
    """Whether the gateway offers a tool beside the clock."""
    door: bool = False
    """Whether the client offers a tool."""
    notes: bool = False
    rules: tuple[Rule, ...] = RULES
    tool_turns: int = 16
    hold_max_ms: int = 60_000
    hold_total_ms: int = 600_000
    hold_for_jobs: bool = False


class Audience:
    """An observer that hears of everything, or only of the end; it may have to be waited for."""

    def __init__(self, transcript: Transcript, hears_all: bool, is_slow: bool = False) -> None:
        kinds: tuple[type[Happening], ...] = get_args(Happening)
        self.wants: Wants = frozenset(kinds if hears_all else (ExchangeEnded,))
        self.happenings: list[Happening] = []
        self.times: list[float] = []
        self._transcript = transcript
        self._is_slow = is_slow

    def observe(self, at: float, happening: Happening) -> Awaitable[None] | None:
        self.happenings.append(happening)
        self.times.append(at)
        if isinstance(happening, ExchangeEnded):
            code = f": {happening.code}" if happening.code else ""
            self._transcript.add(f"exchange is {happening.state}{code}")
            return None
        return anyio.lowlevel.checkpoint() if self._is_slow else None

    @property
    def kinds(self) -> list[str]:
        """What happened, by its kind alone."""
        return [type(happening).__name__ for happening in self.happenings]


class Stage:
    """A runner with all that it needs, and the fakes that play with it."""

    def __init__(self, scene: Scene, hears_all: bool, is_slow: bool = False) -> None:
        self.scene = scene
        self.transcript = transcript = Transcript()
        self.audience = Audience(transcript, hears_all, is_slow)
        self.clock = ManualClock(NOW)
        self.store = FakeStore(self.clock.now_ms, lambda key, reason: None)
        self.client = FakeClient(transcript)
        self.dice = FakeTool("dice", transcript)
        self.deliveries = FakeDeliveries()
        self.job_runs = FakeJobs()
        history: list[str] = [f'user "{scene.text}"']
        self.upstreams = {name: FakeUpstream(name, transcript, history) for name in "abc"}
        self.timers = TimerQueue(self.clock)
        self.holds = Holds(self.timers, self._steady)
        # Patience is steady time, which here is the manual clock's too.
        self.time = SteadyTime(self.clock)
        self.holds.patience = TimerQueue(self.time)
        rules = Rules(due_window_ms=0)
        self.reminders = ReminderService(self.store, self.clock, rules, self._log)
        self.queue = OutboxQueue(self.deliveries, self._log)  # type: ignore[arg-type]
        self.states = SessionStates(self.store, self._log)
        self.sessions = Sessions(
            self.states,
            SessionSettings(bd_mode="heuristic"),
            TaskTracker(self._steady, ""),
            self.reminders,
        )
        self.tool_services = self._make_tool_services()
        self.live = LiveExchanges(self._make_services())
        self.live.observer = self.audience
        self.preparer = self._make_preparer()

    def _steady(self) -> float:
        return self.clock.steady_ms() / 1000

    def _log(self, event: str, **fields: object) -> None:
        if LOGGED.match(event):
            self.transcript.add(f"log {event}")

    def _make_tool_services(self) -> ToolServices:
        scene = self.scene
        settings = TimeSettings(
            hold_max_ms=scene.hold_max_ms,
            hold_total_ms=scene.hold_total_ms,
            hold_for_jobs=scene.hold_for_jobs,
        )
        clock, zone = self.clock, zone_of("UTC")
        services = ToolServices(clock, zone, self.reminders, self.holds, self.queue, settings)
        services.jobs = self.job_runs
        return services

    def _make_services(self) -> Services:
        dialects = {name: UpstreamDialect(DIALECT.name) for name in self.upstreams}
        return Services(
            self.upstreams,
            Heartbeats(15.0, 30.0, self._steady),
            self._steady,
            Translators(dialects, 2**20, 2**20, self._steady),
            limits=Limits(turns=self.scene.tool_turns),
            rules=self.scene.rules,
            follow_up_slots=anyio.Semaphore(SLOTS),
        )

    def _make_preparer(self) -> ExchangePreparer:
        routes = tuple(Route(name, "m") for name in self.scene.routes)
        models = Models([PublicModel("m", routes, self.scene.clock)])
        return ExchangePreparer(models, self.sessions, self.tool_services, self.live.services)

    async def prepare(self) -> Request:
        """Make the exchange's request, as the ways in do."""
        scene = self.scene
        body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": scene.text}]}
        body |= {"stream": True} if scene.stream else {}
        body |= {"tools": [DOOR]} if scene.door else {}
        given = ExchangeInput(
            id="request",
            exchange_id=EXCHANGE,
            owner=OWNER,
            session=scene.session,
            asked=DIALECT.read(json.dumps(body).encode(), 100),
            dialect=DIALECT,
            tools=(self.dice,) if scene.dice else (),
            notes=scene.notes,
        )
        return await self.preparer.prepare(given, _have_nobody_observe)

    async def answer(self) -> None:
        """Run the exchange; whoever calls the runner says what a crash of it looks like."""
        try:
            await self.live.run(await self.prepare(), self.client)
        except Exception as error:  # noqa: BLE001
            self.transcript.add(f"runner raises {type(error).__name__}")
            if not self.client.ended:
                await self._say(Unavailable("Something went wrong inside the gateway."))

    async def _say(self, error: Unavailable) -> None:
        if self.client.started:
            await self.client.end(DIALECT.error_body(error))
        else:
            await self.client.whole(error.status, (), DIALECT.error_body(error))

    def check_nothing_is_left(self) -> None:
        """Check that the exchange has let go of everything."""
        turns = [turn.name for one in self.upstreams.values() for turn in one.turns if turn.is_open]
        counts, services = self.reminders.counts, self.live.services
        left = {
            "exchanges": len(self.live.live),
            "turns": turns,
            "reminders": counts.reserved - counts.committed - counts.released,
            "results": self.queue.counts.reserved
            - self.queue.counts.committed
            - self.queue.counts.released,
            "holds": len(self.holds),
            "timers": len(self.timers) + len(self.holds.patience),
            "slots": SLOTS - services.follow_up_slots.value,
            "heartbeats": len(services.heartbeats),
            "watchers": int(self.client.leave is not None),
        }
        assert not {name: number for name, number in left.items() if number}


class SteadyTime:
    """The steady side of a manual clock, which passes only when the story says so."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._passed = anyio.Event()

    def now_ms(self) -> int:
        return self._clock.steady_ms()

    async def sleep_until(self, at_ms: int) -> None:
        while self.now_ms() < at_ms:
            await self._passed.wait()
        await anyio.lowlevel.checkpoint()

    def advance(self, ms: int) -> None:
        self._clock.advance(ms)
        passed, self._passed = self._passed, anyio.Event()
        passed.set()


def _have_nobody_observe(view: object) -> Observer:
    return NOBODY


# What may happen in a story.

Act = Callable[..., Any]
ACTS: list[tuple[re.Pattern[str], Act]] = []


def act(pattern: str) -> Callable[[Act], Act]:
    """Have a function do what a line of this form says; what is in brackets are its arguments."""

    def add(function: Act) -> Act:
        ACTS.append((re.compile(pattern), function))
        return function

    return add


@act(r"(\w) fails with (\d+)")
def _fail(stage: Stage, name: str, status: str) -> None:
    body = json.dumps({"error": {"message": "no", "code": f"upstream_{status}"}}).encode()
    stage.upstreams[name].fail(UpstreamAnswered(int(status), JSON, body))


@act(r"(\w) refuses stream_options")
def _refuse_usage(stage: Stage, name: str) -> None:
    error = {"message": "Unknown parameter: stream_options", "code": "unknown_parameter"}
    body = json.dumps({"error": error}).encode()
    stage.upstreams[name].fail(UpstreamAnswered(400, JSON, body))


@act(r"(\w) can not be reached")
def _refuse(stage: Stage, name: str) -> None:
    stage.upstreams[name].fail(UpstreamUnreachable("It refused."))


@act(r"(\w) breaks off")
def _break_off(stage: Stage, name: str) -> None:
    stage.upstreams[name].fail(UpstreamBroke("It broke off."))


@act(r"(\w) has a fault")
def _have_a_fault(stage: Stage, name: str) -> None:
    stage.upstreams[name].fail(RuntimeError("a bug"))


@act(r"(\w) opens")
def _open(stage: Stage, name: str) -> None:
    stage.upstreams[name].answer(STREAM)


@act(r'(\w) sends "(.*)"')
def _send(stage: Stage, name: str, text: str) -> None:
    stage.upstreams[name].answer(STREAM).put(chunk({"role": "assistant", "content": text}))


@act(r"(\w) announces an answer")
def _announce(stage: Stage, name: str) -> None:
    stage.upstreams[name].answer(STREAM).put(chunk({"role": "assistant", "content": ""}))


@act(r"(\w) calls (\w+)( .*)?")
def _call(stage: Stage, name: str, tool: str, arguments: str | None) -> None:
    turn = stage.upstreams[name].answer(STREAM)
    turn.put(chunk({"tool_calls": [call(turn.calls, tool, arguments or "{}")]}))
    turn.calls += 1


@act(r"(\w) stops")
def _stop(stage: Stage, name: str) -> None:
    turn = stage.upstreams[name].answer(STREAM)
    turn.put(chunk({}, "tool_calls" if turn.calls else "stop") + b"data: [DONE]\n\n")


@act(r'(\w) answers "(.*)"')
def _answer(stage: Stage, name: str, text: str) -> None:
    turn = stage.upstreams[name].answer(JSON)
    turn.put(whole({"content": text}, "stop"))
    turn.put(None)


@act(r"(\w) answers with a call of (\w+)")
def _answer_with_call(stage: Stage, name: str, tool: str) -> None:
    turn = stage.upstreams[name].answer(JSON)
    turn.put(whole({"content": None, "tool_calls": [call(0, tool, "{}")]}, "tool_calls"))
    turn.put(None)


@act(r"dice returns (.*)")
def _return(stage: Stage, text: str) -> None:
    assert stage.dice.result is not None
    stage.dice.result.set_result(text)


@act(r"dice has a fault")
def _have_a_faulty_tool(stage: Stage) -> None:
    assert stage.dice.result is not None
    stage.dice.result.set_exception(RuntimeError("a bug"))


@act(r"client leaves")
def _leave(stage: Stage) -> None:
    assert stage.client.leave is not None
    stage.client.leave()


@act(r"client stops reading")
def _stop_reading(stage: Stage) -> None:
    stage.client.blocked = True


@act(r"client reads on")
def _read_on(stage: Stage) -> None:
    stage.client.read_on()


@act(r"client has a fault")
def _have_a_faulty_client(stage: Stage) -> None:
    stage.client.raises = RuntimeError("a bug")


@act(r"client is silent for long")
async def _beat(stage: Stage) -> None:
    # What the heartbeats' own timer would do now.
    (target,) = stage.live.services.heartbeats._targets.values()
    if not target.send_heartbeat_now():
        await target.send_heartbeat()


@act(r"(\d+) s pass")
def _pass(stage: Stage, seconds: str) -> None:
    stage.time.advance(int(seconds) * 1000)


@act(r"clock is set back by (\d+) s")
def _set_back(stage: Stage, seconds: str) -> None:
    stage.clock.step(-int(seconds) * 1000)


@act(r"reminder (\w+) is set for in (\d+) s")
async def _schedule(stage: Stage, text: str, seconds: str) -> None:
    due_ms = stage.clock.now_ms() + int(seconds) * 1000
    await stage.reminders.schedule(OWNER, SESSION, (ReminderRequest(due_ms, text),))


@act(r"reminder (\w+) is cancelled")
async def _cancel(stage: Stage, text: str) -> None:
    listed = await stage.reminders.list_undelivered(OWNER, SESSION)
    (found,) = [one for one in listed if one.text == text]
    await stage.reminders.cancel(OWNER, SESSION, found.id)


@act(r"reminders are cancelled")
async def _clear(stage: Stage) -> None:
    await stage.reminders.clear(OWNER, SESSION)


@act(r"a run is under way")
def _begin_run(stage: Stage) -> None:
    stage.job_runs.begins_ms = stage.clock.now_ms()


@act(r'the run ends with "(.*)"')
def _end_run(stage: Stage, text: str) -> None:
    item = OutboxItem("item", OWNER, SESSION, stage.clock.now_ms(), text)
    stage.deliveries.items.append(item)
    stage.queue.announce(item)
    stage.job_runs.end(OWNER, SESSION)


@act(r"another request takes over")
def _take_over(stage: Stage) -> None:
    stage.holds.end(OWNER, SESSION)


@act(r"holds are drained")
def _drain(stage: Stage) -> None:
    stage.holds.drain()


@act(r"gateway has to go")
def _cut(stage: Stage) -> None:
    stage.live.cut(Draining("The gateway is shutting down."))


@act(r"session is deleted")
def _delete(stage: Stage) -> None:
    stage.live.cut_session(OWNER, SESSION, SessionDeleted("It was deleted."))


@act(r"store goes down")
def _go_down(stage: Stage) -> None:
    stage.store.go_down()


@act(r"store is back")
def _come_back(stage: Stage) -> None:
    stage.store.error = None


@act(r"store has a fault")
def _have_a_faulty_store(stage: Stage) -> None:
    stage.store.error = RuntimeError("a bug")


@act(r"reminders are swept")
async def _sweep(stage: Stage) -> None:
    await stage.reminders.sweep()


# Playing.

ASKS = "client asks"
MOST_TURNS = 2000


async def play(story: str, scene: Scene | None = None) -> Stage:
    """Play a story before each audience; return the stage on which everything was heard."""
    scene = scene or Scene()
    expected = [line.strip() for line in story.splitlines() if line.strip()]
    for hears_all, is_slow in ((False, False), (True, True), (True, False)):
        stage = Stage(scene, hears_all, is_slow)
        done = await _play(stage, [line for line in expected if line.startswith(">>")])
        if done != expected:
            shown = "\n".join(ndiff(expected, done))
            pytest.fail(f"({hears_all=}, {is_slow=}) - is missing, + was not expected:\n{shown}")
        stage.check_nothing_is_left()
    return stage


async def _play(stage: Stage, events: list[str]) -> list[str]:
    """Have the events of a story happen; return the whole story as it went."""
    done: list[str] = []
    async with anyio.create_task_group() as group:
        group.start_soon(stage.timers.run)
        group.start_soon(stage.holds.patience.run)
        for event in events:
            what = event.removeprefix(">>").strip()
            if what == ASKS:
                group.start_soon(stage.answer)
            else:
                await _happen(stage, what)
            await _wait_until_all_wait()
            done += [event, *(f"<< {line}" for line in stage.transcript.take())]
        group.cancel_scope.cancel()
    # What goes on after the last line is no part of any story.
    return done + [f"<< {line}" for line in stage.transcript.take()]


async def _happen(stage: Stage, what: str) -> None:
    for pattern, function in ACTS:
        if found := pattern.fullmatch(what):
            pending = function(stage, *found.groups())
            if pending is not None:
                await pending
            return
    raise AssertionError(f"nobody knows how to play: {what}")


async def _wait_until_all_wait() -> None:
    """Return when every other task waits for something that is not there yet.

    Callbacks may be due that wake a task, so it has to be so in several turns of the loop.
    """
    me, quiet = asyncio.current_task(), 0
    for _ in range(MOST_TURNS):
        await asyncio.sleep(0)
        waiting = [task._fut_waiter for task in asyncio.all_tasks() if task is not me]  # type: ignore[attr-defined]
        quiet = quiet + 1 if all(one is not None and not one.done() for one in waiting) else 0
        if quiet == 5:
            return
    raise AssertionError("somebody never comes to rest")
