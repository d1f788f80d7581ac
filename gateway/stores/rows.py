"""What a store of rows does: jobs and runs, conversations and locks, deliveries and events.

Each call is one transaction, durable when it returns. Meaning is in pure functions that are given
to `change`-like calls and run inside the transaction, in a thread of the store's; they may be run
again, and must not wait. What they raise undoes the call, and is raised to whoever made it.
Leases are by the host's time, which is not corrected and does not jump with the gateway's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar

import msgspec

from gateway.jobs.model import Job, Run
from gateway.stores.documents import SessionKey

R = TypeVar("R")


class Claimed(msgspec.Struct, frozen=True):
    """What becomes of a job that is due: how it is kept, and the run rows that are new.

    The row whose status is `running`, if there is one, is to be executed by whoever claimed it.
    """

    job: Job
    runs: tuple[Run, ...]
    items: tuple[OutboxItem, ...] = ()
    """What the session is told of it."""


class AgentConversation(msgspec.Struct, frozen=True):
    """The messages of an agent's session, as a JSON array, and the version that they are."""

    owner: str
    agent: str
    session: str
    messages: bytes = b"[]"
    version: int = 0
    updated_ms: int = 0


class Snapshot(msgspec.Struct, frozen=True):
    """A relay session's last request, and the text that answered it."""

    dialect: str
    model: str
    body: bytes
    answer: str
    updated_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    """What went up beside the body, such as the betas that it speaks of; never a credential."""


class OutboxItem(msgspec.Struct, frozen=True):
    """Something for a session that is not asking right now: what a run came to."""

    id: str
    owner: str
    session: str
    at_ms: int
    text: str
    """What the model is to read."""
    job_id: str = ""
    run_id: str = ""
    name: str = ""
    status: Literal["ok", "failed", "missed"] = "ok"
    """Whether it is a result, or tells of a job that failed for good or whose times were missed."""
    missed: int = 0
    """How many times were missed."""
    seq: int = 0
    """Its place in the session's queue, given by the store; higher is later."""


class SessionEvent(msgspec.Struct, frozen=True):
    """Something that happened in a session; `key` is unique for each kind in a session."""

    owner: str
    session: str
    kind: str
    key: str
    at_ms: int
    data: bytes
    """A JSON object."""
    seq: int = 0


Notice = Callable[[Job, Job | None, Run], OutboxItem | None]
"""What a session is told of a run: by its job before, after (None: deleted), and the run."""


def no_notice(before: Job, after: Job | None, run: Run) -> None:
    """Tell the session nothing."""


