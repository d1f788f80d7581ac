"""Looks of requests at their sessions: how long what they found counts."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.stores.entries import FoundSession, SessionEntries
from gateway.stores.hints import REMINDERS, SessionHints, SessionKey, digest_session

KEY = ("ann", "s")


class EmptyStore:
    """A store in which no session has anything."""

    async def find(self, keys: Sequence[SessionKey]) -> list[FoundSession] | None:
        return [FoundSession() for _ in keys]

    def note_tools(self, key: SessionKey, tools: str) -> None:
        raise AssertionError


async def test_a_change_after_the_look_is_not_taken_for_seen() -> None:
    """The request goes by its look, and later asks what changed since that, not since it asked."""
    hints = SessionHints()
    entries = SessionEntries(EmptyStore(), hints)
    assert await entries.look(KEY)
    assert entries.has_no_document("clock", KEY)
    assert not hints.has_changed(REMINDERS, KEY, entries.find_mark(KEY))

    hints.hear(REMINDERS, digest_session(KEY))

    assert entries.has_no_document("clock", KEY)
    assert hints.has_changed(REMINDERS, KEY, entries.find_mark(KEY))
    entries.end()
    assert not entries.has_no_document("clock", KEY)


def test_without_a_look_only_what_comes_counts() -> None:
    hints = SessionHints()
    entries = SessionEntries(EmptyStore(), hints)
    hints.tell(REMINDERS, KEY)
    assert not hints.has_changed(REMINDERS, KEY, entries.find_mark(KEY))
