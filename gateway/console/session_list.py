"""The list of sessions: whatever is kept of one or goes on in it, as counts and without texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.console.session_pages import SessionPages, SessionPlace, SessionQuery
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.service import JobService
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.reminder_documents import KIND as CLOCK
from gateway.reminders.service import ReminderService
from gateway.sessions.request_session import SessionStates
from gateway.sessions.session_request import KIND as STATE
from gateway.stores.conversation_rows import ConversationRows
from gateway.stores.documents import DocumentKey, SessionKey, StoreUnavailable
from gateway.timestamps import LAST_SECOND, Timestamp, iso

# A file may say anything; what lies beyond the calendar is shown as its end.
CALENDAR_END = "9999-12-31T23:59:59.999Z"


class StopMessageCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often a session's stop message was sent, and how often it may be."""

    used: int
    max: int


class SessionSummary(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """A session in the list: counts, and nothing that was said in it."""

    session_id: str
    owner: str
    agent_id: str | None
    updated_at: Timestamp
    state: Annotated[str | None, Meta(description="Of its newest live exchange.")]
    live: Annotated[int, Meta(description="How many exchanges are under way.")]
    reminders: Annotated[int, Meta(description="How many are to be delivered.")]
    next_due_at: Annotated[Timestamp | None, Meta(description="Of these, the first.")]
    jobs: int
    deliveries: Annotated[int, Meta(description="How many results wait.")]
    stop_message: StopMessageCount | None


@dataclass(slots=True)
class SessionActivity:
    """What a session has beside state, reminders and conversations."""

    updated_ms: int = 0
    jobs: int = 0
    deliveries: int = 0
    live: int = 0
    begun: float = 0.0
    state: str | None = None


@dataclass(frozen=True, slots=True)
class SessionPage:
    """A page of sessions, and where the next one begins."""

    sessions: list[SessionSummary]
    last: SessionPlace | None
    """None: there is no next one."""


@dataclass(frozen=True, slots=True)
class SessionLister:
    """Lists the sessions of an owner or of all."""

    states: SessionStates
    reminders: ReminderService
    conversations: ConversationRows
    jobs: JobService
    deliveries: OutboxQueue
    exchanges: LiveExchanges
    to_utc_ms: Callable[[float], int]
    """Turns the time at which an exchange began into UTC milliseconds, always into the same."""

    async def list_sessions(self, query: SessionQuery) -> SessionPage:
        """Return the page of sessions that is asked for, the one used last first."""
        activity = await self._find_activity(query.owner)
        others = {key: one.updated_ms for key, one in activity.items()}
        pages = SessionPages(self.states.store, self.conversations, others)
        places = await pages.find_page(query)
        shown = await self._show_places(places, activity)
        return SessionPage(shown, places[-1] if len(places) == query.limit else None)

    async def _find_activity(self, owner: str | None) -> dict[SessionKey, SessionActivity]:
        """Return what sessions have beside what the stores list, by session."""
        found: defaultdict[SessionKey, SessionActivity] = defaultdict(SessionActivity)
        for job in await self.jobs.listing(owner):
            one = found[job.user_id, job.session_id]
            one.jobs += 1
            one.updated_ms = max(one.updated_ms, job.updated_ms)
        for waiting in await self.deliveries.rows.count_waiting(owner):
            one = found[waiting.owner, waiting.session]
            one.deliveries = waiting.items
            one.updated_ms = max(one.updated_ms, waiting.newest_ms)
        for runner in self.exchanges.live:
            of, session = runner.session_key
            if session is None or owner not in (None, of):
                continue
            one = found[of, session]
            one.live += 1
            if one.live == 1 or runner.begun > one.begun:
                one.begun, one.state = runner.begun, runner.exchange.state
            one.updated_ms = max(one.updated_ms, self.to_utc_ms(runner.begun))
        return found

    async def _show_places(
        self, places: list[SessionPlace], activity: dict[SessionKey, SessionActivity]
    ) -> list[SessionSummary]:
        by_owner: defaultdict[str, list[str]] = defaultdict(list)
        for place in places:
            by_owner[place.owner].append(place.session)
        agents: dict[SessionKey, str] = {}
        states: set[SessionKey] = set()
        clocks: set[SessionKey] = set()
        store = self.states.store
        for owner, names in by_owner.items():
            # The newest first, so that of several agents the first counts.
            for _, session, agent in await self.conversations.find_updated(owner, names):
                agents.setdefault((owner, session), agent)
            states.update((owner, n) for n in await store.find_updated(STATE, owner, names))
            clocks.update((owner, n) for n in await store.find_updated(CLOCK, owner, names))
        shown: list[SessionSummary] = []
        for place in places:
            key = place.key
            stop = await self._count_stop_message(key) if key in states else None
            due = await self._list_due_times(key) if key in clocks else []
            one = activity.get(key, SessionActivity())
            shown.append(_show_session(place, agents.get(key), one, stop, due))
        return shown

    async def _count_stop_message(self, key: SessionKey) -> StopMessageCount | None:
        stop = (await self.states.read(DocumentKey(STATE, *key))).stop
        return None if stop is None else StopMessageCount(stop.used, stop.max_repeats)

    async def _list_due_times(self, key: SessionKey) -> list[int]:
        try:
            return [one.due_ms for one in await self.reminders.list_undelivered(*key)]
        except StoreUnavailable:
            # One document that cannot be read does not hide all others.
            return []


def _show_session(
    place: SessionPlace,
    agent: str | None,
    activity: SessionActivity,
    stop: StopMessageCount | None,
    due: list[int],
) -> SessionSummary:
    return SessionSummary(
        session_id=place.session,
        owner=place.owner,
        agent_id=agent,
        updated_at=show_time(place.updated_ms),
        state=activity.state,
        live=activity.live,
        reminders=len(due),
        next_due_at=show_time(min(due)) if due else None,
        jobs=activity.jobs,
        deliveries=activity.deliveries,
        stop_message=stop,
    )


def show_time(ms: int) -> str:
    """Write a time that was read from a file."""
    return iso(ms) if ms < LAST_SECOND * 1000 else CALENDAR_END
