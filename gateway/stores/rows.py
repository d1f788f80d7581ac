"""The protocols of a store of rows: jobs, runs, conversations, locks, deliveries, events, usage.

Each call is one transaction, durable when it returns. Calls like `change` get a pure function that
runs inside the transaction, in a thread of the store; it may be run again, and must not wait. If it
raises, the transaction is undone, and the caller gets the error. Leases use the host's time, which
is not corrected and does not jump with the gateway's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeVar

import msgspec

from gateway.jobs.model import Job, Run, Status
from gateway.stores.documents import SessionKey
from gateway.usage.model import UsageBatch, UsageQuery, UsageTable

R = TypeVar("R")


class Claimed(msgspec.Struct, frozen=True):
    """The claim of a due job: the changed job, and the new run rows.

    If there is a row whose status is `running`, the claimer executes it.
    """

    job: Job
    runs: tuple[Run, ...]
    items: tuple[OutboxItem, ...] = ()
    """Items for the session's queue."""


class AgentConversation(msgspec.Struct, frozen=True):
    """The messages of an agent's session, as a JSON array, and their version."""

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
    """Headers that belong to the body, such as its betas; never a credential."""


class OutboxItem(msgspec.Struct, frozen=True):
    """An item that waits for a session: the result of a run, or a notice about a job."""

    id: str
    owner: str
    session: str
    at_ms: int
    text: str
    """The text for the model."""
    job_id: str = ""
    run_id: str = ""
    name: str = ""
    status: Literal["ok", "failed", "missed"] = "ok"
    """`ok` for a result; `failed` or `missed` for a notice about a job."""
    missed: int = 0
    """How many runs were missed."""
    seq: int = 0
    """Its place in the session's queue, given by the store; higher is later."""

    @property
    def deliveries(self) -> int:
        """How often it was delivered: an item that was is not read again."""
        return 0


class WaitingItems(NamedTuple):
    """How many items wait for a session, and when the newest was added."""

    owner: str
    session: str
    items: int
    newest_ms: int


class DeliveredItem(NamedTuple):
    """An item that was delivered, and when."""

    item: OutboxItem
    delivered_ms: int


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
"""Makes the notice of a run from its job before, the job after (None: deleted), and the run."""


def no_notice(before: Job, after: Job | None, run: Run) -> None:
    """Return None: there is no notice."""


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are asked for, the newest first; None: any."""

    owner: str | None = None
    job_id: str | None = None
    before: int | None = None
    """Only those with a lower number."""
    limit: int


class JobRows(Protocol):
    """Jobs and their runs."""

    async def add(self, job: Job, again: Callable[[Job], Job], most: int) -> tuple[Job, bool]:
        """Add a job; if its owner has one with its `dedupe_key`, change that one by `again`.

        Return the stored job, and whether it existed. Raise `Conflict` if the `job_id` exists,
        `TooMany` if its owner already has `most` jobs.
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
        """Change a job by a function; if that returns None, delete the job with its runs.

        Return the function's answer; None if there is no such job. Raise `Conflict` if another
        job has the new `dedupe_key`.
        """

    async def next_run_ms(self) -> int | None:
        """Return the earliest `next_run_ms` of all jobs that are not running."""

    async def claim(
        self, now_ms: int, holder: str, until_ms: int, claim: Callable[[Job], Claimed | None]
    ) -> Claimed | None:
        """Claim the earliest job whose `next_run_ms` has come and that is not running.

        What the function returns is stored in one transaction, the running row with a lease of the
        holder until `until_ms`. Return None if no job is due, or the function returns None for all.
        A (job, due time) with a row does not get another one: the function is then called again
        with a later `due_ms`.
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
        """Extend the lease of a run; return False if the holder has lost it."""

    async def finish(
        self,
        run: Run,
        change: Callable[[Job], Job | None],
        item: OutboxItem | None,
        keep_runs: int,
        notice: Notice = no_notice,
    ) -> Job | None:
        """Record the end of a run, the change of its job, and the items to deliver.

        All in one transaction, and only while the run's row is still `running`. Return the stored
        job; None if it was deleted (or the run was ended as interrupted meanwhile). A removed job
        gets no rows and delivers nothing. Rows beyond `keep_runs` are deleted, the oldest first,
        never one that is running or owed.
        """

    async def give_back(self, run_id: str, change: Callable[[Job, Run], Job]) -> Job | None:
        """Delete the row of a running run, and change its job; None if the row does not exist."""

    async def end_lapsed(
        self,
        before_ms: int,
        change: Callable[[Job, Run], tuple[Job, Run] | None],
        notice: Notice = no_notice,
    ) -> list[Run]:
        """End each running run whose lease ended before a time, as the function says.

        If it returns None, the run is left as it is. A process that has the store for itself calls
        this at its start with `LATEST`, since the former process is gone.
        """

    async def runs(self, job_id: str, limit: int) -> list[Run]:
        """Return the runs of a job, the newest first."""

    async def list_runs(self, query: RunQuery) -> list[tuple[int, Run]]:
        """Return runs with their numbers, the newest first; a later run has a higher number."""

    async def get_run(self, run_id: str, owner: str | None = None) -> Run | None:
        """Return a run; with an owner, only if it is theirs."""

    async def last_statuses(
        self, job_ids: Sequence[str], limit: int
    ) -> dict[str, tuple[Status, ...]]:
        """Return the statuses of the newest runs of each job, the oldest of them first."""

    async def list_owed(self) -> list[tuple[Job, Run]]:
        """Return successful runs whose result was not returned to the job's session yet.

        The oldest first; also runs of jobs that were deleted after that run.
        """

    async def settle_owed(self, run_id: str, item: OutboxItem | None = None) -> bool:
        """Mark a run's result as returned to its session; return False if it was not owed.

        An item is added to the session's queue in the same transaction.
        """

    async def forget(self, owner: str, session: str) -> int:
        """Delete the jobs of a session, with their runs; return how many."""


class ConversationRows(Protocol):
    """Conversations of agents, and snapshots of relay sessions."""

    async def get(self, owner: str, agent: str, session: str) -> AgentConversation | None:
        """Return a conversation."""

    async def of_session(self, owner: str, session: str) -> list[AgentConversation]:
        """Return the conversations of a session, with whatever agent, the newest first."""

    async def put(self, conversation: AgentConversation) -> int:
        """Replace the conversation of the given version (0: new); return the new version.

        No version is used twice. Without `updated_ms` the store sets the time. Raise `Conflict` if
        the conversation has another version.
        """

    async def listing(
        self, owner: str, before: tuple[int, str] | None, limit: int
    ) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent), newest first, after a (updated_ms, session)."""

    async def find_updated(self, owner: str, sessions: Sequence[str]) -> list[tuple[int, str, str]]:
        """Return (updated_ms, session, agent) of these sessions, newest first."""

    async def list_owners(self) -> list[str]:
        """Return the owners of all conversations."""

    async def forget(self, owner: str, session: str) -> int:
        """Delete a session's conversations and its snapshot; return how many conversations."""

    async def snapshot(self, owner: str, session: str) -> Snapshot | None:
        """Return the snapshot of a relay session."""

    async def keep_snapshot(self, owner: str, session: str, snapshot: Snapshot) -> None:
        """Replace the snapshot of a relay session."""


