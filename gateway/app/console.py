"""Puts the console's board and feed together, with all topics that can be followed."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from zlib import crc32

from gateway.api.admission import INSTANCE, Keys
from gateway.api.console_feed import FeedServices
from gateway.app.services import GatewayServices
from gateway.console.feed import ConsoleFeed, Viewer
from gateway.console.health import HealthReader
from gateway.console.kept_topics import JobTopics, SessionTopics
from gateway.console.live_board import LiveBoard
from gateway.console.overview import Overview, OverviewSources
from gateway.console.session_list import SessionLister
from gateway.console.session_pages import SessionQuery
from gateway.console.topics import ALL, ExchangeTopic, LiveTopic, PolledTopic
from gateway.jobs.service import DisabledScheduler
from gateway.jobs.view import SchedulerStatus
from gateway.outbox.wakeup import SubscriberLimit

SUMMARY_SECONDS = 0.5
MOST_SESSIONS = 500
STREAMS = "streams of the console"


def make_feed_services(parts: GatewayServices, topics: ConsoleTopics) -> FeedServices:
    """Make what streams of the console are answered with."""
    base = parts.base
    now = base.exchanges.services.now
    feed = ConsoleFeed(secrets.token_hex(4), now)
    board = LiveBoard(base.exchanges.live, base.totals, now, base.clock.now_ms)
    base.exchanges.trails = board.ended
    sources = topics.make_overview_sources(board)
    feed.add_topic(
        "summary",
        lambda viewer, about: PolledTopic(Overview(sources, viewer).read, SUMMARY_SECONDS),
    )
    feed.add_topic("live", lambda viewer, about: LiveTopic(board, viewer.scope, now))
    feed.add_topic(
        "exchange:", lambda viewer, about: ExchangeTopic(board, viewer.scope, about, now)
    )
    JobTopics(parts.rows.jobs, parts.job_index).add_to(feed)
    SessionTopics(topics.read_sessions, topics.read_session_stamp).add_to(feed)
    feed.add_topic("health", lambda viewer, about: PolledTopic(partial(topics.read_health, viewer)))
    return FeedServices(
        board=board,
        feed=feed,
        subscribers=SubscriberLimit(base.config.limits.subscriptions_per_owner, STREAMS),
        now=now,
        now_ms=base.clock.now_ms,
        instance=INSTANCE,
        is_draining=lambda: base.exchanges.draining,
        find_owner=Keys({}).owner,
    )


class ConsoleTopics:
    """Reads what topics show of the gateway's services."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts
        self._lister: SessionLister | None = None
        self._health: HealthReader | None = None

    def make_overview_sources(self, board: LiveBoard) -> OverviewSources:
        """Return who knows what the summary shows."""
        parts, base = self._parts, self._parts.base
        return OverviewSources(
            board=board,
            exchanges=base.exchanges,
            jobs=parts.rows.jobs,
            reminders=parts.reminders,
            scheduler=self._find_scheduler,
            trouble=parts.trouble,
            ntp=lambda: parts.clock_status().ntp,
            now_ms=base.clock.now_ms,
        )

    def _find_scheduler(self) -> SchedulerStatus:
        scheduler = self._parts.scheduler
        return DisabledScheduler().status() if scheduler is None else scheduler.status()

    def use(self, lister: SessionLister, health: HealthReader) -> None:
        """Read sessions and health so from now on: the configuration was read."""
        self._lister, self._health = lister, health

    async def read_sessions(self, viewer: Viewer) -> Mapping[str, object]:
        """Return the newest sessions that the viewer sees, by owner and name."""
        assert self._lister is not None
        page = await self._lister.list_sessions(SessionQuery(viewer.scope, MOST_SESSIONS))
        return {f"{one.owner}\n{one.session_id}": one for one in page.sessions}

    async def read_session_stamp(self, owner: str, session: str) -> object:
        """Return a number that differs when something of a session has changed."""
        parts, key = self._parts, (owner, session)
        conversations = await parts.rows.conversations.of_session(owner, session)
        # One may come and go between two looks.
        ended = [one.summed.info for one in parts.console.board.list_ended(owner)]
        facts = (
            await parts.states.show(owner, session),
            await parts.reminders.list_undelivered(owner, session),
            await parts.rows.jobs.listing(owner, session, None),
            await parts.deliveries.pending(owner, session),
            [(one.agent, one.version) for one in conversations],
            [one.info.exchange_id for one in parts.base.exchanges.live if one.session_key == key],
            [info.exchange_id for info in ended if info.session == session],
        )
        return crc32(repr(facts).encode())

    async def read_health(self, viewer: Viewer) -> Mapping[str, object]:
        """Return how the gateway is, to admins only."""
        assert self._health is not None
        return {ALL: await self._health.read()} if viewer.admin else {}
