"""Hints: whether something of a session changed since a look at it, and who waits for that.

An exchange that found nothing for its session need not look again at the end of a turn, as long as
nothing of that session has changed. It takes a mark before it looks, and asks with the mark later.
Services tell each change after it is durable. If several instances share the store, the changes of
the others arrive by a bus, with a digest in place of the session: two sessions with one digest only
cost a look. If hints may have been missed, everything counts as changed.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import blake2b

from gateway.stores.bus import Bus, LocalBus
from gateway.stores.waiting import Unsubscribe, Watchers

SessionKey = tuple[str, str]
"""A session: (owner, session id)."""

# What a hint is about.
REMINDERS, STATE, ITEMS, EVENTS, JOBS = "c", "s", "i", "e", "j"
ARRIVED, LOCK_FREED, END_RESTING, BURIED = "a", "l", "r", "b"
# Not of a session, but of an owner and of a process: counts of limits, and what it is asked to do.
LIMITS, ERRANDS = "u", "x"
LETTERS = REMINDERS + STATE + ITEMS + EVENTS + JOBS + ARRIVED + LOCK_FREED + END_RESTING + BURIED
LETTERS += LIMITS + ERRANDS

DIGEST_BYTES = 9  # 12 characters
MOST_REMEMBERED = 10_000


def digest_session(key: SessionKey) -> str:
    """Return 12 characters that stand for a session in messages between instances."""
    named = "\0".join(key).encode(errors="surrogatepass")
    return urlsafe_b64encode(blake2b(named, digest_size=DIGEST_BYTES).digest()).decode()


class LetterChanges:
    """The changes of one letter: when each session changed last, by number."""

    __slots__ = ("_digests", "_floor", "_most", "_sessions", "latest", "latest_heard")

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: dict[SessionKey, int] = {}
        self._digests: dict[str, int] = {}
        self._floor = 0
        """When sessions changed of which nothing is remembered, at the latest."""
        self.latest = 0
        """The number of the last change."""
        self.latest_heard = 0
        """The number of the last change by another instance."""

    def note(self, key: SessionKey, number: int) -> None:
        """Note a change by this instance."""
        self._make_room()
        self._sessions[key] = self.latest = number

    def note_heard(self, digest: str, number: int) -> None:
        """Note a change by another instance."""
        self._make_room()
        self._digests[digest] = self.latest = self.latest_heard = number

    def forget(self, number: int) -> None:
        """Let all sessions count as changed at this number."""
        self._sessions.clear()
        self._digests.clear()
        self._floor = self.latest = number

    def has_changed(self, key: SessionKey, mark: int) -> bool:
        """Return whether a session has changed since a mark."""
        if self.latest <= mark:
            return False
        if self._sessions.get(key, self._floor) > mark:
            return True
        return self.latest_heard > mark and self._digests.get(digest_session(key), 0) > mark

    def _make_room(self) -> None:
        if len(self._sessions) + len(self._digests) >= self._most:
            self.forget(self.latest)


class SessionHints:
    """Knows which sessions changed lately, here or at other instances, and tells who waits."""

    def __init__(self, bus: Bus | None = None, most: int = MOST_REMEMBERED) -> None:
        self._bus = bus or LocalBus()
        self._count = 0
        self._changes = {letter: LetterChanges(most) for letter in LETTERS}
        # By letter and digest; and those that want to hear of all sessions, by letter.
        self._watchers = Watchers()
        self._hint_watchers = Watchers()
        self._bus.on_heard(self.hear)
        self._bus.on_lost(self.lose)

    def __repr__(self) -> str:
        return f"<SessionHints {self._count} changes, {len(self._watchers)} watched>"

    def mark(self) -> int:
        """Return what `has_changed` needs to know later; it is taken before a look."""
        return self._count

    def has_changed(self, letters: str, key: SessionKey, mark: int) -> bool:
        """Return whether a session may have changed, in one of these letters, since a mark."""
        # The usual case: nothing at all has changed. Who hears nothing cannot tell.
        if mark == self._count:
            return self._bus.is_deaf
        for letter in letters:
            if self._changes[letter].has_changed(key, mark):
                return True
        return self._bus.is_deaf

    def latest(self, letter: str) -> int:
        """Return the number of the last change of this letter in any session."""
        return self._changes[letter].latest

    def tell(self, letter: str, key: SessionKey, elsewhere: bool = True) -> None:
        """Note a change that this instance made; with `elsewhere`, tell the other instances too."""
        self._count += 1
        self._changes[letter].note(key, self._count)
        tells = elsewhere and self._bus.is_shared
        if tells or len(self._watchers) or len(self._hint_watchers):
            digest = digest_session(key)
            self._wake(letter, digest)
            if tells:
                self._bus.tell(letter, digest)

    def hear(self, letter: str, digest: str) -> None:
        """Note a change that another instance made."""
        # A newer build may know more letters.
        if letter in self._changes:
            self._count += 1
            self._changes[letter].note_heard(digest, self._count)
            self._wake(letter, digest)

    def lose(self) -> None:
        """Let everything count as changed: hints of other instances may have been missed."""
        self._count += 1
        for changes in self._changes.values():
            changes.forget(self._count)
        self._watchers.notify_all()

    def watch(self, letter: str, key: SessionKey, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback soon after each change of this letter, here or elsewhere.

        It is also called when hints were lost.
        """
        return self._watchers.watch(letter + digest_session(key), callback)

    def watch_hints(
        self, letter: str, key: SessionKey, callback: Callable[[], None]
    ) -> Unsubscribe:
        """The same, but not called when hints were lost: who watches so looks in another way."""
        return self._hint_watchers.watch(letter + digest_session(key), callback)

    def watch_all(self, letter: str, callback: Callable[[], None]) -> Unsubscribe:
        """Call the callback soon after each change of this letter in any session."""
        return self._watchers.watch(letter, callback)

    def _wake(self, letter: str, digest: str) -> None:
        if len(self._hint_watchers):
            self._hint_watchers.notify(letter + digest)
        if len(self._watchers):
            self._watchers.notify(letter + digest)
            self._watchers.notify(letter)
