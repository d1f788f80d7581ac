"""The last request of each relay session and what answered it: all a job has to go on from.

They are kept in memory, and in the store for the sessions that have jobs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NoReturn

import anyio

from gateway.clock.protocol import Clock
from gateway.dialects import DIALECTS
from gateway.errors import Headers
from gateway.exchange.model import Asked
from gateway.exchange.observer import NOBODY, Happening, HeldUntil, Observer, TurnEnded, Wants
from gateway.jobs.index import JobIndex
from gateway.sessions.facts import requester_of
from gateway.stores.documents import SessionKey, StoreUnavailable
from gateway.stores.rows import ConversationRows, Snapshot

Note = Callable[..., None]

LARGEST = 2 * 1024 * 1024
ROOM = 32 * 1024 * 1024
MOST = 512
# What a turn takes until it is read: about so many bytes for each token, of so many if not told.
AS_EVENTS = 250
UNTOLD = 100
# How long the last ones may take when the gateway leaves.
FAREWELL = 5.0
AGAIN_AFTER = 5.0
# It was read with the operator's limit before it was kept.
DEPTH = 1_000_000


class Snapshots:
    """Remembers what relay sessions asked last; the eldest are forgotten when there are too many.

    The store keeps those of sessions with jobs. `is_idle` tells for which no result waits.
    """

    def __init__(
        self,
        rows: ConversationRows,
        clock: Clock,
        job_index: JobIndex,
        note: Note,
        room: int = ROOM,
        is_idle: Callable[[str, str], bool] = lambda owner, session: True,
    ) -> None:
        self.rows = rows
        self._clock = clock
        self._job_index = job_index
        self._log = note
        self._room = room
        self._is_idle = is_idle
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
        asked: Asked,
        headers: Headers,
        is_side_call: Callable[[], bool] | None = None,
    ) -> Observer:
        """Return who is to hear how a request is answered; nobody if it is too large to keep.

        It is the request as the client sent it, before anything was added.
        """
        if len(asked.body) > LARGEST:
            return NOBODY
        return SnapshotObserver(self, (owner, session), dialect, asked, headers, is_side_call)

    def hear(self, seen: SnapshotObserver, text: Callable[[], str], size: int) -> None:
        """Remember a request one more turn of which ended, in place of an earlier one."""
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
        # The last of all may be this one, if it alone is too large.
        while self._size > self._room or len(remembered) > MOST:
            self._forget(next(iter(remembered)))

    async def find(self, owner: str, session: str) -> Snapshot | None:
        """Return what a session asked last, as far as that is known."""
        seen = self._seen.get((owner, session))
        known = seen.snapshot() if seen is not None else None
        return known if known is not None else await self.rows.snapshot(owner, session)

    def needs_none(self, owner: str, session: str) -> bool:
        """Tell at no cost that a session has no jobs, and no results wait for it."""
        index = self._job_index
        is_idle = index.is_loaded and self._is_idle(owner, session)
        return is_idle and not index.has_jobs(owner, session)

    async def find_setter(self, owner: str, session: str) -> str:
        """Return under which system text a session last offered tools: its digest, or nothing."""
        seen = self._seen.get((owner, session))
        asked = seen.find_request() if seen is not None else None
        if asked is not None and seen is not None:
            return _setter(seen.dialect, asked)
        snapshot = await self.rows.snapshot(owner, session)
        if snapshot is None or snapshot.dialect not in DIALECTS:
            return ""
        return _setter(snapshot.dialect, DIALECTS[snapshot.dialect].read(snapshot.body, DEPTH))

    async def keep(self, owner: str, session: str) -> None:
        """Keep what is known of a session that has a job now; if that cannot be yet, later."""
        session_key = (owner, session)
        seen = self._seen.get(session_key)
        if seen is not None and (snapshot := seen.snapshot()) is not None:
            self._unkept[session_key] = snapshot
            if not await self._is_kept(session_key, snapshot):
                self._news.set()

    def forget(self, owner: str, session: str) -> None:
        """Forget a session; what the store has of it goes with its conversations."""
        self._forget((owner, session))
        self._unkept.pop((owner, session), None)

    async def run(self) -> NoReturn:
        """Keep what is new, for ever, and at the end what is left."""
        try:
            while True:
                await self._news.wait()
                self._news = anyio.Event()
                if not await self._keep_news():
                    await anyio.sleep(self.again_after)
                    self._news.set()
        finally:
            with anyio.move_on_after(FAREWELL, shield=True):
                await self._keep_news()

    async def _keep_news(self) -> bool:
        """Keep all that is not kept yet; tell whether that went well."""
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
        # A newer one may have taken its place meanwhile.
        if self._unkept.get(session_key) is snapshot:
            del self._unkept[session_key]
        return True

    def _forget(self, session_key: SessionKey) -> None:
        before = self._seen.pop(session_key, None)
        if before is not None:
            self._size -= before.size
            before.let_go()


class SnapshotObserver:
    """Hears how one request is answered; knows how to have what its turns said.

    Nearly nobody asks for that, and reading it costs more than relaying it did: so it is read
    when it is asked for, and until then the turns are kept as they came. An answer may be held
    open for long, and there may be many: what is remembered no more is let go of at once.
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
        asked: Asked,
        headers: Headers,
        is_side_call: Callable[[], bool] | None,
    ) -> None:
        self._snapshots = snapshots
        self.dialect = dialect
        self._asked: Asked | None = asked
        self._headers = headers
        self._is_side_call = is_side_call
        self._texts: list[Callable[[], str]] = []
        self._said: tuple[str, ...] = ()
        self.session_key = session_key
        self.at_ms = 0
        self.size = len(asked.body)

    wants: Wants = frozenset({TurnEnded, HeldUntil})

    def observe(self, at: float, happening: Happening) -> None:
        """Hear that a turn ended, after the ones before it did; a side call's is not kept."""
        if isinstance(happening, HeldUntil):
            # The turns are not kept through a long wait, so their words are taken now.
            self.read_texts()
        elif isinstance(happening, TurnEnded) and self._asked is not None:
            if self._is_side_call is not None and self._is_side_call():
                return
            usage = happening.turn.usage
            size = (usage.output if usage is not None else UNTOLD) * AS_EVENTS
            self._snapshots.hear(self, happening.read_text, size)

    def read_texts(self) -> None:
        """Read the words of the turns so far."""
        self._said += tuple([said for text in self._texts if (said := text()).strip()])
        self._texts.clear()

    # What the snapshots do with it.

    def find_request(self) -> Asked | None:
        """Return the request; None if it is remembered no more."""
        return self._asked

    def add(self, text: Callable[[], str], size: int) -> None:
        """Take how to have what one more turn said."""
        self._texts.append(text)
        self.size += size

    def let_go(self) -> None:
        """Forget it all: it is remembered no more."""
        self._asked = self._is_side_call = None
        self._headers, self._said = (), ()
        self._texts.clear()

    def snapshot(self) -> Snapshot | None:
        """Return what is kept of it; None if that is too much."""
        self.read_texts()
        answer, asked = "\n\n".join(self._said), self._asked
        if asked is None or len(asked.body) + len(answer.encode()) > LARGEST:
            return None
        features = tuple((name.decode(), value.decode("latin-1")) for name, value in self._headers)
        return Snapshot(self.dialect, asked.model, asked.body, answer, self.at_ms, features)


def _setter(dialect: str, asked: Asked) -> str:
    return requester_of(DIALECTS[dialect], asked).setter if asked.tools else ""
