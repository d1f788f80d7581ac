"""The feed of the console: rows by topic, each with a version.

A reader keeps only the version up to which it has read. To join, to resume and to be slow is the
same: it gets the rows that changed since, as they are now, and the keys of those that were
dropped. There is no queue. A topic is looked at only while somebody reads it, by the reader that
comes first.

What was dropped leaves a tombstone. Their number is limited, so a reader that was away for too
long, or comes from another process, begins anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from zlib import crc32

import anyio
import msgspec

from gateway.errors import BadRequest

MOST_TOMBSTONES = 4096
MOST_TOPICS = 16
LONGEST_TOPIC = 300
# A topic that nobody has read for so long is forgotten.
KEPT_SECONDS = 120.0


class VersionCounter:
    """Counts changes of all topics."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class TopicChanges(msgspec.Struct, omit_defaults=True):
    """What changed in a topic: rows as they are now, and the keys of those that are gone."""

    put: dict[str, msgspec.Raw] = {}
    drop: list[str] = []
    reset: bool = False
    """Whether these are all rows that there are."""


class TopicRows:
    """The rows of one topic, each with the version of its last change."""

    def __init__(self, counter: VersionCounter, most_tombstones: int = MOST_TOMBSTONES) -> None:
        self._counter = counter
        self._most = most_tombstones
        # Both in the order of their versions.
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._dropped: dict[str, int] = {}
        self.floor = counter.value
        """Whoever has read less than that may have missed something that was dropped."""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all rows."""
        return tuple(self._rows)

    def put(self, key: str, row: bytes) -> None:
        """Set a row; one that is as before does not count as changed."""
        known = self._rows.get(key)
        if known is not None:
            if known[1] == row:
                return
            del self._rows[key]
        self._dropped.pop(key, None)
        self._counter.value += 1
        self._rows[key] = (self._counter.value, row)

    def drop(self, key: str) -> None:
        """Remove a row, if it is there."""
        if self._rows.pop(key, None) is None:
            return
        self._counter.value += 1
        self._dropped[key] = self._counter.value
        if len(self._dropped) > self._most:
            oldest = next(iter(self._dropped))
            self.floor = max(self.floor, self._dropped.pop(oldest))

    def replace_all(self, rows: Mapping[str, bytes]) -> None:
        """Set all rows; others are removed."""
        for key in self.keys:
            if key not in rows:
                self.drop(key)
        for key, row in rows.items():
            self.put(key, row)

    def read_all(self) -> TopicChanges:
        """Return all rows."""
        put = {key: msgspec.Raw(row) for key, (_, row) in self._rows.items()}
        return TopicChanges(put, reset=True)

    def read_since(self, version: int) -> TopicChanges | None:
        """Return what changed after a version; None if nothing did."""
        put: dict[str, msgspec.Raw] = {}
        for key, (changed, row) in reversed(self._rows.items()):
            if changed <= version:
                break
            put[key] = msgspec.Raw(row)
        drop = []
        for key, changed in reversed(self._dropped.items()):
            if changed <= version:
                break
            drop.append(key)
        return TopicChanges(put, drop) if put or drop else None


class TopicSource(Protocol):
    """Knows the rows of one topic, as one viewer may see them."""

    @property
    def interval(self) -> float:
        """How many seconds lie between two looks, at least."""

    async def update(self, rows: TopicRows) -> None:
        """Put rows that changed and drop those that are gone."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at the console."""

    name: str
    admin: bool = False

    @property
    def scope(self) -> str | None:
        """Whose exchanges, jobs and sessions they see; None: those of all."""
        return None if self.admin else self.name


SourceFactory = Callable[[Viewer, str], TopicSource]
"""Makes the source of a topic for a viewer; the text is what follows the colon in its name."""


@dataclass(slots=True)
class WatchedTopic:
    """A topic that is read, or was lately."""

    source: TopicSource
    rows: TopicRows
    read_at: float = float("-inf")
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def refresh(self, now: Callable[[], float]) -> None:
        """Look at the source again, unless somebody did a moment ago."""
        if now() - self.read_at < self.source.interval:
            return
        async with self.lock:
            if now() - self.read_at >= self.source.interval:
                await self.source.update(self.rows)
                self.read_at = now()


