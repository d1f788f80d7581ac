"""Hints between instances: how they are gathered, cut into messages, and heard."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from gateway.stores.hints import REMINDERS, STATE, digest_session
from gateway.stores.postgres.bus import LONGEST_MESSAGE, PostgresBus
from tests.run import until

from .conftest import Notes
from .listeners import schema
from .server import shared_pooler

KEY, OTHER = ("ann", "s1"), ("ann", "s2")


async def test_a_change_told_by_one_is_heard_by_all_others(notes: Notes) -> None:
    async with schema(notes) as here, AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(here.join()) for _ in range(3)]
        marks = [node.hints.mark() for node in nodes]
        woken = asyncio.Event()
        nodes[1].hints.watch(REMINDERS, KEY, woken.set)

        nodes[0].hints.tell(REMINDERS, KEY)

        await asyncio.wait_for(woken.wait(), 20)
        await until(lambda: nodes[2].hints.has_changed(REMINDERS, KEY, marks[2]))
        for node, mark in zip(nodes[1:], marks[1:], strict=True):
            assert not node.hints.has_changed(REMINDERS, OTHER, mark)
            assert not node.hints.has_changed(STATE, KEY, mark)


async def test_many_hints_are_split_into_messages_and_all_arrive(notes: Notes) -> None:
    async with schema(notes) as here, here.join() as one, here.join() as other:
        keys = [("ann", f"s{number}") for number in range(2000)]
        mark = other.hints.mark()
        for key in keys:
            one.hints.tell(REMINDERS, key)
        await until(lambda: all(other.hints.has_changed(REMINDERS, key, mark) for key in keys), 20)


async def test_other_schemas_hear_nothing(notes: Notes) -> None:
    async with schema(notes) as here, schema(notes) as there:
        async with here.join() as one, here.join() as two, there.join() as stranger:
            marks = two.hints.mark(), stranger.hints.mark()
            one.hints.tell(REMINDERS, KEY)
            await until(lambda: two.hints.has_changed(REMINDERS, KEY, marks[0]))
            assert not stranger.hints.has_changed(REMINDERS, KEY, marks[1])


async def test_a_pooler_makes_deaf_and_that_is_said(notes: Notes) -> None:
    async with schema(notes) as here, here.join(shared_pooler().url) as node:
        assert node.listener.is_deaf
        assert "listener_deaf" in notes.events
        assert node.instance.is_trusted


def test_no_message_is_longer_than_postgres_takes() -> None:
    bus, heard = PostgresBus(), list[tuple[str, str]]()
    keys = [("ann", f"s{number}") for number in range(1500)]
    for key in keys:
        bus.tell(REMINDERS, digest_session(key))
        bus.tell(REMINDERS, digest_session(key))
    messages = []
    while bus.has_waiting:
        messages.append(bus.take_message())
    assert max(map(len, messages)) <= LONGEST_MESSAGE
    assert len(messages) == 3

    other = PostgresBus()
    other.on_heard(lambda letter, digest: heard.append((letter, digest)))
    for message in messages:
        other.hear(message)
        # Its own messages come back to the sender, which does not need them.
        bus.hear(message)
    assert heard == [(REMINDERS, digest_session(key)) for key in keys]


def test_a_message_that_is_cut_short_hurts_nobody() -> None:
    bus, heard = PostgresBus(), list[str]()
    bus.on_heard(lambda letter, digest: heard.append(letter))
    for message in ("", "short", "another-one!c123"):
        bus.hear(message)
    assert heard == []


def test_what_can_not_be_sent_for_long_is_not_kept_without_end() -> None:
    bus = PostgresBus()
    for number in range(30_000):
        bus.tell(REMINDERS, digest_session(("ann", str(number))))
    count = 0
    while bus.has_waiting:
        count += (len(bus.take_message()) - 12) // 13
    assert count == 20_000
