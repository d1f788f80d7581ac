"""Webhooks where several instances share a store: each event is posted by one, in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from gateway.clock import ManualClock
from gateway.outbox.feed import Feed
from gateway.outbox.shared_webhooks import SharedWebhooks
from gateway.outbox.webhooks import DAY_MS, Hook, Tries
from gateway.stores.delivery_rows import Post
from gateway.stores.documents import StoreUnavailable
from tests.outbox.house import NOW, Notes
from tests.outbox.receiver import FAILED, TAKEN, Posted, Receiver, receiving
from tests.run import until

from .rows import OpenedRows, PostgresRowBackend

QUICK = Tries(delays=(0, 0, 0), patience=5, store_retry=0.01)


def hook(port: int, owner: str = "ann", path: str = "hook") -> Hook:
    return Hook(owner, f"http://127.0.0.1:{port}/{path}", b"secret")


class Poster:
    """The webhooks of one instance, and its feed."""

    def __init__(self, rows: OpenedRows, clock: ManualClock, tries: Tries, *hooks: Hook) -> None:
        assert rows.posts is not None
        self.rows = rows
        self.notes = Notes()
        self.feed = Feed(rows.deliveries, clock, self.notes)
        self.webhooks = SharedWebhooks(hooks, rows.posts, self.feed, clock, self.notes, tries)
        self.scope = anyio.CancelScope()

    async def happen(self, *keys: str, session: str = "s") -> None:
        """Publish some events."""
        for key in keys:
            data = {"run_id": key}
            assert await self.feed.publish("ann", session, "run.finished", key, data)

    async def count_posts(self) -> int:
        """Return how many posts wait or are under way."""
        (row,) = await self.rows.database.ask("SELECT count(*) AS posts FROM @posts")
        return int(row["posts"])

    async def come_to(self, posts: int) -> None:
        """Wait until so many posts are left."""
        while await self.count_posts() != posts:  # noqa: ASYNC110 - stores have no event for that
            await anyio.sleep(0.005)

    async def run(self) -> None:
        """Post until stopped."""
        with self.scope:
            await self.webhooks.run()


class House:
    """Instances that share rows."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.backend = PostgresRowBackend()
        self.clock = ManualClock(NOW)
        self.tasks = tasks

    @asynccontextmanager
    async def instance(self, *hooks: Hook, tries: Tries = QUICK) -> AsyncIterator[Poster]:
        """Have one more instance that posts to these hooks."""
        async with self.backend.opened() as rows:
            poster = Poster(rows, self.clock, tries, *hooks)
            self.tasks.start_soon(poster.run)
            try:
                yield poster
            finally:
                poster.scope.cancel()


@asynccontextmanager
async def open_house() -> AsyncIterator[House]:
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            yield House(tasks)
            tasks.cancel_scope.cancel()


async def test_events_of_several_instances_are_posted_once_and_in_order() -> None:
    async with receiving() as receiver, open_house() as house:
        target = hook(receiver.port)
        async with house.instance(target) as one, house.instance(target) as two:
            for number in range(6):
                for poster in (one, two):
                    await poster.happen(f"{number}{'ab'[poster is two]}", session="s")
            await one.happen("other", session="t")
            await until(lambda: len(receiver.posted) == 13)
            await one.come_to(0)
        found = receiver.keys
        assert sorted(found) == sorted({*found})
        assert [key for key in found if key != "other"] == [
            f"{number}{letter}" for number in range(6) for letter in "ab"
        ]


async def test_each_hook_gets_each_event() -> None:
    async with receiving() as first, receiving() as second, open_house() as house:
        async with house.instance(hook(first.port), hook(second.port)) as poster:
            await poster.happen("r1", "r2")
            await until(lambda: len(first.posted) == len(second.posted) == 2)
            assert first.keys == second.keys == ["r1", "r2"]


async def test_what_is_not_taken_is_posted_again_before_what_is_later() -> None:
    answers = [FAILED, FAILED, TAKEN, TAKEN]
    async with receiving(lambda posted: answers.pop(0)) as receiver, open_house() as house:
        async with house.instance(hook(receiver.port)) as poster:
            await poster.happen("r1", "r2")
            await until(lambda: len(poster.notes.of("webhook_posted")) == 2)
            assert receiver.keys == ["r1", "r1", "r1", "r2"]
            assert [note["attempt"] for note in poster.notes.of("webhook_posted")] == [3, 1]
            await poster.come_to(0)


