"""The composition root: a configuration becomes a running gateway."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from gateway.answers import SHAPE as ANSWERS
from gateway.answers import Answers
from gateway.beats import Beats
from gateway.clock.alarms import Alarms
from gateway.clock.base import Clock
from gateway.clock.ntp import NtpClock, NtpSettings
from gateway.clock.system import SystemClock
from gateway.clock.zone import zone_of
from gateway.config import Config, UpstreamSection
from gateway.core.additions import ToolDeclaration
from gateway.core.decide import RULES, Rule
from gateway.core.model import Route
from gateway.core.reminders import Rules as ReminderRules
from gateway.core.session import StopRules
from gateway.demo.journal import Journal as DemoJournal
from gateway.demo.server import DemoServer
from gateway.dialects import DIALECTS
from gateway.dialects.profiles import PROFILES
from gateway.dialects.ways import Speech, Ways
from gateway.driver import Driver, Limits, Report, Services
from gateway.errors import Draining, Headers
from gateway.holds import Holds
from gateway.logs import Journal
from gateway.metrics import Metrics
from gateway.reminders import SHAPE as REMINDERS
from gateway.reminders import Reminders
from gateway.reports import log_report
from gateway.routing import Models, PublicModel, every_model
from gateway.sessions import SHAPE, Sessions, Settings, States
from gateway.stores import Memory, open_documents
from gateway.stores.base import Shape
from gateway.stores.opening import system_ms, unreported
from gateway.timepiece import Timepieces, TimeSettings
from gateway.tools.bd import Tracker
from gateway.upstream import Endpoint, Timeouts, Upstream, connect
from gateway.web.auth import Keys, Owner
from gateway.web.connection import limited_connection
from gateway.web.counting import Counting
from gateway.web.front import Admission, Front
from gateway.web.operations import Operations
from gateway.web.relay import Relay, RelayLimits
from gateway.web.reminders import BodyLimits, RemindersArea
from gateway.web.server import Server, listen, server_config
from gateway.web.sessions import SessionsArea
from gateway.web.site import Site

DEMO = "demo"
FAREWELL = 1.0
GC_THRESHOLDS = (20_000, 20, 50)
MESSAGES = "anthropic-messages"
ANTHROPIC_VERSION = (b"anthropic-version", b"2023-06-01")


class Gateway:
    """One gateway: its parts, put together, and its life from start to drain."""

    def __init__(
        self,
        config: Config,
        journal: Journal | None = None,
        rules: tuple[Rule, ...] = RULES,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        self.journal = journal or Journal(config.server.log_format, sys.stderr)
        self.draining = False
        self.upstreams: dict[str, Upstream] = {
            section.id: connect(_endpoint(section)) for section in config.upstreams
        }
        self._counters: dict[str, Upstream] = {
            section.id: connect(_endpoint(section, "/count_tokens"))
            for section in config.upstreams
            if section.dialect == MESSAGES
        }
        self.driver = _driver(config, self.upstreams, rules)
        self.metrics = Metrics(
            lambda: len(self.driver.live),
            lambda: self.upstreams,
            lambda name: self.upstreams[name].busy,
        )
        self.driver.reported = self._report
        self.clock = clock or _clock(config)
        self.alarms = Alarms(self.clock)
        limits = config.limits
        most_of_one = limits.holds_per_owner if limits.holds_per_session else 0
        self.holds = Holds(self.alarms, time.monotonic, limits.holds, most_of_one)
        self.reminders = Reminders(
            Memory(system_ms, unreported), self.clock, _reminder_rules(config), self.journal.note
        )
        self.metrics.reminders, self.metrics.holds = self.reminders.counts, self.holds
        self.zone = zone_of(config.clock.timezone)
        self.states = States(Memory(system_ms, unreported), self.journal.note)
        self.answers = Answers(Memory(system_ms, unreported), self.journal.note)
        self.sessions = self._sessions()
        self.asgi = self._site()
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._leaving = anyio.Event()
        self._left: Callable[[], None] = lambda: None

    async def __aenter__(self) -> None:
        """Open the store, and start what runs beside the requests."""
        await self._open_store()
        if self.config.demo:
            demo = DemoServer(DemoJournal(keep=0))
            port = await demo.start("127.0.0.1", 0)
            self._stack.push_async_callback(demo.aclose)
            endpoint = Endpoint(DEMO, f"http://127.0.0.1:{port}/v1/chat/completions")
            self.upstreams[DEMO] = connect(endpoint)
        self._stack.push_async_callback(self._close_upstreams)
        if isinstance(self.clock, NtpClock):
            await self.clock.restore()
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._tasks.start_soon(self.driver.services.beats.run)
        self._tasks.start_soon(self.states.run, self.config.clock.tick_ms)
        self._tasks.start_soon(self.answers.run, self.config.clock.tick_ms)
        if self.config.clock.enabled:
            self._tasks.start_soon(self.alarms.run)
            self._tasks.start_soon(self.reminders.run, self.config.clock.tick_ms)
            if isinstance(self.clock, NtpClock):
                self._tasks.start_soon(self.clock.run)
        self._tasks.start_soon(self._drain)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it all."""
        if self._tasks is not None:
            self._tasks.cancel_scope.cancel()
        await self._stack.aclose()
        self.journal.flush()

    def leave(self, left: Callable[[], None]) -> None:
        """Take nothing new, let what runs finish within `drain_ms`, then say that it is done."""
        self.draining = True
        self._left = left
        self._leaving.set()
        self.journal.note(
            "draining", live=len(self.driver.live), drain_ms=self.config.server.drain_ms
        )

    async def _drain(self) -> None:
        await self._leaving.wait()
        self.holds.drain()
        limit = self.config.server.drain_ms / 1000
        # The rest of the time is for the farewells, so that the process leaves within the limit.
        rest = min(FAREWELL, limit / 5)
        with anyio.move_on_after(limit - rest):
            await self.driver.idle()
        self.driver.cut(Draining("The gateway is shutting down; ask again.", retry_after=1))
        with anyio.move_on_after(rest):
            await self.driver.idle()
        self._left()

    async def _open_store(self) -> None:
        url, place = self.config.store.url, Path(self.config.server.session_dir)
        shapes: list[Shape[Any]] = [SHAPE, REMINDERS, ANSWERS]
        # What is stored is dated by the same clock that reminders go by.
        store = await open_documents(
            url, place, shapes, now_ms=self.clock.now_ms, on_quarantine=self._quarantined
        )
        self.states.store = self.reminders.store = self.answers.store = store
        self._stack.push_async_callback(store.aclose)

    def _quarantined(self, name: str, reason: str) -> None:
        self.metrics.quarantined += 1
        self.journal.note("quarantined", name=name, why=reason)

    def _sessions(self) -> Sessions:
        section = self.config.stop_message
        rules = StopRules(
            section.enabled,
            section.default_repeats,
            section.max_repeats,
            self.config.limits.stop_message_bytes,
        )
        files = Path(section.files_dir) if section.files_dir else None
        settings = Settings(rules, files, section.bd_mode, section.compaction_sentinels)
        tracker = Tracker(time.monotonic, os.environ.get("PATH"))
        reminders = self.reminders if self.config.clock.enabled else None
        return Sessions(self.states, settings, tracker, reminders)

    async def _close_upstreams(self) -> None:
        for upstream in (*self.upstreams.values(), *self._counters.values()):
            await upstream.aclose()

    def _report(self, report: Report) -> None:
        self.metrics.count(report)
        log_report(self.journal, report)

    def _site(self) -> Front:
        config = self.config
        models, keys = _models(config), _keys(config)
        relays = {
            f"/v1{dialect.path}": self._relay(name, models, keys)
            for name, dialect in DIALECTS.items()
        }
        operations = Operations(
            driver=self.driver,
            models=models,
            keys=keys,
            metrics=self.metrics,
            draining=lambda: self.draining,
            check_store=lambda: self.states.store.check(),
            started_at=time.time(),
            wall=time.time,
            clock=self._clock_status,
        )
        limits = BodyLimits(config.limits.body_bytes, config.limits.json_depth)
        reminders = RemindersArea(self.reminders, self.clock, keys, self.zone, limits)
        sessions = SessionsArea(self.states, self.reminders, keys)
        # Names of sessions may hold anything, so what is about parts of one comes first.
        counting = Counting(
            DIALECTS[MESSAGES],
            models,
            keys,
            self._counters,
            config.limits.body_bytes,
            config.limits.json_depth,
        )
        areas = (operations, counting, reminders, sessions)
        routes = [route for area in areas for route in area.routes()]
        site = Site(routes, lifespan=lambda app: self)
        return Front(site, _admission(config, bool(keys)), relays)

    def _clock_status(self) -> Mapping[str, Any]:
        return {
            "enabled": self.config.clock.enabled,
            "timezone": self.zone.name,
            "nowMs": self.clock.now_ms(),
            "ntp": msgspec.to_builtins(self.clock.ntp),
            "holds": len(self.holds),
        }

    def _timepieces(self) -> Timepieces | None:
        section = self.config.clock
        if not section.enabled:
            return None
        settings = TimeSettings(
            section.time_tag,
            section.hold_max_ms,
            section.hold_total_ms,
            section.hold_non_streaming,
            tuple(map(_declaration, section.standard_tools)),
        )
        return Timepieces(self.clock, self.zone, self.reminders, self.holds, settings)

    def _relay(self, dialect: str, models: Models, keys: Keys) -> Relay:
        limits = RelayLimits(self.config.limits.body_bytes, self.config.limits.json_depth)
        return Relay(
            DIALECTS[dialect],
            self.driver,
            models,
            keys,
            self.sessions,
            self._timepieces(),
            self.answers,
            limits,
            lambda: self.draining,
        )