class LockRows(Protocol):
    """Locks: one holder for each session, by token, as long as the lease is renewed."""

    async def take(
        self, owner: str, session: str, token: str, reason: str, ttl_ms: int
    ) -> str | None:
        """Take the lock; return None if that worked, else the reason of the holder."""

    async def extend(self, owner: str, session: str, token: str, ttl_ms: int) -> bool:
        """Renew the lease; return False if this token no longer holds the lock."""

    async def release(self, owner: str, session: str, token: str) -> bool:
        """Release the lock if this token holds it; return whether it did."""


class DeliveryRows(Protocol):
    """Items that wait for sessions, and events of sessions."""

    async def add(self, item: OutboxItem) -> OutboxItem:
        """Append an item to its session's queue; the same id twice is one item."""

    async def pending(self, owner: str, session: str) -> list[OutboxItem]:
        """Return undelivered items, in order, reserved or not."""

    async def waiting(self) -> list[SessionKey]:
        """Return the sessions that have undelivered items."""

    async def count_waiting(self, owner: str | None) -> list[WaitingItems]:
        """Count undelivered items by session: an owner's, or everybody's."""

    async def list_delivered(self, owner: str, session: str, limit: int) -> list[DeliveredItem]:
        """Return items that were delivered and are not pruned yet, the last delivered first."""

    async def deliver(self, owner: str, session: str, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Mark items as delivered; return the ids of those that were not yet."""

    async def forget(self, owner: str, session: str) -> None:
        """Delete a session's items, its events, and the interest in it."""

    async def note(self, event: SessionEvent) -> SessionEvent | None:
        """Append an event to the log of a session; return None if it is already there.

        If the log is too long, its oldest events are deleted.
        """

    async def events(self, owner: str, session: str, after: int, limit: int) -> list[SessionEvent]:
        """Return a session's events after a number, in order."""

    async def events_since(self, owner: str, after: int, limit: int) -> list[SessionEvent]:
        """Return the events of all sessions of an owner after a number, in order."""

    async def last_event(self, owner: str, session: str) -> int:
        """Return the number of the newest event of all sessions, 0 if there is none."""

    async def prune(self, before_ms: int) -> int:
        """Delete events, delivered items and interests that are older; return how many."""

    async def note_interest(self, owner: str, session: str, at_ms: int) -> None:
        """Store that somebody listens to this session."""

    async def interests(self) -> list[SessionKey]:
        """Return the sessions that somebody listens to, or did lately."""

    async def position(self, name: str) -> int:
        """Return the stored position of a reader of events; 0 if there is none."""

    async def move(self, name: str, seq: int) -> None:
        """Store the position of a reader of events; it never goes back."""


class UsageRows(Protocol):
    """What owners used, by hour, model and upstream."""

    async def add(self, batch: UsageBatch) -> bool:
        """Add the counts of a batch to the stored ones; return False if that was done before."""

    async def last_batch(self, writer: str) -> int:
        """Return the number of the last batch of a writer; 0 if there is none."""

    async def sum_up(self, query: UsageQuery) -> UsageTable:
        """Return the stored counts that are asked for, added up by groups."""

    async def prune(self, before_ms: int) -> int:
        """Delete rows of hours that began before a time, and writers silent since then.

        Return how many rows.
        """


class Rows(Protocol):
    """A store of rows."""

    jobs: JobRows
    conversations: ConversationRows
    locks: LockRows
    deliveries: DeliveryRows
    usage: UsageRows

    async def check(self) -> None:
        """Raise `StoreUnavailable` if the store does not work."""

    async def aclose(self) -> None:
        """Finish pending writes, and release all resources."""
