"""Deletes a session: what goes on in it is ended first, so that nothing of it comes back."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from gateway.agents.conversations import Conversations
from gateway.agents.locks import Lease, Locks
from gateway.errors import SessionDeleted, Unavailable
from gateway.exchange.runner import LiveExchanges
from gateway.jobs.service import JobService
from gateway.outbox.queue import OutboxQueue
from gateway.reminders.holds import Holds
from gateway.reminders.reminder_documents import KIND as CLOCK
from gateway.reminders.service import ReminderService
from gateway.sessions.call_signatures import KIND as SIGNATURES
from gateway.sessions.identity import sub_agent_prefix
from gateway.sessions.request_session import SessionStates
from gateway.sessions.session_request import KIND as STATE
from gateway.stores.documents import Listed

REASON = "chat"
DELETED = "The session was deleted."
# How long an answer that was only held open may take to end as if nothing had happened.
HOLD_SECONDS = 0.3
# How long all that goes on may take to end.
PATIENCE = 10.0
LOOK_SECONDS = 0.02
PAGE = 500


@dataclass(frozen=True, slots=True)
class SessionRemoval:
    """Ends the runs and chats of a session, and deletes all that is kept of it."""

    states: SessionStates
    reminders: ReminderService
    conversations: Conversations
    jobs: JobService
    deliveries: OutboxQueue
    exchanges: LiveExchanges
    locks: Locks
    holds: Holds

    def is_answering(self, owner: str, session: str) -> bool:
        """Whether something goes on in a session, of which nothing may be kept yet."""
        return self.exchanges.is_answering(owner, session)

    async def find_sub_agents(self, owner: str, session: str) -> list[str]:
        """Return the sessions of a session's sub-agents: those kept, and those that ask now."""
        prefix, store = sub_agent_prefix(session), self.states.store
        found = {*self.deliveries.waiting_sessions(owner), *self.exchanges.live_sessions(owner)}
        found.update(job.session_id for job in await self.jobs.listing(owner))
        for kind in (STATE, CLOCK, SIGNATURES):
            after: Listed | None = None
            while page := await store.listing(kind, owner, after, PAGE):
                found.update(one.session for one in page)
                after = page[-1]
        return sorted(one for one in found if one.startswith(prefix))

    async def remove(self, owner: str, session: str) -> None:
        """Delete a session with its conversation, reminders, jobs and what waits for it."""
        # Jobs first: one that became due in between would begin to run.
        await self.jobs.forget(owner, session)
        lease = await self._take(owner, session)
        try:
            # An answer that was cut off may have made jobs until then.
            await self.jobs.forget(owner, session)
            if not await self.reminders.idle(owner, session):
                await self.reminders.clear(owner, session)
            await self.conversations.rows.forget(owner, session)
            await self.deliveries.forget(owner, session)
            await self.states.forget(owner, session)
        finally:
            await lease.release("deleted")

    async def _take(self, owner: str, session: str) -> Lease:
        """End all exchanges of a session, and let none of an agent begin."""
        await self._end_hold(owner, session)
        with anyio.move_on_after(PATIENCE):
            while True:
                self.exchanges.cut_session(owner, session, SessionDeleted(DELETED))
                await self.exchanges.idle_session(owner, session)
                lease = await self.locks.take(owner, session, REASON, grace=0)
                if isinstance(lease, Lease):
                    # Whoever comes now waits for the end, which is near.
                    lease.closing.set()
                    return lease
                await anyio.sleep(LOOK_SECONDS)
        raise Unavailable("A request of the session is still running; try again.", retry_after=1)

    async def _end_hold(self, owner: str, session: str) -> None:
        before = len(self.holds)
        self.holds.end(owner, session)
        if len(self.holds) < before:
            with anyio.move_on_after(HOLD_SECONDS):
                await self.exchanges.idle_session(owner, session)
