"""All that keeps something: put together once the stores are open."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from anyio.to_thread import run_sync
from msgspec import UnsetType

from gateway.agents.conversations import Conversations
from gateway.agents.locks import Locks
from gateway.agents.shared_locks import SharedLocks
from gateway.api.admission import INSTANCE
from gateway.api.console_feed import FeedServices
from gateway.api.operations import ClockStatus, InstanceStatus
from gateway.app import wiring
from gateway.app.instance_services import InstanceServices
from gateway.clock.protocol import Clock
from gateway.clock.shared import SharedClock
from gateway.clock.system import SystemClock
from gateway.clock.timer_queue import TimerQueue
from gateway.clock.zone import Zone
from gateway.config import Config
from gateway.console.errands import Errands
from gateway.console.health import StoreProbe
from gateway.console.metrics_history import MetricsHistory
from gateway.console.secret_file import SECRET_BYTES, SecretFileError, load_secret
from gateway.console.sign_in import LoginFailures, TokenSigner
from gateway.exchange.answer_ids import AnswerIds
from gateway.exchange.exchange_totals import ExchangeTotals
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.agent_runs import AgentRuns
from gateway.jobs.relay_runs import RelayRuns
from gateway.jobs.relay_sessions import JobIndex, Snapshots
from gateway.jobs.run_services import SchedulerServices
from gateway.jobs.scheduler import Scheduler
from gateway.metrics import Metrics
from gateway.outbox.feed import Feed
from gateway.outbox.inbox import Inbox
from gateway.outbox.queue import OutboxQueue
from gateway.outbox.shared_webhooks import SharedWebhooks
from gateway.outbox.webhooks import Webhooks
from gateway.reminders.handover import Handover
from gateway.reminders.holds import Holds
from gateway.reminders.notifier import DueNotifier
from gateway.reminders.server_tools import ToolServices
from gateway.reminders.service import ReminderService
from gateway.reminders.shared_notifier import SharedDueNotifier
from gateway.reminders.view import show_ntp
from gateway.sessions.request_session import SessionStates
from gateway.sessions.service import Sessions
from gateway.sessions.task_tracker import TaskTracker
from gateway.stores import Documents
from gateway.stores.documents import StoreUnavailable
from gateway.stores.memory import Memory
from gateway.stores.rows import Rows
from gateway.usage.limits import OwnerLimits
from gateway.usage.meter import UsageMeter
from gateway.usage.shared_limits import SharedLimits

Note = Callable[..., None]

SIGN_IN = "sign-in"
"""The name of the secret that signs tokens, in a shared store."""


@dataclass(frozen=True, slots=True)
class GatewayCore:
    """What is there before any store is open."""

    config: Config
    """As it was at the start."""
    exchanges: LiveExchanges
    clock: Clock
    zone: Zone
    timers: TimerQueue
    holds: Holds
    totals: ExchangeTotals
    metrics: Metrics
    history: MetricsHistory
    started_at: float
    note: Note
    show_instance: Callable[[], InstanceStatus | UnsetType]
    """Says who this process is, where several share a store."""


class GatewayServices:
    """What keeps something; it stays as long as the gateway runs."""

    console: FeedServices
    """Set once all else is there: it shows all of it."""

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
        self.deliveries.entries = store.entries
        self.job_index = JobIndex(store.hints)
        self.job_index.entries = store.entries
        if not config.cron.enabled:
            # Without a scheduler nobody else loads it.
            self.job_index.load(())
        self.snapshots = Snapshots(
            rows.conversations, clock, self.job_index, self.deliveries.idle, note
        )
        self.sessions = self._sessions()
        self.feed = self._make_feed()
        self.webhooks = self._make_webhooks()
        self.due_notifier = self._make_due_notifier()
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
        self.conversations = Conversations(rows.conversations, clock.now_ms, offload, rows.talks)
        self.locks = self._make_locks()
        self.usage = self._make_meter()
        self.limits = OwnerLimits(wiring.owner_bounds(config), clock, note)
        self.instances = self._make_instance_services()
        self.login_failures = LoginFailures()
        self.token_signer: TokenSigner | None = None
        """Who signs the tokens of sign-ins; made once there are keys to sign in with."""
        kind = config.store.url.partition(":")[0] or "files"
        self.store_probe = StoreProbe(kind, self.trouble, time.monotonic)
        self.scheduler: Scheduler | None = None
        """Who runs jobs, if they are to be run."""

    def _make_feed(self) -> Feed:
        base, hints = self.base, None if self.store.instance.is_alone else self.store.hints
        most = base.config.limits.subscriptions_per_owner
        return Feed(self.rows.deliveries, base.clock, base.note, most, hints)

    def _make_due_notifier(self) -> DueNotifier | SharedDueNotifier:
        base, feed, reminders = self.base, self.feed, self.reminders
        owners, rows = self.webhooks.owners, self.store.announcements
        if rows is None:
            return DueNotifier(feed, reminders, base.timers, base.clock, owners)
        return SharedDueNotifier(feed, reminders, rows, base.clock, owners)

    def _make_locks(self) -> Locks:
        base, rows, shared = self.base, self.rows, self.rows.shared_locks
        asks = None if shared is None else SharedLocks(shared, self.store.hints)
        return Locks(rows.locks, base.holds, base.note, asks)

    def _make_webhooks(self) -> Webhooks | SharedWebhooks:
        base, rows, hooks = self.base, self.rows, wiring.hooks_of(self.base.config)
        if rows.event_log is not None:
            return Webhooks(hooks, rows.event_log, self.feed, base.clock, base.note)
        assert rows.posts is not None
        return SharedWebhooks(hooks, rows.posts, self.feed, base.clock, base.note)

    def _make_meter(self) -> UsageMeter:
        base, rows = self.base, self.rows.usage
        prices, writer = wiring.prices_of(base.config), secrets.token_hex(8)
        meter = UsageMeter(rows, base.totals, base.clock, prices, base.note, writer)
        meter.chores = self.store.chores
        return meter

    def _make_instance_services(self) -> InstanceServices | None:
        base, rows, store = self.base, self.rows.operators, self.store
        if rows is None:
            return None
        counts, read, note = rows.limit_counts, self.usage.read, base.note
        return InstanceServices(
            rows,
            SharedLimits(self.limits, read, counts, store, base.clock, note),
            Errands(rows, store, INSTANCE, lambda: self.console.board, note),
            note,
        )

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
        shown = base.clock.host if isinstance(base.clock, SharedClock) else base.clock
        settings = wiring.time_settings(base.config)
        return ToolServices(
            shown,
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

    def use_executors(self, agents: AgentRuns, relays: RelayRuns) -> None:
        """Have new runs of jobs executed by these, if jobs are to be run."""
        if self.scheduler is not None:
            self.scheduler.replace_executors(agents, relays)
        elif self.base.config.cron.enabled:
            self.scheduler = Scheduler(
                self._scheduler_services(), agents, relays, self.store.instance.is_alone
            )

    def _scheduler_services(self) -> SchedulerServices:
        base = self.base
        return SchedulerServices(
            self.rows.jobs,
            base.clock,
            wiring.job_rules(base.config, base.zone.name),
            wiring.run_settings(base.config),
            self.job_index,
            self.deliveries,
            self.feed,
            base.note,
            SystemClock().now_ms,
            self.store.instance,
        )

    def set_limits(self, config: Config) -> None:
        """Go by these limits from now on, also for what is kept already."""
        limits, holds = config.limits, self.base.holds
        holds.most, holds.most_of_one = wiring.hold_limits(config)
        self.feed.subscribers.most = limits.subscriptions_per_owner
        self.inbox.subscribers.most = limits.inbox_polls_per_owner
        self.console.subscribers.most = limits.subscriptions_per_owner
        self.reminders.rules = wiring.reminder_rules(config)
        if self.tool_services.unnamed is not None:
            self.tool_services.unnamed.rules = wiring.hold_only_rules(config)
        self.sessions.services.settings = wiring.session_settings(config)

    async def load_token_signer(self) -> None:
        """Make who signs tokens, with the secret that was kept over a restart.

        Where several instances share a store, it is the same for all; without it nobody could stay
        signed in, so it has to be there: raise `StoreUnavailable` if it cannot be read.
        """
        path, draw = wiring.find_secret_file(self.base.config), secrets.token_bytes
        if (operators := self.rows.operators) is not None:
            kept = await operators.secrets.keep(SIGN_IN, draw(SECRET_BYTES))
            self.token_signer = TokenSigner(kept)
            return
        try:
            secret = None if path is None else await run_sync(load_secret, path, draw)
        except (OSError, SecretFileError) as error:
            # Models answer all the same; only whoever signs in has to do it again after a restart.
            self.base.note("sign_in_secret_not_kept", file=str(path), why=str(error))
            secret = None
        self.token_signer = TokenSigner(secret or draw(SECRET_BYTES))

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
