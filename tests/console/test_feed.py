"""The feed: whoever joins, sleeps or comes back ends with what is true, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.console.feed import (
    ConsoleFeed,
    FeedReader,
    TopicChanges,
    TopicRows,
    VersionCounter,
    Viewer,
)
from gateway.errors import BadRequest

ANN = Viewer("ann")
KEYS = ("a", "b", "c")


class TableTopic:
    """A topic whose rows a test changes."""

    interval = 0.0

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.looks = 0

    async def update(self, rows: TopicRows) -> None:
        self.looks += 1
        rows.replace_all({key: json.dumps(value).encode() for key, value in self.rows.items()})


class Page:
    """One who reads: the rows it has, and how far it is."""

    def __init__(self, reader: FeedReader) -> None:
        self.reader = reader
        self.rows: dict[str, int] = {}

    def take(self, changes: Mapping[str, TopicChanges]) -> None:
        """Take changes over as a page does: what came and went unseen is dropped, too."""
        for one in changes.values():
            if one.reset:
                self.rows = {}
            for key in one.drop:
                self.rows.pop(key, None)
            assert not one.put.keys() & set(one.drop)
            self.rows.update({key: json.loads(bytes(row)) for key, row in one.put.items()})


def _find_topic(topic: TableTopic, viewer: Viewer, about: str) -> TableTopic:
    return topic


def make_feed(*topics: TableTopic, epoch: str = "e") -> ConsoleFeed:
    feed = ConsoleFeed(epoch, lambda: 0.0)
    for name, topic in zip("xyz", topics, strict=False):
        feed.add_topic(name, partial(_find_topic, topic))
    return feed


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 3)),
        st.tuples(st.just("drop"), st.sampled_from(KEYS), st.just(0)),
        st.tuples(st.just("read"), st.just(""), st.integers(0, 2)),
        st.tuples(st.just("resume"), st.just(""), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(STEPS)
def test_every_reader_ends_with_the_true_state(steps: list[tuple[str, str, int]]) -> None:
    async def play() -> None:
        topic = TableTopic()
        feed = make_feed(topic)
        pages = [Page(feed.open(ANN, ("x",))) for _ in range(3)]
        for what, key, number in steps:
            if what == "put":
                topic.rows[key] = number
            elif what == "drop":
                topic.rows.pop(key, None)
            elif what == "read":
                pages[number].take(await pages[number].reader.read())
            else:
                # The page keeps its rows and comes back with the id of its last event.
                pages[number].reader = feed.open(ANN, ("x",), pages[number].reader.place)
        for page in pages:
            page.take(await page.reader.read())
            assert page.rows == topic.rows

    anyio.run(play)


async def test_a_reader_that_was_away_for_too_long_begins_anew() -> None:
    counter = VersionCounter()
    rows = TopicRows(counter, most_tombstones=2)
    for key in "abcd":
        rows.put(key, b"1")
    seen = counter.value
    for key in "abc":
        rows.drop(key)
    assert rows.floor > seen
    assert rows.read_all().reset


async def test_what_was_read_with_other_topics_or_by_others_does_not_count() -> None:
    one, two = TableTopic(), TableTopic()
    one.rows, two.rows = {"a": 1}, {"b": 2}
    feed = make_feed(one, two)
    first = feed.open(ANN, ("x",))
    await first.read()
    both = feed.open(ANN, ("x", "y"), first.place)
    changes = await both.read()
    assert {name: one.reset for name, one in changes.items()} == {"x": True, "y": True}
    assert both.take_reset(changes)
    stranger = feed.open(Viewer("bob"), ("x",), first.place)
    assert (await stranger.read())["x"].reset


async def test_another_process_resets() -> None:
    topic = TableTopic()
    first = make_feed(topic).open(ANN, ("x",))
    await first.read()
    again = make_feed(topic, epoch="f").open(ANN, ("x",), first.place)
    changes = await again.read()
    assert again.take_reset(changes)
    assert not again.take_reset(await again.read())


async def test_nothing_comes_if_nothing_changed() -> None:
    topic = TableTopic()
    topic.rows = {"a": 1}
    reader = make_feed(topic).open(ANN, ("x",))
    assert (await reader.read())["x"].put.keys() == {"a"}
    assert await reader.read() == {}


async def test_a_topic_that_nobody_reads_is_not_looked_at() -> None:
    one, two = TableTopic(), TableTopic()
    feed = make_feed(one, two)
    await feed.open(ANN, ("x",)).read()
    assert (one.looks, two.looks) == (1, 0)


async def test_readers_share_a_look() -> None:
    topic = TableTopic()
    topic.interval = 1.0
    feed = make_feed(topic)
    for _ in range(5):
        await feed.open(ANN, ("x",)).read()
    assert topic.looks == 1


@pytest.mark.parametrize("names", [(), ("nothing",), ("x:about",), ("x",) * 17])
def test_unknown_topics_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(BadRequest):
        make_feed(TableTopic()).open(ANN, names)
