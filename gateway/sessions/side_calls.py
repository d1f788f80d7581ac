"""Which requests are side calls of a coding agent: titles and summaries, asked for without tools.

What a session has sent is remembered in memory; what is stored for it says by which kind of
request it was set, so that a title request which comes first after a restart is known as well.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from gateway.reminders.service import ReminderService
from gateway.sessions.facts import digest_system
from gateway.sessions.model import SessionState
from gateway.sessions.session_request import SessionRequest
from gateway.stores.documents import DocumentKey, StoreUnavailable

REMEMBERED_SESSIONS = 10_000


class SnapshotSetters(Protocol):
    """Knows what kind of request the snapshot of a session was taken of."""

    def needs_none(self, owner: str, session: str) -> bool:
        """Tell at no cost that the session has no jobs, and no results wait for it."""

    async def find_setter(self, owner: str, session: str) -> str:
        """Return the digest of its system text if it offered tools; else nothing."""


class SideCalls:
    """Tells the side calls of a session from its conversation."""

    def __init__(
        self, reminders: ReminderService | None, snapshots: SnapshotSetters | None
    ) -> None:
        self._reminders = reminders
        self._snapshots = snapshots
        # By session, the digest of the system text of the last request that offered tools.
        self._last: OrderedDict[DocumentKey, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"<SideCalls of {len(self._last)} sessions>"

    def last_system(self, key: DocumentKey) -> str | None:
        """Return the system text's digest of the session's last request with tools, if known."""
        return self._last.get(key)

    def forget(self, key: DocumentKey) -> None:
        """Forget what a session has sent."""
        self._last.pop(key, None)

    def judge_at_once(self, request: SessionRequest) -> bool | None:
        """Tell whether a request of a session that has no document is a side call.

        None: what is stored beside the document has to be looked at.
        """
        known = self._judge_by_memory(request)
        if known is not None:
            return known
        owner, name = request.owner, request.name
        assert name is not None
        idle = self._reminders is None or self._reminders.surely_idle(owner, name)
        unasked = self._snapshots is None or self._snapshots.needs_none(owner, name)
        return False if idle and unasked else None

    async def judge(self, request: SessionRequest, state: SessionState) -> bool:
        """Tell whether a request is a side call, by all that is known of its session."""
        if request.key is None:
            return False
        known = self._judge_by_memory(request)
        if known is not None:
            return known
        setters = {state.setter, *await self._find_setters(request)} - {""}
        return bool(setters) and digest_system(request.dialect, request.asked) not in setters

    def _judge_by_memory(self, request: SessionRequest) -> bool | None:
        """Judge by the request itself and the session's last one with tools, if there was one."""
        asked, key, last = request.asked, request.key, self._last
        assert key is not None
        if asked.tools:
            last[key] = digest_system(request.dialect, asked)
            last.move_to_end(key)
            if len(last) > REMEMBERED_SESSIONS:
                last.popitem(last=False)
            return False
        if asked.structured:
            return True
        known = last.get(key)
        return None if known is None else known != digest_system(request.dialect, asked)

    async def _find_setters(self, request: SessionRequest) -> set[str]:
        """Return what is stored of the requests that set the session's reminders and jobs."""
        owner, name, found = request.owner, request.name, set[str]()
        assert name is not None
        try:
            if self._reminders is not None and not self._reminders.surely_idle(owner, name):
                tasks = await self._reminders.list_undelivered(owner, name)
                found.update(task.setter for task in tasks)
            if self._snapshots is not None and not self._snapshots.needs_none(owner, name):
                found.add(await self._snapshots.find_setter(owner, name))
        except StoreUnavailable:
            # Nothing can be taken from there either.
            pass
        return found
