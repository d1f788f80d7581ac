"""What every store promises, whatever it keeps documents in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import anyio
import msgspec
import pytest

from gateway.stores import (
    Conflict,
    DocumentKey,
    Documents,
    Newer,
    SealedDocument,
    Shape,
    StoreUnavailable,
    TooLarge,
    amend,
    fetch,
    update,
)
from gateway.stores.documents import LARGEST_DOCUMENT

from .conftest import Backend
from .shapes import CLOCK, SESSION, Notes, cleared, clock, plus_one

ODD_SESSIONS = (
    "../../x",
    "..",
    "/etc/passwd",
    "a/b",
    "a_b",
    "a\\b",
    "ntp-state",
    ".hidden",
    ".lock",
    "",
    " ",
    "nul\0inside",
    "line\nbreak",
    "Case",
    "case",
    "conversation:case",
    "x" * 96,
    "x" * 97,
    "x" * 256,
    "🦆" * 50,
    "x.json",
    "x.corrupt-1",
    "~",
    "会话",
    "%2e%2e",
    "e\u0301",
    "\u00e9",
)


def draft(text: str) -> SealedDocument:
    return SealedDocument(text.encode(), updated_ms=1)


async def content(store: Documents, key: DocumentKey) -> bytes | None:
    stored = await store.read(key)
    return stored.document if stored else None


async def test_what_was_written_is_read(store: Documents) -> None:
    assert await store.read(clock("a")) is None
    revision = await store.write(clock("a"), draft("one"), 0)
    stored = await store.read(clock("a"))
    assert stored
    assert (stored.document, stored.revision) == (b"one", revision)


async def test_only_the_newest_revision_can_be_replaced(store: Documents) -> None:
    first = await store.write(clock("a"), draft("one"), 0)
    second = await store.write(clock("a"), draft("two"), first)
    for stale in (0, first, 12345):
        with pytest.raises(Conflict):
            await store.write(clock("a"), draft("three"), stale)
    assert await content(store, clock("a")) == b"two"
    await store.write(clock("a"), draft("three"), second)
    assert await content(store, clock("a")) == b"three"


async def test_a_revision_does_not_come_back_after_a_deletion(store: Documents) -> None:
    first = await store.write(clock("a"), draft("one"), 0)
    await store.delete(clock("a"), first)
    await store.write(clock("a"), draft("another"), 0)
    with pytest.raises(Conflict):
        await store.write(clock("a"), draft("two"), first)


async def test_deleting(store: Documents) -> None:
    await store.delete(clock("a"))
    with pytest.raises(Conflict):
        await store.delete(clock("a"), 7)
    revision = await store.write(clock("a"), draft("one"), 0)
    with pytest.raises(Conflict):
        await store.delete(clock("a"), revision + 1)
    await store.delete(clock("a"), revision)
    assert await store.read(clock("a")) is None
    await store.write(clock("a"), draft("again"), 0)
    await store.delete(clock("a"))
    assert await store.read(clock("a")) is None


async def test_kinds_and_owners_are_apart(store: Documents) -> None:
    keys = [
        DocumentKey(kind, owner, "s") for kind in ("clock", "session") for owner in ("local", "ann")
    ]
    for key in keys:
        await store.write(key, draft("/".join(key)), 0)
    for key in keys:
        assert await content(store, key) == "/".join(key).encode()
    await store.delete(keys[0])
    assert [await content(store, key) is None for key in keys] == [True, False, False, False]


async def test_odd_sessions_are_apart(backend: Backend) -> None:
    sessions = [session for session in ODD_SESSIONS if backend.may_hold(session)]
    keys = [clock(session, owner) for session in sessions for owner in ("local", "ann")]
    async with backend.opened() as store:
        for key in keys:
            await update(store, key, partial(replace, text=f"{key.owner} {key.session}"), CLOCK)
        for key in keys:
            assert (await fetch(store, key, CLOCK)).text == f"{key.owner} {key.session}"
        listed = await store.listing("clock", "ann", None, 1000)
        assert [entry.session for entry in listed] == list(reversed(sessions))
    assert backend.quarantined == []


async def test_changes_at_once_all_count(store: Documents) -> None:
    async def ten_times() -> None:
        for _ in range(10):
            await update(store, clock("a"), plus_one, CLOCK)

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(ten_times)
    assert (await fetch(store, clock("a"), CLOCK)).count == 200
    assert len(store.key_locks) == 0


async def test_writers_of_other_processes_are_heard(store: Documents) -> None:
    """Others take no turns with us: a change that lost is made again, from what they wrote."""
    interruptions = 3
    seen: list[int] = []

    async def disturb() -> None:
        stored = await store.read(clock("a"))
        ours = b'{"version":1,"sessionId":"a","count":%d,"text":"","dueMs":null,"updatedAtMs":1}'
        await store.write(
            clock("a"),
            SealedDocument(ours % (100 * len(seen)), 1),
            stored.revision if stored else 0,
        )

    class Disturbed:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
            if len(seen) <= interruptions:
                await disturb()
            return await store.write(key, draft, revision)

    def change(notes: Notes) -> Notes:
        seen.append(notes.count)
        return plus_one(notes)

    assert (await update(Disturbed(), clock("a"), change, CLOCK)).count == 301  # type: ignore[arg-type]
    assert seen == [0, 100, 200, 300]


async def test_one_who_always_loses_gives_up(store: Documents) -> None:
    class Hopeless:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def write(self, key: DocumentKey, draft: SealedDocument, revision: int) -> int:
            raise Conflict("always")

    with pytest.raises(StoreUnavailable, match="at once; try again"):
        await update(Hopeless(), clock("a"), plus_one, CLOCK)  # type: ignore[arg-type]
    assert len(store.key_locks) == 0


async def test_what_stays_equal_is_not_written(store: Documents) -> None:
    assert await update(store, clock("a"), lambda notes: notes, CLOCK) == Notes()
    assert await store.read(clock("a")) is None
    await update(store, clock("a"), plus_one, CLOCK)
    before = await store.read(clock("a"))
    assert await update(store, clock("a"), lambda notes: Notes(1), CLOCK) == Notes(1)
    after = await store.read(clock("a"))
    assert before
    assert after
    assert (before.document, before.revision) == (after.document, after.revision)


async def test_an_answer_beside_the_value(store: Documents) -> None:
    def take(notes: Notes) -> tuple[Notes, bool]:
        return (plus_one(notes), True) if notes.count < 3 else (notes, False)

    answers: list[bool] = []

    async def try_once() -> None:
        answers.append(await amend(store, clock("a"), take, CLOCK))

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(try_once)
    assert sum(answers) == 3
    assert (await fetch(store, clock("a"), CLOCK)).count == 3


async def test_a_change_that_raises_changes_nothing(store: Documents) -> None:
    def refuse(notes: Notes) -> Notes:
        raise LookupError("no such task")

    await update(store, clock("a"), plus_one, CLOCK)
    with pytest.raises(LookupError):
        await update(store, clock("a"), refuse, CLOCK)
    assert (await update(store, clock("a"), plus_one, CLOCK)).count == 2


async def test_what_became_empty_is_deleted(store: Documents) -> None:
    await update(store, clock("a"), plus_one, CLOCK)
    assert await update(store, clock("a"), cleared, CLOCK) == Notes()
    assert await store.read(clock("a")) is None
    assert await store.listing("clock", "local", None, 10) == []
    await update(store, clock("a"), cleared, CLOCK)


async def test_a_document_says_whose_it_is(store: Documents) -> None:
    await update(store, clock("a", "ann"), plus_one, CLOCK)
    stored = await store.read(clock("a", "ann"))
    assert stored
    fields = msgspec.json.decode(stored.document)
    assert list(fields) == [
        "version",
        "owner",
        "sessionId",
        "count",
        "text",
        "dueMs",
        "updatedAtMs",
    ]
    assert (fields["version"], fields["owner"], fields["sessionId"]) == (1, "ann", "a")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
        (b'{"version":1', "not a JSON object"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"version":1,"count":1,"text":"","dueMs":null}', "does not name its owner"),
        (b'{"version":1,"owner":7,"sessionId":"a"}', "does not name its owner"),
        (
            b'{"version":1,"owner":"ann","sessionId":"a","count":1,"text":"","dueMs":null}',
            "another owner",
        ),
        (b'{"version":1,"sessionId":"b","count":1,"text":"","dueMs":null}', "another owner"),
        (b'{"sessionId":"a","count":1,"text":"","dueMs":null}', "version"),
        (b'{"version":"1","sessionId":"a","count":1,"text":"","dueMs":null}', "version"),
        (b'{"version":-1,"sessionId":"a","count":1,"text":"","dueMs":null}', "version"),
        (
            b'{"version":1,"sessionId":"a","count":1,"text":"","dueMs":null,"updatedAtMs":"x"}',
            "updatedAtMs",
        ),
        (b'{"version":1,"sessionId":"a"}', "not a valid clock document"),
        (
            b'{"version":1,"sessionId":"a","count":"x","text":"","dueMs":null}',
            "not a valid clock document",
        ),
    ],
)
async def test_a_corrupt_document_is_set_aside(
    backend: Backend, document: bytes, reason: str
) -> None:
    async with backend.opened() as store:
        await update(store, clock("other"), plus_one, CLOCK)
        await store.write(clock("a"), SealedDocument(document, 1), 0)
        assert await fetch(store, clock("a"), CLOCK) == Notes()
        assert await store.read(clock("a")) is None
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1
        assert (await fetch(store, clock("other"), CLOCK)).count == 1
    [(_, reported)] = backend.quarantined
    assert reason in reported


async def test_a_newer_document_is_left_alone(backend: Backend) -> None:
    newer = b'{"version":2,"sessionId":"a","whatever":true}'
    async with backend.opened() as store:
        await store.write(clock("a"), SealedDocument(newer, 1), 0)
        for _ in range(2):
            with pytest.raises(Newer, match="newer Holdgate"):
                await update(store, clock("a"), plus_one, CLOCK)
        assert await content(store, clock("a")) == newer
    assert backend.quarantined == []


async def test_an_older_document_is_read_by_its_version(store: Documents) -> None:
    def decode(fields: object) -> Notes:
        assert isinstance(fields, dict)
        return Notes(fields["n"] if fields["version"] == 1 else fields["count"])

    later = Shape("clock", 2, Notes(), lambda notes: {"count": notes.count}, decode)
    await store.write(clock("a"), SealedDocument(b'{"version":1,"sessionId":"a","n":41}', 1), 0)
    assert (await update(store, clock("a"), plus_one, later)).count == 42
    stored = await store.read(clock("a"))
    assert stored
    assert msgspec.json.decode(stored.document)["version"] == 2


async def test_a_document_can_be_too_large(store: Documents) -> None:
    await update(store, clock("a"), plus_one, CLOCK)
    with pytest.raises(TooLarge):
        await update(store, clock("a"), partial(replace, text="x" * LARGEST_DOCUMENT), CLOCK)
    assert await fetch(store, clock("a"), CLOCK) == Notes(1)


async def test_a_shape_is_for_its_kind_and_leaves_the_envelope_alone(store: Documents) -> None:
    await update(store, clock("a"), plus_one, CLOCK)
    with pytest.raises(ValueError, match="shape"):
        await fetch(store, clock("a"), SESSION)
    clash = replace(CLOCK, encode=lambda _: {"owner": "me"})
    with pytest.raises(ValueError, match="envelope"):
        await update(store, clock("a"), plus_one, clash)
    assert await fetch(store, clock("a"), CLOCK) == Notes(1)


async def test_setting_aside_what_was_replaced_does_nothing(backend: Backend) -> None:
    async with backend.opened() as store:
        first = await store.write(clock("a"), draft("bad"), 0)
        await store.write(clock("a"), draft("good"), first)
        await store.set_aside(clock("a"), first, "It is bad.")
        await store.set_aside(clock("b"), first, "It is bad.")
        assert await content(store, clock("a")) == b"good"
    assert backend.quarantined == []


async def test_a_closed_and_opened_store_has_everything(lasting: Backend) -> None:
    sessions = [session for session in ODD_SESSIONS if lasting.may_hold(session)]
    keys = [clock(session, owner) for session in sessions for owner in ("local", "ann")]
    async with lasting.opened() as store:
        for number, key in enumerate(keys):
            await update(store, key, partial(replace, count=number + 1, due_ms=number), CLOCK)
        listed = await store.listing("clock", "local", None, 1000)
    async with lasting.opened() as store:
        for number, key in enumerate(keys):
            assert await fetch(store, key, CLOCK) == Notes(number + 1, "", number)
        assert await store.due("clock", 10**9, 1000) == keys
        assert await store.listing("clock", "local", None, 1000) == listed
        assert (await update(store, keys[0], plus_one, CLOCK)).count == 2
    assert lasting.quarantined == []


async def test_a_closed_store_says_so(lasting: Backend) -> None:
    async with lasting.opened() as store:
        pass
    with pytest.raises(StoreUnavailable, match="closed"):
        await update(store, clock("a"), plus_one, CLOCK)
    await store.aclose()