def create_app(config: Config) -> Front:
    """Return the gateway as an ASGI application, for any server."""
    return Gateway(config).asgi


def serve(config: Config, listening: Callable[[str], None]) -> None:
    """Run the gateway until a signal ends it."""
    gateway = Gateway(config)
    limits, server = config.limits, config.server
    protocol = limited_connection(limits.header_bytes, limits.receive_idle_ms / 1000)
    sock = listen(server.host, server.port)
    # By then all have had their time; only who does not read can still be there.
    runner = Server(server_config(gateway.asgi, protocol, FAREWELL, "off"), gateway.leave)
    runner.listening = listening
    # What is there now stays; looking through it again and again would only cost.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=runner.config.get_loop_factory()) as loop:
        loop.run(_run(gateway, runner, sock))


async def _run(gateway: Gateway, runner: Server, sock: socket.socket) -> None:
    # Not as the server's lifespan: what keeps the gateway from starting is to reach the caller.
    async with gateway:
        await runner.serve(sockets=[sock])


def _driver(config: Config, upstreams: dict[str, Upstream], rules: tuple[Rule, ...]) -> Driver:
    limits = config.limits
    beats = Beats(config.server.keepalive_ms / 1000, limits.slow_reader_ms / 1000, time.monotonic)
    bounds = Limits(limits.event_bytes, limits.body_bytes, limits.turns)
    places = anyio.Semaphore(limits.due_followups)
    ways = Ways(_speeches(config), limits.event_bytes, limits.body_bytes, time.time)
    return Driver(
        Services(upstreams, beats, time.monotonic, bounds, rules, places=places, ways=ways)
    )