class ConsoleFeed:
    """All topics that are read; readers share what was found."""

    def __init__(self, epoch: str, now: Callable[[], float]) -> None:
        self.epoch = epoch
        """Which process it is."""
        self._now = now
        self._counter = VersionCounter()
        self._factories: dict[str, SourceFactory] = {}
        self._topics: dict[tuple[str, Viewer], WatchedTopic] = {}

    def __repr__(self) -> str:
        return f"<ConsoleFeed {len(self._topics)} topics, version {self.version}>"

    @property
    def version(self) -> int:
        """How many changes there were."""
        return self._counter.value

    def add_topic(self, name: str, make: SourceFactory) -> None:
        """Let a topic be read; one whose name ends with a colon is about something named."""
        self._factories[name] = make

    def open(self, viewer: Viewer, names: tuple[str, ...], after: str = "") -> FeedReader:
        """Begin to read topics; `after` is the id of the last event that was received."""
        if not names or len(names) > MOST_TOPICS:
            raise BadRequest(f"topics must name 1 to {MOST_TOPICS} topics.", param="topics")
        for name in names:
            self._find_factory(name)
        # Who asks for other topics than before has not read them: that is another epoch.
        mark = crc32("\0".join((viewer.name, *sorted(names))).encode())
        return FeedReader(self, viewer, names, f"{self.epoch}{mark:08x}", after)

    def _find_factory(self, name: str) -> tuple[SourceFactory, str]:
        kind, colon, about = name.partition(":")
        found = self._factories.get(kind + colon)
        if found is None or (colon and not about) or len(name) > LONGEST_TOPIC:
            known = ", ".join(one + ("…" if one.endswith(":") else "") for one in self._factories)
            raise BadRequest(
                f"There is no topic '{name[:100]}'; there are {known}.", param="topics"
            )
        return found, about

    def find_topic(self, viewer: Viewer, name: str) -> WatchedTopic:
        """Return a topic as a viewer sees it."""
        found = self._topics.get((name, viewer))
        if found is None:
            self._forget_old()
            make, about = self._find_factory(name)
            found = WatchedTopic(make(viewer, about), TopicRows(self._counter))
            self._topics[name, viewer] = found
        return found

    async def refresh(self, topics: list[WatchedTopic]) -> None:
        """Look at topics again."""
        for topic in topics:
            await topic.refresh(self._now)

    def _forget_old(self) -> None:
        since = self._now() - KEPT_SECONDS
        for key, topic in tuple(self._topics.items()):
            if topic.read_at < since and not topic.lock.locked():
                del self._topics[key]


class FeedReader:
    """One who reads topics: all that is kept is how far."""

    def __init__(
        self,
        feed: ConsoleFeed,
        viewer: Viewer,
        names: tuple[str, ...],
        epoch: str,
        after: str = "",
    ) -> None:
        self._feed = feed
        self._viewer = viewer
        self._names = names
        self.epoch = epoch
        self.version: int | None = _read_place(after, epoch)
        """Up to where it has read; None: nothing yet."""
        self._was_here = bool(after)

    async def read(self) -> dict[str, TopicChanges]:
        """Return what changed since the last time, by topic."""
        # Found each time: a topic may have been forgotten while nobody came.
        topics = {name: self._feed.find_topic(self._viewer, name) for name in self._names}
        await self._feed.refresh(list(topics.values()))
        # From here on nothing waits, so that all topics are read as of one moment.
        version = self.version
        if version is not None and any(version < topic.rows.floor for topic in topics.values()):
            self.version = version = None
        since, self.version = version, self._feed.version
        if since is None:
            return {name: topic.rows.read_all() for name, topic in topics.items()}
        found = {name: topic.rows.read_since(since) for name, topic in topics.items()}
        return {name: changes for name, changes in found.items() if changes is not None}

    def take_reset(self, changes: Mapping[str, TopicChanges]) -> bool:
        """Whether a reader that has read before begins anew with these changes."""
        was_here, self._was_here = self._was_here, True
        return was_here and any(one.reset for one in changes.values())

    @property
    def place(self) -> str:
        """Where it is: the id of its last event."""
        return f"{self.epoch}.{self.version or 0}"


def _read_place(text: str, epoch: str) -> int | None:
    given, _, version = text.rpartition(".")
    if given != epoch or not (version.isascii() and version.isdigit()):
        return None
    return int(version[:18])
