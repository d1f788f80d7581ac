"""What jobs know about relay sessions, whose conversations are not stored in the gateway.

`JobIndex` knows in memory which of them have jobs, for requests that must not wait for the store.
`Snapshots` has the last request of each and its answer, so that a job can continue from there. They
are kept in memory, and for sessions that have jobs also in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.dialects import DIALECTS
from gateway.errors import Headers
from gateway.exchange.model import ModelRequest
from gateway.exchange.observer import NOBODY, Happening, HeldUntil, Observer, TurnEnded, Wants
from gateway.jobs.model import Job
from gateway.sessions.request_kind import requester_of
from gateway.stores.conversation_rows import ConversationRows, Snapshot
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.entries import FoundSession, SessionEntries
from gateway.stores.hints import JOBS, SessionHints
from gateway.stores.waiting import Unsubscribe, Watchers, join_both

Note = Callable[..., None]
JobListener = Callable[[str, str], None]

LARGEST = 2 * 1024 * 1024
ROOM = 32 * 1024 * 1024
MOST = 512
# The memory of a turn that is not read yet: bytes for each token, and tokens if usage is unknown.
BYTES_PER_TOKEN = 250
UNKNOWN_TOKENS = 100
# How long the last writes may take when the gateway shuts down.
SHUTDOWN_SECONDS = 5.0
AGAIN_AFTER = 5.0
# The operator's limit was checked before the snapshot was stored.
DEPTH = 1_000_000


class JobIndex:
    """Knows which relay sessions have jobs, and when the next run of each begins.

    Agents' jobs are not in it: their results are in the conversation and need not be delivered.
    Subscribers hear of changes of all jobs.
    """

    def __init__(self, hints: SessionHints | None = None) -> None:
        self._hints = hints or SessionHints()
        self._jobs: dict[SessionKey, dict[str, Job]] = {}
        self._session_keys: dict[str, SessionKey] = {}
        self._watchers = Watchers()
        self._listeners: tuple[JobListener, ...] = ()
        self.entries: SessionEntries | None = None
        """What requests found of their sessions' jobs, in a store that instances share.

        Then only jobs that this instance changed are here, as long as no other has changed them.
        """
        self._marks: dict[SessionKey, int] = {}
        self._changed: set[str] | None = set()
        """The jobs that changed before all were loaded; None since then."""

    @property
    def latest_change(self) -> int:
        """The number of the last change of any job, an agent's too."""
        return self._hints.latest(JOBS)

    @property
    def is_loaded(self) -> bool:
        """Whether it has all jobs there are."""
        return self._changed is None

    def __len__(self) -> int:
        return len(self._session_keys)

    def __repr__(self) -> str:
        return f"<JobIndex {len(self)} jobs of {len(self._jobs)} sessions>"

    def load(self, jobs: Iterable[Job]) -> None:
        """Add the jobs of the store, except those that changed since the store was read."""
        if self._changed is None:
            return
        changed, self._changed = self._changed, None
        for job in jobs:
            if job.job_id not in changed:
                self.put(job)

    def subscribe(self, listener: JobListener) -> Unsubscribe:
        """Call a function with the owner and id of each job that changes, begins or ends a run.

        It must not wait or raise. Return a function that ends this.
        """
        self._listeners = (*self._listeners, listener)

        def unsubscribe() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return unsubscribe

    def note_change(self, job: Job) -> None:
        """Add or replace a job that was changed or whose run began or ended."""
        self.put(job, elsewhere=True)
        self._announce(job)

    def note_removal(self, job: Job) -> None:
        """Remove a job that was deleted."""
        self._hints.tell(JOBS, (job.user_id, job.session_id))
        self.drop(job.job_id)
        self._announce(job)

    def watch_all(self, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback soon after any job changed, here or at another instance."""
        return self._hints.watch_all(JOBS, callback)

    def _announce(self, job: Job) -> None:
        for listener in self._listeners:
            listener(job.user_id, job.job_id)

    def put(self, job: Job, elsewhere: bool = False) -> None:
        """Add or replace a job; with `elsewhere`, other instances are told that it changed."""
        if self._changed is not None:
            self._changed.add(job.job_id)
        session_key = (job.user_id, job.session_id)
        self._hints.tell(JOBS, session_key, elsewhere)
        if self._session_keys.get(job.job_id, session_key) != session_key or job.agent_id:
            self.drop(job.job_id)
        if job.agent_id:
            return
        before = self._jobs.setdefault(session_key, {}).get(job.job_id)
        self._jobs[session_key][job.job_id] = job
        self._session_keys[job.job_id] = session_key
        if self.entries is not None:
            self._marks[session_key] = self._hints.mark()
        if before is None or _next(before) != _next(job):
            self._watchers.notify(session_key)

    def drop(self, job_id: str) -> None:
        """Remove a job."""
        if self._changed is not None:
            self._changed.add(job_id)
        session_key = self._session_keys.pop(job_id, None)
        if session_key is None:
            return
        del self._jobs[session_key][job_id]
        if not self._jobs[session_key]:
            del self._jobs[session_key]
            self._marks.pop(session_key, None)
        elif self.entries is not None:
            self._marks[session_key] = self._hints.mark()
        self._watchers.notify(session_key)

    def has_jobs(self, owner: str, session: str) -> bool:
        """Return whether a relay session has jobs, enabled or not."""
        if self.entries is None:
            # One process knows all there are. It saves three calls, twice in each request.
            return (owner, session) in self._jobs
        found = self._find_current(owner, session)
        return bool(self._find_jobs((owner, session))) if found is None else found.has_jobs

    def has_no_jobs(self, owner: str, session: str) -> bool:
        """Return whether a relay session certainly has no jobs."""
        if self.entries is not None:
            return self.entries.has_no_jobs((owner, session))
        return self._changed is None and (owner, session) not in self._jobs

    def _find_current(self, owner: str, session: str) -> FoundSession | None:
        entries = self.entries
        return None if entries is None else entries.find_current(JOBS, (owner, session))

    def _find_jobs(self, key: SessionKey) -> Iterable[Job]:
        """Return the jobs of a session that are known, unless another instance changed them."""
        if self.entries is not None and self._hints.has_changed(JOBS, key, self._marks.get(key, 0)):
            for job_id in self._jobs.pop(key, {}):
                del self._session_keys[job_id]
            self._marks.pop(key, None)
        return self._jobs.get(key, {}).values()

    def expecting(self, owner: str, session: str) -> int | None:
        """Return when a session's next run begins, a past time if one is running; None: never."""
        if self.entries is None and (owner, session) not in self._jobs:
            return None
        found = self._find_current(owner, session)
        if found is not None:
            return found.next_run_ms
        times = (_next(job) for job in self._find_jobs((owner, session)))
        return min((time for time in times if time is not None), default=None)

    def is_known(self, owner: str, session: str) -> bool:
        """Return whether it is known what runs a session has; if not, `refresh` finds out."""
        return self.entries is None or self._find_current(owner, session) is not None

    async def refresh(self, owner: str, session: str) -> None:
        """Look in the store that instances share when the next run begins, if that has changed."""
        if self.entries is not None and not self.is_known(owner, session):
            await self.entries.look((owner, session))
            self.entries.end()

    def watch(self, owner: str, session: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback when that changes."""
        here = self._watchers.watch((owner, session), callback)
        if self.entries is None:
            return here
        return join_both(here, self._hints.watch(JOBS, (owner, session), callback))


def _next(job: Job) -> int | None:
    return job.running_ms if job.run_id else job.next_run_ms


class Snapshots:
    """The last request of each relay session; if there are too many, the oldest are forgotten.

    Sessions in the job index also have it in the store. `has_no_results` says without I/O that no
    results wait for a session.
    """

    def __init__(
        self,
        rows: ConversationRows,
        clock: Clock,
        job_index: JobIndex,
        has_no_results: Callable[[str, str], bool],
        note: Note,
        room: int = ROOM,
    ) -> None:
        self.rows = rows
        self._clock = clock
        self._job_index = job_index
        self._has_no_results = has_no_results
        self._log = note
        self._room = room
        self.again_after = AGAIN_AFTER
        self._size = 0
        self._seen: OrderedDict[SessionKey, SnapshotObserver] = OrderedDict()
        self._unkept: dict[SessionKey, Snapshot] = {}
        self._news = anyio.Event()

    def __len__(self) -> int:
        return len(self._seen)

    def __repr__(self) -> str:
        return f"<Snapshots {len(self)} of {self._size} bytes>"

    def observer(
        self,
        owner: str,
        session: str,
        dialect: str,
        asked: ModelRequest,
        headers: Headers,
        is_side_call: Callable[[], bool] | None = None,
    ) -> Observer:
        """Return the observer that takes the snapshot of a request; a null observer if too large.

        The request is as the client sent it, before anything was added.
        """
        if len(asked.body) > LARGEST:
            return NOBODY
        return SnapshotObserver(self, (owner, session), dialect, asked, headers, is_side_call)

    def hear(self, seen: SnapshotObserver, text: Callable[[], str], size: int) -> None:
        """Remember a request of which one more turn ended, in place of an earlier request."""
        session_key, remembered = seen.session_key, self._seen
        before = remembered.pop(session_key, None)
        if before is not None:
            self._size -= before.size
            if before is not seen:
                before.let_go()
        seen.add(text, size)
        seen.at_ms = self._clock.now_ms()
        remembered[session_key] = seen
        self._size += seen.size
        if self._job_index.has_jobs(*session_key) and (snapshot := seen.snapshot()) is not None:
            self._unkept[session_key] = snapshot
            self._news.set()
        # If this one alone is too large, it is forgotten as well.
        while self._size > self._room or len(remembered) > MOST:
            self._forget(next(iter(remembered)))

    async def find(self, owner: str, session: str) -> Snapshot | None:
        """Return the snapshot of a session from memory or the store; None if there is none."""
        seen = self._seen.get((owner, session))
        known = seen.snapshot() if seen is not None else None
        return known if known is not None else await self.rows.snapshot(owner, session)

    def needs_none(self, owner: str, session: str) -> bool:
        """Return without I/O whether a session has no jobs and no results wait for it."""
        if not self._job_index.has_no_jobs(owner, session):
            return False
        return self._has_no_results(owner, session)

    async def find_setter(self, owner: str, session: str) -> str:
        """Return the digest of the system text of the snapshot if it offered tools; else empty."""
        seen = self._seen.get((owner, session))
        asked = seen.find_request() if seen is not None else None
        if asked is not None and seen is not None:
            return _setter(seen.dialect, asked)
        snapshot = await self.rows.snapshot(owner, session)
        if snapshot is None or snapshot.dialect not in DIALECTS:
            return ""
        return _setter(snapshot.dialect, DIALECTS[snapshot.dialect].read(snapshot.body, DEPTH))

    async def keep(self, owner: str, session: str) -> None:
        """Store the snapshot of a session that has a job now; if the store is down, later."""
        session_key = (owner, session)
        seen = self._seen.get(session_key)
        if seen is not None and (snapshot := seen.snapshot()) is not None:
            self._unkept[session_key] = snapshot
            if not await self._is_kept(session_key, snapshot):
                self._news.set()

    def forget(self, owner: str, session: str) -> None:
        """Forget a session in memory; its stored snapshot is deleted with its conversations."""
        self._forget((owner, session))
        self._unkept.pop((owner, session), None)

    async def run(self) -> NoReturn:
        """Store new snapshots forever, and the remaining ones on shutdown."""
        try:
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                if not await self._keep_news():
                    await anyio.sleep(self.again_after)
                    self._news.set()
        finally:
            with anyio.move_on_after(SHUTDOWN_SECONDS, shield=True):
                await self._keep_news()

    async def _keep_news(self) -> bool:
        """Store all snapshots that are not stored yet; return False if the store is down."""
        while self._unkept:
            if not await self._is_kept(*next(iter(self._unkept.items()))):
                return False
        return True

    async def _is_kept(self, session_key: SessionKey, snapshot: Snapshot) -> bool:
        try:
            await self.rows.keep_snapshot(*session_key, snapshot)
        except StoreUnavailable as error:
            self._log("snapshot_not_kept", session=session_key[1], why=error.message)
            return False
        # A newer one may have replaced it meanwhile.
        if self._unkept.get(session_key) is snapshot:
            del self._unkept[session_key]
        return True

    def _forget(self, session_key: SessionKey) -> None:
        before = self._seen.pop(session_key, None)
        if before is not None:
            self._size -= before.size
            before.let_go()


class SnapshotObserver:
    """Observes one request, and can read the text of its turns later.

    The text is rarely needed, and reading it costs more than relaying the turn did. So it is read
    only on demand, and until then the turns are kept as they came. An answer may be held for long,
    and there may be many: what is no longer remembered is released at once.
    """

    __slots__ = (
        "_asked",
        "_headers",
        "_is_side_call",
        "_said",
        "_snapshots",
        "_texts",
        "at_ms",
        "dialect",
        "session_key",
        "size",
    )

    def __init__(
        self,
        snapshots: Snapshots,
        session_key: SessionKey,
        dialect: str,
        asked: ModelRequest,
        headers: Headers,
        is_side_call: Callable[[], bool] | None,
    ) -> None:
        self._snapshots = snapshots
        self.dialect = dialect
        self._asked: ModelRequest | None = asked
        self._headers = headers
        self._is_side_call = is_side_call
        self._texts: list[Callable[[], str]] = []
        self._said: tuple[str, ...] = ()
        self.session_key = session_key
        self.at_ms = 0
        self.size = len(asked.body)

    wants: Wants = frozenset({TurnEnded, HeldUntil})

    def observe(self, at: float, happening: Happening) -> None:
        """Remember the request when a turn ended, unless it is a side call."""
        if type(happening) is HeldUntil:
            # The turns are not kept during a long wait, so their text is read now.
            self.read_texts()
        elif type(happening) is TurnEnded and self._asked is not None:
            if self._is_side_call is not None and self._is_side_call():
                return
            usage = happening.turn.usage
            size = (usage.output if usage is not None else UNKNOWN_TOKENS) * BYTES_PER_TOKEN
            self._snapshots.hear(self, happening.read_text, size)

    def read_texts(self) -> None:
        """Read the text of the turns until now."""
        self._said += tuple([said for text in self._texts if (said := text()).strip()])
        self._texts.clear()

    # Called by `Snapshots`.

    def find_request(self) -> ModelRequest | None:
        """Return the request; None if it was released."""
        return self._asked

    def add(self, text: Callable[[], str], size: int) -> None:
        """Add a function that reads the text of one more turn, and its size."""
        self._texts.append(text)
        self.size += size

    def let_go(self) -> None:
        """Release everything: the request is no longer remembered."""
        self._asked = self._is_side_call = None
        self._headers, self._said = (), ()
        self._texts.clear()

    def snapshot(self) -> Snapshot | None:
        """Return the snapshot; None if it is too large or was released."""
        self.read_texts()
        answer, asked = "\n\n".join(self._said), self._asked
        if asked is None or len(asked.body) + len(answer.encode()) > LARGEST:
            return None
        features = tuple((name.decode(), value.decode("latin-1")) for name, value in self._headers)
        return Snapshot(self.dialect, asked.model, asked.body, answer, self.at_ms, features)


def _setter(dialect: str, asked: ModelRequest) -> str:
    return requester_of(DIALECTS[dialect], asked).setter if asked.tools else ""
