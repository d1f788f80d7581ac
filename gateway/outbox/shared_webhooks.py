"""Posts the events of owners' sessions to their hooks, where several instances share a store.

Each event of an owner has a row for each hook, stored with the event. An instance takes some of
these rows, of each session the one with the lowest number; the next one of that session can be
taken when this one is accepted or given up. One that was refused waits in the store, and any
instance may try it again. A process that dies while it posts an event leaves it to others: so a
receiver may get an event twice, with the same id, but never those of one session out of order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress

import anyio
from anyio.abc import TaskGroup

from gateway.clock.protocol import Clock
from gateway.outbox.feed import Feed
from gateway.outbox.wakeup import Wakeup
from gateway.outbox.webhooks import (
    DAY_MS,
    MOST_AT_ONCE,
    MOST_UNDER_WAY,
    USUAL,
    Hook,
    Tries,
    WebhookSender,
)
from gateway.stores.delivery_rows import Post, PostRows
from gateway.stores.documents import StoreUnavailable

Note = Callable[..., None]

# Beside hints and due times: posts of instances that died, and hints that were lost.
POLL_SECONDS = 5.0
# When the post of an event is tried again that could not be taken from the store.
SOON_MS = 1000
LEAVING_SECONDS = 1.0


class SharedWebhooks:
    """All hooks; a failing hook does not affect the others."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        rows: PostRows,
        feed: Feed,
        clock: Clock,
        note: Note,
        tries: Tries = USUAL,
    ) -> None:
        self.feed = feed
        self.clock = clock
        self.note = note
        self.tries = tries
        self._rows = rows
        self._wakeup = Wakeup()
        self._changed = anyio.Event()
        self._use(hooks)

    def __repr__(self) -> str:
        return f"<SharedWebhooks {len(self.hooks)}>"

    @property
    def owners(self) -> frozenset[str]:
        """Whose events are posted."""
        return frozenset(hook.owner for hook in self.hooks)

    async def replace(self, hooks: Iterable[Hook]) -> None:
        """Post to these hooks from now on; what waits for a hook that is gone is not posted."""
        self._use(hooks)
        self._changed.set()

    async def load(self) -> None:
        """Do nothing: new hooks get all events from now on."""

    async def run(self) -> None:
        """Post events forever, to the hooks that there are."""
        while True:
            self._changed = anyio.Event()
            async with anyio.create_task_group() as tasks:
                for hook in self.hooks:
                    tasks.start_soon(self._serve, hook)
                await self._changed.wait()
                tasks.cancel_scope.cancel()

    def _use(self, hooks: Iterable[Hook]) -> None:
        self.hooks = tuple(hooks)
        names: dict[str, list[str]] = {}
        for hook in dict.fromkeys(self.hooks):
            names.setdefault(hook.owner, []).append(hook.name)
        self._names: Mapping[str, list[str]] = names
        self._rows.use_hooks(names)

    async def _serve(self, hook: Hook) -> None:
        sender = WebhookSender(hook, self.clock, self.note, self.tries.patience)
        async with sender:
            await _HookPoster(self, hook, sender, self._rows).run()


class _HookPoster:
    """Posts the events of one hook that this instance takes."""

    def __init__(
        self, parts: SharedWebhooks, hook: Hook, sender: WebhookSender, rows: PostRows
    ) -> None:
        self._parts = parts
        self._hook = hook
        self._sender = sender
        self._rows = rows
        self._wakeup = Wakeup()
        self._limit = anyio.CapacityLimiter(MOST_AT_ONCE)
        self._under_way = 0

    async def run(self) -> None:
        """Take posts as they come, and post each."""
        with ExitStack() as stack:
            stack.callback(self._parts.feed.watch(self._hook.owner, self._wakeup.rouse))
            async with anyio.create_task_group() as tasks:
                while True:
                    self._wakeup.look()
                    try:
                        pause = await self._take_some(tasks)
                    except StoreUnavailable as error:
                        self._sender.log("webhook_store_down", why=error.message)
                        await anyio.sleep(self._parts.tries.store_retry)
                        continue
                    with anyio.move_on_after(pause):
                        await self._wakeup.wait()

    async def _take_some(self, tasks: TaskGroup) -> float:
        """Take posts that are due; return for how long to wait until there are more."""
        names, now_ms = [self._hook.name], self._parts.clock.now_ms()
        room = MOST_UNDER_WAY - self._under_way
        taken = await self._rows.take_posts(names, now_ms, room) if room else []
        for post in taken:
            self._under_way += 1
            tasks.start_soon(self._deliver, post)
        if taken:
            return 0
        next_ms = await self._rows.next_post_ms(names)
        if next_ms is None:
            return POLL_SECONDS
        # A post that is due already waits for an earlier one of its session.
        wait = (next_ms - now_ms) / 1000
        return min(wait, POLL_SECONDS) if wait > 0 else POLL_SECONDS

    async def _deliver(self, post: Post) -> None:
        is_noted = False
        try:
            async with self._limit:
                why = await self._sender.post(post.event)
            await self._note_outcome(post, why)
            is_noted = True
        except StoreUnavailable as error:
            self._sender.log("webhook_store_down", post.event, why=error.message)
            await self._give_back(post)
            is_noted = True
        finally:
            self._under_way -= 1
            self._wakeup.rouse()
            if not is_noted:
                # The hook is gone or the gateway stops: another instance may post it.
                with anyio.move_on_after(LEAVING_SECONDS, shield=True), suppress(StoreUnavailable):
                    await self._rows.delay_post(post, self._parts.clock.now_ms())

    async def _note_outcome(self, post: Post, why: str) -> None:
        """Delete a post that was accepted or given up; let another one be tried again later."""
        delays, now_ms = self._parts.tries.delays, self._parts.clock.now_ms()
        log, event = self._sender.log, post.event
        if not why:
            await self._rows.settle_post(post)
            log("webhook_posted", event, attempt=post.tries)
        elif post.tries > len(delays) or now_ms - event.at_ms > DAY_MS:
            await self._rows.settle_post(post)
            log("webhook_given_up", event, attempt=post.tries, why=why)
        else:
            delay = delays[post.tries - 1]
            await self._rows.delay_post(post, now_ms + round(delay * 1000))
            log("webhook_failed", event, attempt=post.tries, why=why, again_in=delay)

    async def _give_back(self, post: Post) -> None:
        """Have a post tried again: it stays taken while this instance lives."""
        while True:
            await anyio.sleep(self._parts.tries.store_retry)
            try:
                await self._rows.delay_post(post, self._parts.clock.now_ms() + SOON_MS)
            except StoreUnavailable:
                continue
            return
