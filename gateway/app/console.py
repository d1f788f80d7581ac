"""Puts the console's board and feed together, with all topics that can be followed."""

from __future__ import annotations

import resource
import secrets
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from zlib import crc32

from gateway.api.admission import PROCESS, Keys
from gateway.api.console_feed import FeedServices
from gateway.api.session_pages import SessionPages
from gateway.app.services import GatewayServices
from gateway.console.feed import ConsoleFeed, Viewer
from gateway.console.kept_topics import JobTopics, SessionTopics
from gateway.console.live_board import LiveBoard
from gateway.console.overview import Overview, OverviewSources, list_upstreams
from gateway.console.topics import ALL, ExchangeTopic, LiveTopic, PolledTopic
from gateway.jobs.service import DisabledScheduler
from gateway.jobs.view import SchedulerStatus
from gateway.outbox.wakeup import SubscriberLimit
from gateway.timestamps import iso
from gateway.version import __version__

SUMMARY_SECONDS = 0.5
MOST_SESSIONS = 500
STREAMS = "streams of the console"


def make_feed_services(parts: GatewayServices) -> FeedServices:
    """Make what streams of the console are answered with."""
    base = parts.base
    now = base.exchanges.services.now
    feed = ConsoleFeed(secrets.token_hex(4), now)
    board = LiveBoard(base.exchanges.live, base.totals, now, base.clock.now_ms)
    base.exchanges.trails = board
    topics = ConsoleTopics(parts)
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
        instance=PROCESS,
        is_draining=lambda: base.exchanges.draining,
        find_owner=Keys({}).owner,
    )


class ConsoleTopics:
    """Reads what topics show of the gateway's services."""

    def __init__(self, parts: GatewayServices) -> None:
        self._parts = parts

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

    async def read_sessions(self, viewer: Viewer) -> Mapping[str, object]:
        """Return the viewer's sessions, by owner and name."""
        parts = self._parts
        pages = SessionPages(parts.states.store, parts.conversations.rows, viewer.name)
        found = await pages.page(None, MOST_SESSIONS)
        return {
            f"{viewer.name}\n{one.session}": {
                "sessionId": one.session,
                "owner": viewer.name,
                "agentId": one.agent or None,
                "updatedAt": iso(one.updated_ms),
            }
            for one in found
        }

    async def read_session_stamp(self, owner: str, session: str) -> object:
        """Return a number that differs when something of a session has changed."""
        parts, key = self._parts, (owner, session)
        conversations = await parts.rows.conversations.of_session(owner, session)
        facts = (
            await parts.states.show(owner, session),
            await parts.reminders.list_undelivered(owner, session),
            await parts.rows.jobs.listing(owner, session, None),
            await parts.deliveries.pending(owner, session),
            [(one.agent, one.version) for one in conversations],
            [one.info.exchange_id for one in parts.base.exchanges.live if one.session_key == key],
        )
        return crc32(repr(facts).encode())

    async def read_health(self, viewer: Viewer) -> Mapping[str, object]:
        """Return how the gateway is; what the process uses is told to admins only."""
        parts, base = self._parts, self._parts.base
        begun = time.monotonic()
        trouble = await parts.trouble()
        took = round((time.monotonic() - begun) * 1000)
        kind = base.config.store.url.partition(":")[0]
        health = {
            "upstreams": list_upstreams(base.exchanges, base.clock.now_ms()),
            "store": {"kind": kind, "ok": not trouble, "ms": took},
            "ntp": parts.clock_status().ntp,
            "scheduler": self._find_scheduler(),
            "webhooks": len(parts.webhooks.owners),
            "loop_lag_ms": None,
            "rss": _read_rss() if viewer.admin else None,
            "descriptors": _count_descriptors() if viewer.admin else None,
            "started_at": round(base.started_at * 1000),
            "version": __version__,
        }
        return {ALL: health}


def _read_rss() -> int | None:
    """Return the memory of the process, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return None
    return pages * resource.getpagesize()


def _count_descriptors() -> int | None:
    try:
        return len(tuple(Path("/proc/self/fd").iterdir()))
    except OSError:
        return None