def _speeches(config: Config) -> dict[str, Speech]:
    return {
        section.id: Speech(
            section.dialect,
            PROFILES[section.profile],
            (ANTHROPIC_VERSION,) if section.dialect == MESSAGES else (),
        )
        for section in config.upstreams
    } | {DEMO: Speech("openai-chat")}


def _clock(config: Config) -> Clock:
    section = config.clock.ntp
    if not (config.clock.enabled and section.enabled):
        return SystemClock()
    settings = NtpSettings(
        section.servers,
        section.timeout_ms,
        section.stale_after_ms,
        section.resync_ms,
        section.max_offset_ms,
    )
    # The offset is the host's, whatever store its sessions are kept in.
    in_memory = config.store.url == "memory:"
    place = None if in_memory else Path(config.server.session_dir) / "clock" / "ntp-state.json"
    return NtpClock(settings, place)


def _declaration(text: str) -> ToolDeclaration:
    """Read a tool declaration as any of the dialects would write it."""
    tool = json.loads(text)
    inner = tool.get("function", tool)
    schema = inner.get("parameters") or inner.get("input_schema") or {"type": "object"}
    description = str(inner.get("description", ""))
    return ToolDeclaration(str(inner["name"]), description, json.dumps(schema), strict=False)


def _reminder_rules(config: Config) -> ReminderRules:
    clock, limits = config.clock, config.limits
    return ReminderRules(
        clock.due_window_ms,
        clock.retention_ms,
        limits.reminders_per_session,
        limits.task_bytes,
        limits.arguments_bytes,
    )


def _endpoint(section: UpstreamSection, below: str = "") -> Endpoint:
    url = section.base_url.rstrip("/") + DIALECTS[section.dialect].path + below
    return Endpoint(
        id=section.id,
        url=url,
        headers=_credentials(section) + _constant_headers(section),
        timeouts=Timeouts(
            section.connect_ms / 1000, section.first_byte_ms / 1000, section.idle_ms / 1000
        ),
        max_connections=section.max_connections,
        transport=section.transport,
    )


def _credentials(section: UpstreamSection) -> Headers:
    if section.api_key is None:
        return ()
    key = section.api_key.reveal().encode()
    if section.dialect == MESSAGES:
        return ((b"x-api-key", key),)
    return ((b"authorization", b"Bearer " + key),)


def _constant_headers(section: UpstreamSection) -> Headers:
    return tuple(
        (name.lower().encode(), value.reveal().encode()) for name, value in section.headers
    )


def _models(config: Config) -> Models:
    offers = {section.id: section.models for section in config.upstreams}
    if config.demo:
        offers = {DEMO: (DEMO,), **offers}
    if config.models:
        public = [_public(m.name, m.routes, m.clock) for m in config.models]
        return Models(public, offers=offers)
    return every_model(offers)


def _public(name: str, routes: tuple[str, ...], clock: bool) -> PublicModel:
    pairs = (route.partition("/") for route in routes)
    return PublicModel(name, tuple(Route(upstream, model) for upstream, _, model in pairs), clock)


def _keys(config: Config) -> Keys:
    return Keys({key.sha256: Owner(key.owner, key.admin) for key in config.keys})


def _admission(config: Config, keyed: bool) -> Admission:
    return Admission(
        hosts=frozenset(name.lower() for name in config.server.hosts),
        any_host=keyed,
        origins=frozenset(config.server.cors_origins),
        header_bytes=config.limits.header_bytes,
    )
