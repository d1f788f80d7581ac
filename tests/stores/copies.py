"""A store with something of everything, and stores to copy it into."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import anyio
from msgspec.structs import replace

from gateway.jobs.model import Job, Run
from gateway.stores import DocumentKey, Documents, Rows, open_documents, open_rows, update
from gateway.stores.conversation_rows import AgentConversation, Snapshot
from gateway.stores.copy_urls import CopySettings, open_copy_store
from gateway.stores.copying import CopyStore
from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.job_rows import RunNews
from gateway.timestamps import HOUR_MS
from gateway.usage.model import UsageBatch, UsageCounts

from .row_backends import NOON, due, job
from .shapes import CLOCK, SESSION, SHAPES, Notes, clock

HOOKS = {"ann": ("webhook:of-ann",), "local": ("webhook:silent", "webhook:new")}
ODD_TEXT = 'zero \0 quote " and \U0001f600\n'


def settings_in(directory: Path, schema: str = "holdgate") -> CopySettings:
    """Say what is known of stores in a directory."""
    return CopySettings(directory, schema, SHAPES, HOOKS)


@asynccontextmanager
async def opened(url: str, settings: CopySettings, *, is_source: bool) -> AsyncIterator[CopyStore]:
    """Open a store to copy from or into, as the command does."""
    store = await open_copy_store(url, settings, is_source=is_source)
    try:
        await store.check_alone()
        yield store
    finally:
        await store.aclose()


async def fill(directory: Path, sessions: int) -> None:
    """Make an embedded store in a directory, with so many sessions."""
    ticks = count(NOON)
    documents = await open_documents("", directory, SHAPES, now_ms=lambda: next(ticks))
    rows = await open_rows("", directory, documents, now_ms=lambda: next(ticks))
    await _fill_documents(documents, sessions)
    await _fill_jobs(rows, min(sessions, 40))
    await _fill_sessions(rows, min(sessions, 40))
    await rows.aclose()
    await documents.aclose()


async def _fill_documents(documents: Documents, sessions: int) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(1, sessions + 1):
            notes = Notes(number, ODD_TEXT, NOON + number if number % 2 else None)
            key = clock(f"s {number}", ("local", "ann")[number % 2])
            tasks.start_soon(update, documents, key, partial(_replace, notes), CLOCK)
    key = DocumentKey("session", "ann", "ümläut/1")
    await update(documents, key, partial(_replace, Notes(7)), SESSION)


def _replace(notes: Notes, former: Notes) -> Notes:
    return notes


async def _fill_jobs(rows: Rows, jobs: int) -> None:
    for number in range(jobs):
        of = job(
            f"job{number}",
            session_id=f"s {number}",
            dedupe_key=f"\0{number}x" if number % 3 else "",
        )
        await rows.jobs.add(of, lambda former: former, 1000)
    claims = await rows.jobs.claim(NOON, "former", NOON * 2, due, jobs)
    # The first is running when the gateway is stopped; of the others some are owed.
    for number, claimed in enumerate(claims[1:]):
        ended = replace(claimed.runs[0], status="ok", finished_ms=NOON, owed=number % 2 == 0)
        await rows.jobs.finish(ended, lambda one: replace(one, run_id=""), 100, _tell)


def _tell(before: Job, after: Job | None, ended: Run) -> RunNews:
    key = (before.user_id, before.session_id)
    item = OutboxItem(f"item-{ended.run_id}", *key, NOON, ODD_TEXT, before.job_id, ended.run_id)
    events = (SessionEvent(*key, "run.finished", ended.run_id, NOON, b'{"a":1}'),)
    return RunNews((item,), events)


async def _fill_sessions(rows: Rows, sessions: int) -> None:
    for number in range(sessions):
        owner, session = ("local", "ann")[number % 2], f"s {number}"
        messages = b'[{"role":"user","content":"%d"}]' % number
        await rows.conversations.put(AgentConversation(owner, "clerk", session, messages))
        snapshot = Snapshot("openai-chat", ODD_TEXT, b"{}", ODD_TEXT, NOON, (("x", "y"),))
        await rows.conversations.keep_snapshot(owner, session, snapshot)
        for tick in range(3):
            item = OutboxItem(f"i{tick}", owner, session, NOON + tick, f"text {tick}", name="n")
            await rows.deliveries.add(item)
            event = SessionEvent(owner, session, "due", str(tick), NOON + tick, b"{}")
            await rows.deliveries.note(event)
        await rows.deliveries.deliver(owner, session, ("i1",))
        await rows.deliveries.note_interest(owner, session, NOON)
    hour = NOON // HOUR_MS * HOUR_MS
    counts = UsageCounts(1, 2, 2, 30, 4, 5, 6, None)
    await rows.usage.add(UsageBatch("writer", 1, {("ann", hour, "m", "a"): counts}))
    assert rows.event_log is not None
    await rows.event_log.move("webhook:of-ann", 5)
    await rows.event_log.move("webhook:silent", 10**6)
