"""All that keeps something: put together once the stores are open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.agents.conversations import Conversations
from gateway.agents.locks import Locks
from gateway.agents.service import Agents, AgentServices
from gateway.api.admission import Keys
from gateway.api.operations import ClockStatus
from gateway.app import wiring
from gateway.clock.protocol import Clock
from gateway.clock.system import SystemClock
from gateway.clock.timer_queue import TimerQueue
from gateway.clock.zone import Zone
from gateway.config import Config
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.prepare import ExchangePreparer
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.agent_runs import AgentRuns
from gateway.jobs.relay_runs import RelayRuns
from gateway.jobs.relay_sessions import JobIndex, Snapshots
from gateway.jobs.run_services import SchedulerServices
from gateway.jobs.scheduler import Scheduler
from gateway.jobs.service import JobService
from gateway.jobs.tool import ScheduleTaskOffer
from gateway.metrics import Metrics
from gateway.outbox.feed import Feed
from gateway.outbox.inbox import Inbox
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.webhooks import Webhooks
from gateway.reminders.handover import Handover
from gateway.reminders.holds import Holds
from gateway.reminders.notifier import DueNotifier
from gateway.reminders.server_tools import ToolServices
from gateway.reminders.service import ReminderService
from gateway.reminders.view import show_ntp
from gateway.routing import Models
from gateway.sessions.request_session import SessionStates
from gateway.sessions.service import Sessions
from gateway.sessions.task_tracker import TaskTracker
from gateway.stores import Documents
from gateway.stores.documents import StoreUnavailable
from gateway.stores.memory import Memory
from gateway.stores.rows import Rows
from gateway.usage.limits import OwnerLimits
from gateway.wire.http_client.upstream import Upstream

Note = Callable[..., None]


@dataclass(frozen=True, slots=True)
class GatewayCore:
    """What is there before any store is open."""

    config: Config
    exchanges: LiveExchanges
    models: Models
    clock: Clock
    zone: Zone
    timers: TimerQueue
    holds: Holds
    keys: Keys
    metrics: Metrics
    counters: Mapping[str, Upstream]
    """Who counts tokens, by the upstream's name."""
    started_at: float
    note: Note


class GatewayServices:
    """What keeps something, and what is made of it."""

    def __init__(self, base: GatewayCore, store: Documents, rows: Rows) -> None:
        config, clock, note = base.config, base.clock, base.note
        self.base = base
        self.store = store
        self.rows = rows
        self.states = SessionStates(store, note)
        self.answers = AnswerIds(store, note)
        tick_ms = config.clock.tick_ms
        rules = wiring.reminder_rules(config)
        self.reminders = ReminderService(store, clock, rules, note, tick_ms=tick_ms)
        self.deliveries = OutboxQueue(rows.deliveries, note)
        self.job_index = JobIndex()
        if not config.cron.enabled:
            # Without a scheduler nobody else loads it.
            self.job_index.load(())
        self.snapshots = Snapshots(
            rows.conversations, clock, self.job_index, self.deliveries.idle, note
        )
        self.sessions = self._sessions()
        self.feed = Feed(rows.deliveries, clock, note, config.limits.subscriptions_per_owner)
        self.webhooks = Webhooks(wiring.hooks_of(config), self.feed, clock, note)
        self.due_notifier = DueNotifier(
            self.feed, self.reminders, base.timers, clock, self.webhooks.owners
        )
        self.handover = Handover(self.reminders, base.timers)
        self.inbox = Inbox(
            self.deliveries,
            self.reminders,
            self.feed,
            base.timers,
            clock,
            config.limits.inbox_polls_per_owner,
        )
        self.tool_services = self._tool_services()
        offload = base.exchanges.services.offload
        self.conversations = Conversations(rows.conversations, clock.now_ms, offload)
        self.locks = Locks(rows.locks, base.holds, note)
        self.limits = OwnerLimits(wiring.owner_bounds(config), clock)
        self.preparer = self._preparer()
        self.jobs = self._jobs()
        self.offer = ScheduleTaskOffer(self.jobs, config.cron.offer_to_clients)
        self.agents = self._agents()
        self.scheduler = self._scheduler()

    def _sessions(self) -> Sessions:
        config = self.base.config
        where = config.stop_message.bd_dir or None
        tracker = TaskTracker(time.monotonic, os.environ.get("PATH"), where)
        reminders = self.reminders if config.clock.enabled else None
        settings = wiring.session_settings(config)
        offload = self.base.exchanges.services.offload
        return Sessions(self.states, settings, tracker, reminders, self.snapshots, offload)

    def _tool_services(self) -> ToolServices:
        base = self.base
        settings = wiring.time_settings(base.config)
        return ToolServices(
            base.clock,
            base.zone,
            self.reminders,
            base.holds,
            self.deliveries,
            settings,
            self._make_unnamed_reminders() if settings.hold_without_session else None,
            self.job_index,
        )

    def _make_unnamed_reminders(self) -> ReminderService:
        """Return where reminders live that are only held for: with their answers, in memory."""
        base, rules = self.base, wiring.hold_only_rules(self.base.config)
        store = Memory(base.clock.now_ms, lambda key, reason: None)
        unnamed = ReminderService(store, base.clock, rules, base.note)
        unnamed.counts = self.reminders.counts
        return unnamed

    def _agents(self) -> Agents:
        base, tools = self.base, self.offer.for_agent
        services = AgentServices(
            base.exchanges, self.preparer, self.conversations, base.note, tools
        )
        return Agents(wiring.agents_of(base.config), services)

    def _preparer(self) -> ExchangePreparer:
        base, services = self.base, self.base.exchanges.services
        return ExchangePreparer(
            base.models,
            self.sessions,
            self.tool_services,
            services.upstreams.keys(),
            services.translators.find_dialect,
            base.config.clock.enabled,
            self.snapshots if base.config.cron.enabled else None,
            wiring.find_client_key_upstreams(base.config),
            self.limits,
        )

    def _jobs(self) -> JobService:
        base = self.base
        rules = wiring.job_rules(base.config, base.zone.name)
        return JobService(
            self.rows.jobs,
            base.clock,
            rules,
            self.job_index,
            self.snapshots,
            base.note,
            dict.fromkeys(agent.id for agent in wiring.agents_of(base.config)),
            base.models,
        )

    def _scheduler(self) -> Scheduler | None:
        """Return who runs jobs, if they are to be run."""
        base, config = self.base, self.base.config
        if not config.cron.enabled:
            return None
        parts = SchedulerServices(
            self.rows.jobs,
            base.clock,
            self.jobs.rules,
            wiring.run_settings(config),
            self.job_index,
            self.deliveries,
            self.feed,
            base.note,
            SystemClock().now_ms,
        )
        relays = RelayRuns(
            base.exchanges,
            self.preparer,
            self.snapshots,
            self.offer.for_run,
            config.limits.json_depth,
        )
        scheduler = Scheduler(parts, AgentRuns(self.agents, self.locks), relays)
        self.jobs.scheduler = scheduler
        return scheduler

    # How they are.

    async def trouble(self) -> str:
        """Say what is wrong with the places where things are kept; nothing if all is well."""
        for place in (self.store, self.rows):
            try:
                await place.check()
            except StoreUnavailable as error:
                return error.message
        return ""

    def clock_status(self) -> ClockStatus:
        """Say how the clock is."""
        base = self.base
        return ClockStatus(
            enabled=base.config.clock.enabled,
            timezone=base.zone.name,
            now_ms=base.clock.now_ms(),
            ntp=show_ntp(base.clock.ntp),
            holds=len(base.holds),
        )
