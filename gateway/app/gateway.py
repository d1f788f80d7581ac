"""The composition root: a configuration becomes a running gateway."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET, UnsetType
from starlette.routing import BaseRoute

from gateway.api.admission import INSTANCE, Admission, AdmissionMiddleware
from gateway.api.early_refusals import EarlyRefusals
from gateway.api.error_router import ErrorRouter
from gateway.api.operations import InstanceStatus
from gateway.app import wiring
from gateway.app.console import ConsoleTopics, make_feed_services
from gateway.app.reload import ConfigReloader, ReloadSource
from gateway.app.request_services import RequestServices
from gateway.app.routes import health_of, lister_of, operations_of, relays_of, routes_of
from gateway.app.services import GatewayCore, GatewayServices
from gateway.app.shapes import SHAPES
from gateway.app.tracing import find_tracer
from gateway.app.upstreams import UpstreamConnections
from gateway.app.worker_messages import WorkerSeat
from gateway.clock.ntp import NtpClock
from gateway.clock.protocol import Clock
from gateway.clock.shared import SharedClock
from gateway.clock.system import SystemClock
from gateway.clock.timer_queue import TimerQueue
from gateway.clock.zone import zone_of
from gateway.config import Config, UpstreamSection
from gateway.console.metrics_sampler import MetricsSampler
from gateway.demo.journal import RequestJournal
from gateway.demo.server import DemoServer
from gateway.errors import Draining
from gateway.exchange.exchange_log import ExchangeLog
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.observer import ObserverGroup
from gateway.exchange.request_counts import RequestCounts
from gateway.exchange.rules import RULES, Rule
from gateway.logs import EventLog, LogWriter
from gateway.metrics import Metrics
from gateway.reminders.holds import Holds
from gateway.stores import Documents, Rows, open_documents
from gateway.stores.instance import NAME_LENGTH
from gateway.stores.shared import is_shared
from gateway.stores.urls import open_rows, open_shared

SHUTDOWN_SECONDS = 1.0


class Gateway:
    """One gateway: its parts, put together, and its life from start to drain."""

    parts: GatewayServices
    serving: RequestServices
    """What new requests are answered with."""
    host_clock: Clock
    """What models are told; time servers correct it."""
    clock: Clock
    """By which everything is due."""

    def __init__(
        self,
        config: Config,
        event_log: EventLog | None = None,
        rules: tuple[Rule, ...] = RULES,
        clock: Clock | None = None,
        source: ReloadSource | None = None,
    ) -> None:
        self.config = config
        form = config.server.log_format
        self.event_log = event_log or EventLog(
            form, LogWriter(sys.stderr, form), level=config.server.log_level
        )
        self.upstreams = UpstreamConnections(self.event_log.note)
        self.exchanges = wiring.make_exchanges(config, rules)
        self.host_clock = clock or wiring.clock_of(config)
        self.clock = wiring.due_clock_of(config, self.host_clock)
        self.timers = TimerQueue(self.clock)
        self.holds = Holds(self.timers, time.monotonic, *wiring.hold_limits(config))
        self.totals = ExchangeTotals(self.clock)
        requests = RequestCounts(self.totals, config.metrics.owner_label)
        self.metrics = Metrics(self.exchanges.live, requests)
        self.sampler = MetricsSampler(
            self.totals, self.holds, self.exchanges.live, self.clock, time.monotonic
        )
        log = ExchangeLog(self.event_log)
        self.exchanges.observer = ObserverGroup(self.totals, log, requests, self.sampler)
        self.metrics.holds = self.holds
        self.metrics.log_lines_dropped = lambda: self.event_log.dropped
        # Closed until the stores are open; a server only learns from it when it may begin.
        admission = wiring.admission_of(config)
        self.asgi = AdmissionMiddleware(self._router([]), admission, {}, self.exchanges.tell)
        # For who looks after this one process, at an address of its own: only by loopback names.
        self.operator_asgi = AdmissionMiddleware(
            self._router([]), Admission(), {}, self.exchanges.tell
        )
        self.seat: WorkerSeat | None = None
        """Which of several workers this process is."""
        self._instance_id: Callable[[], str] = lambda: ""
        self.early_refusals = EarlyRefusals(self.exchanges.tell, self.event_log.note)
        self._reloader = ConfigReloader(source, self._use_config, self.event_log)
        self.metrics.config_reloads = self._reloader.counts
        self._demo_server = DemoServer(RequestJournal(keep=0))
        self._demo: UpstreamSection | None = None
        self._stack = AsyncExitStack()
        self._tasks: TaskGroup | None = None
        self._leaving = anyio.Event()
        self._left: Callable[[], None] = lambda: None

    async def __aenter__(self) -> None:
        """Open the stores, and start what runs beside the requests."""
        self.parts = parts = await self._open()
        self._topics = ConsoleTopics(parts)
        parts.console = make_feed_services(parts, self._topics)
        self._stack.push_async_callback(parts.usage.aclose)
        self.metrics.reminders = parts.reminders.counts
        self.metrics.deliveries = parts.deliveries.counts
        self._stack.push_async_callback(self._close_demo)
        self._stack.push_async_callback(self.exchanges.services.offload.aclose)
        self._stack.push_async_callback(self.upstreams.aclose)
        if isinstance(self.host_clock, NtpClock):
            await self.host_clock.restore()
        await parts.deliveries.load()
        await parts.webhooks.load()
        self._tasks = tasks = await self._stack.enter_async_context(anyio.create_task_group())
        await parts.limits.load(parts.usage.sum_since)
        await self._use(await self._make_request_services(self.config), tasks)
        if self.exchanges.tracer is not None:
            self.event_log.note("tracing")
        self.serving.agents.announce()
        self._start(tasks)

    def use_instance(self, instance_id: Callable[[], str]) -> None:
        """Name this process in every answer and every log line; others share its store."""
        self._instance_id = instance_id
        self.asgi.name_instance = self.operator_asgi.name_instance = self.name_instance
        self.event_log.name_instance = self.name_instance

    async def _make_request_services(self, config: Config) -> RequestServices:
        """Make what new requests are answered with; nothing uses it yet."""
        if config.keys and self.parts.token_signer is None:
            await self.parts.load_token_signer()
        sections = config.upstreams
        if config.demo:
            sections += (await self._start_demo(),)
        connected, health = self.upstreams.connect(sections), self.exchanges.services.health
        unchanged = self.upstreams.find_unchanged(connected)
        if len(unchanged) < len(self.upstreams.current):
            health = health.keep_only(unchanged)
        return RequestServices(config, connected, health, self.parts)

    async def _use(self, services: RequestServices, tasks: TaskGroup) -> None:
        """Answer new requests with these; nobody sees some of the new and some of the old."""
        site = self._router(routes_of(services))
        relays, admission = relays_of(services), wiring.admission_of(services.config)
        parts = self.parts
        self.config, self.serving = services.config, services
        self.exchanges.services = services.exchange_services
        upstreams = services.exchange_services.upstreams
        self.exchanges.tracer = find_tracer(services.config, upstreams)
        self.metrics.upstreams = upstreams
        self.metrics.requests.routes.models = services.models
        parts.set_limits(services.config)
        parts.console.find_owner = services.keys.owner
        self._topics.use(lister_of(services), health_of(services))
        parts.usage.set_prices(wiring.prices_of(services.config))
        parts.usage.on_turn = None if services.limits is None else services.limits.settle
        parts.use_executors(services.agent_runs, services.relay_runs)
        if parts.scheduler is not None:
            services.jobs.scheduler = parts.scheduler
            self.metrics.runs = parts.scheduler.runner.counts
        self.asgi.replace_routes(site, relays, admission)
        if self.seat is not None:
            operations = self._router(operations_of(services).routes())
            self.operator_asgi.replace_routes(operations, {}, Admission())
        await self.upstreams.use(services.connected, tasks)

    def name_instance(self) -> str:
        """Return the short name of this process among those that share its store, or nothing."""
        return self._instance_id()[:NAME_LENGTH]

    def _show_instance(self) -> InstanceStatus | UnsetType:
        """Say who this process is, where several share a store."""
        name, seat = self.name_instance(), self.seat
        skew_ms = self.parts.store.instance.notable_skew_ms
        if seat is not None:
            return InstanceStatus(name, seat.number, seat.metrics_urls, skew_ms)
        return InstanceStatus(name, skew_ms=skew_ms) if name else UNSET

    def _router(self, routes: list[BaseRoute]) -> ErrorRouter:
        return ErrorRouter(routes, lambda app: self, self.exchanges.tell)

    async def _use_config(self, config: Config) -> None:
        """Answer new requests by another configuration; those under way go on as they began."""
        assert self._tasks is not None
        parts, former = self.parts, self.serving
        services = await self._make_request_services(config)
        # What ends while budgets are read counts, too, also if nobody had one until now.
        parts.usage.on_turn = parts.limits.settle
        await parts.limits.replace_bounds(wiring.owner_bounds(config), parts.usage.sum_since)
        await self._use(services, self._tasks)
        if self.serving.agents.known != former.agents.known:
            self.serving.agents.announce()
        await parts.webhooks.replace(wiring.hooks_of(config))
        await parts.due_notifier.replace_owners(parts.webhooks.owners)

    def reload(self) -> None:
        """Read the configuration again soon, and use what of it needs no restart."""
        if self.exchanges.draining:
            self._reloader.refuse(["the gateway is shutting down"])
        else:
            self._reloader.request()

    def _start(self, tasks: TaskGroup) -> None:
        parts, config = self.parts, self.config
        tasks.start_soon(self.exchanges.services.heartbeats.run)
        tasks.start_soon(parts.states.run, config.clock.tick_ms)
        tasks.start_soon(parts.answers.run, config.clock.tick_ms)
        tasks.start_soon(self.timers.run)
        tasks.start_soon(self.holds.run)
        tasks.start_soon(parts.reminders.run, config.clock.tick_ms)
        if not parts.store.instance.is_alone:
            tasks.start_soon(parts.reminders.run_settling)
        tasks.start_soon(parts.handover.run)
        if isinstance(self.host_clock, NtpClock):
            tasks.start_soon(self.host_clock.run)
        tasks.start_soon(parts.deliveries.run)
        tasks.start_soon(parts.due_notifier.run)
        tasks.start_soon(parts.webhooks.run)
        tasks.start_soon(parts.locks.run)
        tasks.start_soon(parts.snapshots.run)
        tasks.start_soon(parts.usage.run)
        if parts.instances is not None:
            tasks.start_soon(parts.instances.run)
        tasks.start_soon(self.sampler.run)
        tasks.start_soon(parts.console.board.run)
        if parts.scheduler is not None:
            tasks.start_soon(parts.scheduler.run)
        tasks.start_soon(self._drain)
        tasks.start_soon(self._reloader.run, config)

    async def _start_demo(self) -> UpstreamSection:
        """Return the demo as an upstream; once started, it stays: an answer may be its own."""
        if self._demo is None:
            self._demo = wiring.demo_section(await self._demo_server.start("127.0.0.1", 0))
        return self._demo

    async def _close_demo(self) -> None:
        if self._demo is not None:
            await self._demo_server.aclose()

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
            # Until here the console shows what is still open.
            parts.console.subscribers.drain()
            await parts.usage.flush()
        parts.console.subscribers.drain()
        self._left()

    async def _idle(self) -> None:
        await self.exchanges.idle()
        if self.parts.scheduler is not None:
            await self.parts.scheduler.idle()

    async def _open(self) -> GatewayServices:
        url, session_dir = self.config.store.url, Path(self.config.server.session_dir)
        # What is stored is dated by the same clock that reminders go by.
        now_ms = self.clock.now_ms
        if is_shared(url):
            return self._make_services(*await self._open_shared())
        store = await open_documents(
            url, session_dir, SHAPES, now_ms=now_ms, on_quarantine=self._note_quarantined
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
        return self._make_services(store, rows)

    async def _open_shared(self) -> tuple[Documents, Rows]:
        settings = wiring.store_settings(self.config)
        shared = await open_shared(
            settings, self.clock.now_ms, self._note_quarantined, self.event_log.note, INSTANCE
        )
        self._stack.push_async_callback(shared.aclose)
        instance = shared.documents.instance
        self.use_instance(lambda: instance.id)
        if isinstance(self.clock, SharedClock):
            self.clock.follow(instance.now_ms)
        return shared.documents, shared.rows

    def _make_services(self, store: Documents, rows: Rows) -> GatewayServices:
        base = GatewayCore(
            self.config,
            self.exchanges,
            self.clock,
            zone_of(self.config.clock.timezone),
            self.timers,
            self.holds,
            self.totals,
            self.metrics,
            self.sampler.history,
            time.time(),
            self.event_log.note,
            self._show_instance,
        )
        return GatewayServices(base, store, rows)

    def _note_quarantined(self, name: str, reason: str) -> None:
        self.metrics.quarantined += 1
        self.event_log.note("quarantined", name=name, why=reason)
