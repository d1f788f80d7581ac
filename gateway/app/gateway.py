"""The composition root: a configuration becomes a running gateway."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup

from gateway.api.admission import AdmissionMiddleware
from gateway.api.error_router import ErrorRouter
from gateway.app import wiring
from gateway.app.routes import relays_of, routes_of
from gateway.app.services import GatewayCore, GatewayServices
from gateway.app.tracing import find_tracer
from gateway.clock.ntp import NtpClock
from gateway.clock.protocol import Clock
from gateway.clock.system import SystemClock
from gateway.clock.timer_queue import TimerQueue
from gateway.clock.zone import zone_of
from gateway.config import Config
from gateway.demo.journal import RequestJournal
from gateway.demo.server import DemoServer
from gateway.errors import Draining
from gateway.exchange.answer_ids import SHAPE as ANSWERS
from gateway.exchange.exchange_log import ExchangeLog
from gateway.exchange.observer import combine
from gateway.exchange.rules import RULES, Rule
from gateway.logs import EventLog, LogWriter
from gateway.metrics import Metrics
from gateway.reminders.holds import Holds
from gateway.reminders.service import SHAPE as REMINDERS
from gateway.sessions.session_request import SHAPE
from gateway.stores import open_documents
from gateway.stores.documents import Shape
from gateway.stores.urls import open_rows
from gateway.wire.http_client.connect import connect
from gateway.wire.http_client.upstream import Endpoint, Upstream

SHUTDOWN_SECONDS = 1.0


class Gateway:
    """One gateway: its parts, put together, and its life from start to drain."""

    parts: GatewayServices

    def __init__(
        self,
        config: Config,
        event_log: EventLog | None = None,
        rules: tuple[Rule, ...] = RULES,
        clock: Clock | None = None,
    ) -> None:
        self.config = config
        form = config.server.log_format
        self.event_log = event_log or EventLog(form, LogWriter(sys.stderr, form))
        self.key_commands = wiring.key_commands_of(config, self.event_log.note)
        commands = self.key_commands
        self.upstreams: dict[str, Upstream] = {
            section.id: wiring.connect_upstream(section, commands.get(section.id))
            for section in config.upstreams
        }
        self.counters: dict[str, Upstream] = {
            section.id: wiring.connect_upstream(section, commands.get(section.id), "/count_tokens")
            for section in config.upstreams
            if section.dialect == wiring.MESSAGES
        }
        self.exchanges = wiring.make_exchanges(config, self.upstreams, rules)
        self.models = wiring.models_of(config)
        self.keys = wiring.keys_of(config)
        self.clock = clock or wiring.clock_of(config)
        self.timers = TimerQueue(self.clock)
        limits = config.limits
        most_of_one = limits.holds_per_owner if limits.holds_per_session else 0
        self.holds = Holds(self.timers, time.monotonic, limits.holds, most_of_one)
        self.zone = zone_of(config.clock.timezone)
        self.metrics = Metrics(self.exchanges.live, self.upstreams)
        self.exchanges.observer = combine(self.metrics, ExchangeLog(self.event_log))
        self.exchanges.tracer = find_tracer(config, self.upstreams)
        self.metrics.holds = self.holds
        self.metrics.log_lines_dropped = lambda: self.event_log.dropped
        # Closed until the stores are open; a server only learns from it when it may begin.
        site = ErrorRouter([], lifespan=lambda app: self)
        self.asgi = AdmissionMiddleware(site, wiring.admission_of(config, bool(self.keys)), {})
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._leaving = anyio.Event()
        self._left: Callable[[], None] = lambda: None

    async def __aenter__(self) -> None:
        """Open the stores, and start what runs beside the requests."""
        self.parts = await self._open()
        self.metrics.reminders = self.parts.reminders.counts
        self.metrics.deliveries = self.parts.deliveries.counts
        if self.parts.scheduler is not None:
            self.metrics.runs = self.parts.scheduler.runner.counts
        if self.config.demo:
            await self._start_demo()
        self._stack.push_async_callback(self.exchanges.services.offload.aclose)
        self._stack.push_async_callback(self._close_upstreams)
        if isinstance(self.clock, NtpClock):
            await self.clock.restore()
        await self.parts.deliveries.load()
        await self.parts.webhooks.load()
        self._tasks = await self._stack.enter_async_context(anyio.create_task_group())
        self._start(self._tasks)
        if self.exchanges.tracer is not None:
            self.event_log.note("tracing")
        self.parts.agents.announce()
        self.asgi.replace_routes(
            ErrorRouter(routes_of(self.parts), lambda app: self), relays_of(self.parts)
        )

    def _start(self, tasks: TaskGroup) -> None:
        parts, config = self.parts, self.config
        tasks.start_soon(self.exchanges.services.heartbeats.run)
        tasks.start_soon(parts.states.run, config.clock.tick_ms)
        tasks.start_soon(parts.answers.run, config.clock.tick_ms)
        tasks.start_soon(self.timers.run)
        tasks.start_soon(self.holds.run)
        tasks.start_soon(parts.reminders.run, config.clock.tick_ms)
        tasks.start_soon(parts.handover.run)
        if isinstance(self.clock, NtpClock):
            tasks.start_soon(self.clock.run)
        tasks.start_soon(parts.deliveries.run)
        tasks.start_soon(parts.due_notifier.run)
        tasks.start_soon(parts.webhooks.run)
        tasks.start_soon(parts.locks.run)
        tasks.start_soon(parts.snapshots.run)
        if parts.scheduler is not None:
            tasks.start_soon(parts.scheduler.run)
        for command in self.key_commands.values():
            tasks.start_soon(command.run)
        tasks.start_soon(self._drain)

    async def _start_demo(self) -> None:
        demo = DemoServer(RequestJournal(keep=0))
        port = await demo.start("127.0.0.1", 0)
        self._stack.push_async_callback(demo.aclose)
        endpoint = Endpoint(wiring.DEMO, f"http://127.0.0.1:{port}/v1/chat/completions")
        self.upstreams[wiring.DEMO] = connect(endpoint)

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
        self.event_log.flush()

    def leave(self, left: Callable[[], None]) -> None:
        """Take nothing new, let what runs finish within `drain_ms`, then say that it is done."""
        self.exchanges.draining = True
        self._left = left
        self._leaving.set()
        self.event_log.note(
            "draining", live=len(self.exchanges.live), drain_ms=self.config.server.drain_ms
        )

    async def _drain(self) -> None:
        await self._leaving.wait()
        parts = self.parts
        self.holds.drain()
        parts.feed.drain()
        parts.inbox.drain()
        if parts.scheduler is not None:
            parts.scheduler.drain()
        limit = self.config.server.drain_ms / 1000
        # The rest of the time is for the farewells, so that the process leaves within the limit.
        rest = min(SHUTDOWN_SECONDS, limit / 5)
        with anyio.move_on_after(limit - rest):
            await self._idle()
        self.exchanges.cut(Draining("The gateway is shutting down; try again.", retry_after=1))
        with anyio.move_on_after(rest):
            await self._idle()
        self._left()

    async def _idle(self) -> None:
        await self.exchanges.idle()
        if self.parts.scheduler is not None:
            await self.parts.scheduler.idle()

    async def _open(self) -> GatewayServices:
        url, session_dir = self.config.store.url, Path(self.config.server.session_dir)
        shapes: list[Shape[Any]] = [SHAPE, REMINDERS, ANSWERS]
        # What is stored is dated by the same clock that reminders go by.
        now_ms = self.clock.now_ms
        store = await open_documents(
            url, session_dir, shapes, now_ms=now_ms, on_quarantine=self._note_quarantined
        )
        self._stack.push_async_callback(store.aclose)
        # Leases end by the host's time.
        rows = await open_rows(
            url,
            session_dir,
            store,
            now_ms=now_ms,
            lease_ms=SystemClock().now_ms,
            on_quarantine=self._note_quarantined,
        )
        self._stack.push_async_callback(rows.aclose)
        base = GatewayCore(
            self.config,
            self.exchanges,
            self.models,
            self.clock,
            self.zone,
            self.timers,
            self.holds,
            self.keys,
            self.metrics,
            self.counters,
            time.time(),
            self.event_log.note,
        )
        return GatewayServices(base, store, rows)

    def _note_quarantined(self, name: str, reason: str) -> None:
        self.metrics.quarantined += 1
        self.event_log.note("quarantined", name=name, why=reason)

    async def _close_upstreams(self) -> None:
        for upstream in (*self.upstreams.values(), *self.counters.values()):
            await upstream.aclose()
