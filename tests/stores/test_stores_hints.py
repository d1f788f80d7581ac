"""Hints: what changed since a mark, here and at other instances, and who is woken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.stores.bus import Heard, LocalBus, Lost
from gateway.stores.hints import LETTERS, REMINDERS, STATE, SessionHints, digest_session

KEY, OTHER = ("ann", "s1"), ("ann", "s2")


class SharedBus:
    """A bus that keeps what it is told, and on which a test speaks for other instances."""

    is_shared = True
    is_deaf = False
    hear: Heard
    lose: Lost

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def tell(self, letter: str, digest: str) -> None:
        self.told.append((letter, digest))

    def on_heard(self, callback: Heard) -> None:
        self.hear = callback

    def on_lost(self, callback: Lost) -> None:
        self.lose = callback


async def count_calls(
    hints: SessionHints, letter: str, change: Callable[[], None], key: tuple[str, str] = KEY
) -> int:
    """Return how often somebody who watches a session is called by a change."""
    calls: list[None] = []
    stop = hints.watch(letter, key, lambda: calls.append(None))
    change()
    await asyncio.sleep(0)
    stop()
    return len(calls)


def test_only_the_session_that_changed_counts_as_changed() -> None:
    hints = SessionHints()
    mark = hints.mark()
    assert not hints.has_changed(LETTERS, KEY, mark)

    hints.tell(REMINDERS, KEY)

    assert hints.has_changed(REMINDERS, KEY, mark)
    assert hints.has_changed(LETTERS, KEY, mark)
    assert not hints.has_changed(STATE, KEY, mark)
    assert not hints.has_changed(LETTERS, OTHER, mark)
    assert not hints.has_changed(LETTERS, KEY, hints.mark())


def test_a_change_elsewhere_counts_like_one_here() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    mark = hints.mark()

    bus.hear(REMINDERS, digest_session(KEY))

    assert hints.has_changed(REMINDERS, KEY, mark)
    assert not hints.has_changed(REMINDERS, OTHER, mark)
    assert not hints.has_changed(REMINDERS, KEY, hints.mark())
    assert bus.told == []


def test_letters_of_a_newer_build_are_ignored() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    mark = hints.mark()
    bus.hear("Z", digest_session(KEY))
    assert not hints.has_changed(LETTERS, KEY, mark)


def test_only_what_somebody_elsewhere_may_wait_for_is_told() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    hints.tell(REMINDERS, KEY)
    hints.tell(REMINDERS, OTHER, elsewhere=False)
    assert bus.told == [(REMINDERS, digest_session(KEY))]


def test_two_sessions_with_one_digest_cost_a_look() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    mark = hints.mark()
    # Another session whose digest is the same tells a change.
    bus.hear(REMINDERS, digest_session(OTHER))
    assert hints.has_changed(REMINDERS, OTHER, mark)


def test_when_hints_were_lost_everything_counts_as_changed() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    mark = hints.mark()

    bus.lose()

    assert hints.has_changed(REMINDERS, KEY, mark)
    assert hints.has_changed(STATE, OTHER, mark)
    assert not hints.has_changed(LETTERS, KEY, hints.mark())


def test_more_sessions_than_are_remembered_count_as_changed() -> None:
    hints = SessionHints(most=3)
    old = hints.mark()
    for number in range(4):
        hints.tell(REMINDERS, ("ann", f"s{number}"))
    # What was forgotten can not be told from what never changed.
    assert hints.has_changed(REMINDERS, ("ann", "s0"), old)
    assert hints.has_changed(REMINDERS, ("ann", "other"), old)
    # A look after that is not disturbed.
    mark = hints.mark()
    hints.tell(REMINDERS, ("ann", "s4"))
    assert not hints.has_changed(REMINDERS, ("ann", "s0"), mark)


def test_the_latest_change_of_a_letter_is_known() -> None:
    hints = SessionHints()
    before = hints.latest(REMINDERS)
    hints.tell(STATE, KEY)
    assert hints.latest(REMINDERS) == before
    hints.tell(REMINDERS, KEY)
    assert hints.latest(REMINDERS) > before


async def test_changes_here_and_elsewhere_wake_who_waits() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    digest = digest_session(KEY)

    assert await count_calls(hints, REMINDERS, lambda: hints.tell(REMINDERS, KEY)) == 1
    assert await count_calls(hints, REMINDERS, lambda: bus.hear(REMINDERS, digest)) == 1
    assert await count_calls(hints, REMINDERS, bus.lose) == 1
    assert await count_calls(hints, STATE, lambda: bus.hear(REMINDERS, digest)) == 0
    assert await count_calls(hints, REMINDERS, lambda: bus.hear(REMINDERS, digest), OTHER) == 0


async def test_who_waits_for_all_sessions_is_woken_by_each() -> None:
    hints, calls = SessionHints(), list[None]()
    stop = hints.watch_all(REMINDERS, lambda: calls.append(None))
    hints.tell(REMINDERS, KEY)
    hints.tell(REMINDERS, OTHER)
    hints.tell(STATE, OTHER)
    await asyncio.sleep(0)
    assert len(calls) == 2
    stop()
    hints.tell(REMINDERS, KEY)
    await asyncio.sleep(0)
    assert len(calls) == 2


def test_a_local_bus_tells_nobody() -> None:
    bus = LocalBus()
    bus.tell(REMINDERS, digest_session(KEY))
    assert not bus.is_shared


def test_digests_have_the_length_of_the_message_format() -> None:
    assert len(digest_session(KEY)) == 12
    assert digest_session(("a", "bc")) != digest_session(("ab", "c"))
    assert digest_session(("ann", "\ud800"))


def test_who_hears_nothing_takes_everything_for_changed() -> None:
    bus = SharedBus()
    hints = SessionHints(bus)
    mark = hints.mark()
    bus.is_deaf = True
    assert hints.has_changed(REMINDERS, KEY, mark)
    hints.tell(STATE, OTHER)
    assert hints.has_changed(REMINDERS, KEY, hints.mark())
    bus.is_deaf = False
    assert not hints.has_changed(REMINDERS, KEY, mark)