class JobRows(Protocol):
    """Jobs and their runs."""

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Keep a new job; if its owner has one with its `dedupe_key`, keep `again(that one)`.

        Returns the job as kept, and whether it was there already. Raises `Conflict` when the
        `job_id` is taken, `TooMany` when its owner has `most` jobs already.
        """

    async def get(self, job_id: str, owner: str | None = None) -> Job | None:
        """Return a job; with an owner, only if it is theirs."""

    async def listing(
        self, owner: str | None, session: str | None = None, agent: str | None = None
    ) -> list[Job]:
        """Return jobs, the oldest first: an owner's or everybody's, of a session or an agent."""

    async def change(
        self, job_id: str, owner: str | None, change: Callable[[Job], tuple[Job | None, R]]
    ) -> R | None:
        """Replace a job by what a function makes of it, or delete it with its runs for None.

        Returns the function's answer, and None if there is no such job. Raises `Conflict` when
        the new `dedupe_key` is another job's.
        """

    async def next_run_ms(self) -> int | None:
        """Return when the earliest job is to be looked at; jobs that run do not count."""

    async def claim(
        self, now_ms: int, holder: str, until_ms: int, claim: Callable[[Job], Claimed | None]
    ) -> Claimed | None:
        """Claim the earliest job whose `next_run_ms` has come and that is not running.

        What the function makes of it is kept in one transaction, the running row with a lease of
        the holder until then. None if there is none, or the function says so for all.
        A (job, due time) that has a row already is not given another one: the function is then
        called again with `due_ms` behind it, never giving a second row.
        """

    async def claim_now(
        self,
        job_id: str,
        owner: str | None,
        holder: str,
        until_ms: int,
        claim: Callable[[Job], Claimed],
    ) -> Claimed | None:
        """Claim one job, due or not; None if there is no such job, or it is running."""

    async def extend(self, run_id: str, holder: str, until_ms: int) -> bool:
        """Lengthen the lease of a run; False when it is no longer the holder's."""

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        item: OutboxItem | None,
        keep_runs: int,
        notice: Notice = no_notice,
    ) -> Job | None:
        """Record how a run ended, what that makes of its job, and what is delivered.

        All in one transaction, and only while the run's row still says `running`; returns the job
        as kept, None if it is gone (or the run was taken for interrupted meanwhile). A job that
        was removed gets no rows and delivers nothing. Rows beyond `keep_runs` are removed, the
        oldest first, never one that is running or owed.
        """

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and keep what that makes of its job, if it is there."""

    async def end_lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        notice: Notice = no_notice,
    ) -> list[Run]:
        """Record as the function says each running run whose lease ended before a time.

        One of which it says nothing is left as it is.
        Embedded stores call it once at start with the end of all time: the former process is gone.
        """

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""

    async def list_owed(self) -> list[tuple[Job, Run]]:
        """Return runs that ended well and whose result is not yet in the session it came from.

        The oldest first; also of jobs that were deleted by the end of that run.
        """

    async def settle_owed(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Take it that a run's result is in the session it came from; False: it was not owed.

        With an item, that is put into the session's queue instead, in the same transaction.
        """

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; say how many."""


class ConversationRows(Protocol):
    """Conversations of agents, and the request a relay session was last seen with."""

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        """Return a conversation."""

    async def of_session(self, owner: str, session: str) -> list[AgentConversation]:
        """Return the conversations of a session, with whatever agent, the newest first."""

    async def put(self, conversation: AgentConversation) -> int:
        """Replace the conversation of the version given (0: new); return the new version.

        No version is given twice. A conversation that is not dated is dated by the store. Raises
        `Conflict` if another one is there.
        """

    async def listing(
        self, owner: str, before: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent), newest first, after a (updated_ms, session)."""

    async def forget(self, owner: str, session: str) -> int:
        """Delete a session's conversations and its snapshot; say how many conversations."""

    async def snapshot(self, owner: str, session: str) -> Snapshot | None:
        """Return what is kept of a relay session."""

    async def keep_snapshot(self, owner: str, session: str, snapshot: Snapshot) -> None:
        """Replace what is kept of a relay session."""


class LockRows(Protocol):
    """Locks: one holder a session, by token, for as long as the lease is renewed."""

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; None when taken, else the reason of the one who has it."""

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; False when the lock is no longer this token's."""

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Free the lock if it is this token's."""


class DeliveryRows(Protocol):
    """What waits for sessions that are not asking, and what happened in them."""

    async def add(self, item: OutboxItem) -> OutboxItem:
        """Put an item at the end of its session's queue; the same id twice is one item."""

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        """Return what is not delivered, in order, reserved or not."""

    async def waiting(self) -> list[SessionKey]:
        """Return (owner, session) of all that have something undelivered."""

    async def deliver(self, owner: str, session: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Mark items delivered; return the ids of those that were not yet."""

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and that somebody wants to hear of it."""

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append to the log of a session; None if that very event is in it already.

        Of a log that is too long the oldest events go.
        """

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events of higher numbers, in order."""

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        """Return an owner's events of higher numbers, of all sessions, in order."""

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the newest event of all sessions, 0 if there is none."""

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; say how many."""

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Remember that somebody wants to hear of this session."""

    async def interests(self) -> list[SessionKey]:
        """Return the sessions somebody wants, or wanted lately, to hear of."""

    async def position(self, name: str) -> int:
        """Return how far a reader of events has come, 0 if it was never said."""

    async def move(self, name: str, seq: int) -> None:
        """Remember how far a reader of events has come; it never goes back."""


class Rows(Protocol):
    """A store of rows."""

    jobs: JobRows
    conversations: ConversationRows
    locks: LockRows
    deliveries: DeliveryRows

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the place where rows are kept cannot be reached."""

    async def aclose(self) -> None:
        """Finish what was begun, and let go of everything."""