async def test_what_is_never_taken_is_given_up() -> None:
    async with receiving(lambda posted: FAILED) as receiver, open_house() as house:
        async with house.instance(hook(receiver.port)) as poster:
            await poster.happen("r1")
            await until(lambda: bool(poster.notes.of("webhook_given_up")))
            assert receiver.keys == ["r1"] * 4
            await poster.come_to(0)


async def test_an_old_event_is_given_up_at_once() -> None:
    async with receiving(lambda posted: FAILED) as receiver, open_house() as house:
        async with house.instance() as elsewhere:
            assert elsewhere.rows.posts is not None
            elsewhere.rows.posts.use_hooks({"ann": [hook(receiver.port).name]})
            await elsewhere.happen("r1")
            house.clock.advance(DAY_MS + 1)
            async with house.instance(hook(receiver.port)) as poster:
                await until(lambda: bool(poster.notes.of("webhook_given_up")))
                assert receiver.keys == ["r1"]


async def test_what_an_instance_had_taken_is_posted_by_another_when_that_is_buried() -> None:
    asked = anyio.Event()

    def answering(posted: Posted) -> bytes | None:
        asked.set()
        return None if len(receiver.posted) == 1 else TAKEN

    async with receiving(answering) as receiver, open_house() as house:
        target = hook(receiver.port)
        slow = Tries(delays=(1000,), patience=5)
        async with house.backend.opened() as dead:
            assert dead.posts is not None
            dead.posts.use_hooks({"ann": [target.name]})
            feed = Feed(dead.deliveries, house.clock, Notes())
            await feed.publish("ann", "s", "run.finished", "r1", {"run_id": "r1"})
            assert len(await dead.posts.take_posts([target.name], NOW, 9)) == 1
            async with house.instance(target, tries=slow) as poster:
                await poster.happen("elsewhere", session="t")
                await until(lambda: len(receiver.posted) == 1)
                assert receiver.keys == ["elsewhere"]
                await dead.bury()
                poster.feed.announce("ann", "s")
                await until(lambda: len(receiver.posted) == 2)
                assert receiver.keys == ["elsewhere", "r1"]


async def test_a_hook_that_is_gone_gives_back_what_it_posts() -> None:
    def hang(receiver: Receiver) -> None:
        receiver.answering = lambda posted: b""

    async with receiving() as receiver, open_house() as house:
        hang(receiver)
        target = hook(receiver.port)
        async with house.instance(target) as poster, house.instance() as other:
            await poster.happen("r1")
            await until(lambda: len(receiver.posted) == 1)
            await poster.webhooks.replace(())
            assert other.rows.posts is not None
            posts = other.rows.posts
            taken: list[Post] = []
            while not taken:
                taken = await posts.take_posts([target.name], NOW, 9)
            assert [post.event.key for post in taken] == ["r1"]
            # Events from now on have no hook.
            await poster.happen("r2")
            assert await poster.count_posts() == 1


async def test_a_store_that_is_down_is_asked_again() -> None:
    async with receiving() as receiver, open_house() as house:
        async with house.instance(hook(receiver.port)) as poster:
            posts = poster.rows.posts
            assert posts is not None
            real, failures = posts.settle_post, 0

            async def fail(post: object) -> bool:
                nonlocal failures
                failures += 1
                raise StoreUnavailable("The disk is gone.")

            posts.settle_post = fail  # type: ignore[method-assign]
            await poster.happen("r1")
            await until(lambda: failures > 0)
            posts.settle_post = real  # type: ignore[method-assign]
            await until(lambda: bool(poster.notes.of("webhook_store_down")))
            # Nobody knows that it was taken, so it comes once more.
            next_ms = None
            while next_ms is None:
                next_ms = await posts.next_post_ms([hook(receiver.port).name])
            house.clock.advance(next_ms - NOW)
            poster.feed.announce("ann", "s")
            await poster.come_to(0)
            assert receiver.keys[0] == "r1"
