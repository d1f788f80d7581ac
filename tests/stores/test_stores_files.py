"""Files: their names, modes and form, and that the file is the truth."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from gateway.stores import (
    DocumentKey,
    InUse,
    SealedDocument,
    StoreUnavailable,
    fetch,
    open_documents,
    update,
)
from gateway.stores.disk import name_of
from gateway.stores.document_cache import ENTRY_BYTES, CachedDocument, DocumentCache
from gateway.stores.documents import Stored

from .conftest import Backend
from .shapes import CLOCK, SESSION, SHAPES, Notes, cleared, clock, plus_one


def hashed(owner: str, session: str) -> str:
    return sha256(owner.encode() + b"\0" + session.encode()).hexdigest()[:24]


@pytest.mark.parametrize(
    ("owner", "session", "name"),
    [
        ("local", "7f1d-a_b.c", "7f1d-a_b.c"),
        ("local", "x" * 96, "x" * 96),
        ("local", "x" * 97, "x" * 40 + "~"),
        ("ann", "plain", "plain~"),
        ("local", "ntp-state", "ntp-state~"),
        ("local", ".hidden", "hidden~"),
        ("local", "../../x", "_.._x~"),
        ("local", "a/b", "a_b~"),
        ("local", "conversation:1", "conversation_1~"),
        ("local", "", "~"),
        ("local", "a~b", "a_b~"),
        ("local", "plain\n", "plain_~"),
        ("local", "会话", "_~"),
    ],
)
def test_names(owner: str, session: str, name: str) -> None:
    expected = name if not name.endswith("~") else name + hashed(owner, session)
    assert name_of(owner, session) == expected


@given(st.lists(st.tuples(st.sampled_from(["local", "ann"]), st.text(max_size=256)), unique=True))
def test_names_are_safe_and_never_shared(sessions: list[tuple[str, str]]) -> None:
    names = [name_of(owner, session) for owner, session in sessions]
    assert len(set(names)) == len(sessions)
    for name in names:
        assert re.fullmatch(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]*", name)
        assert len(name) <= 96
        assert name != "ntp-state"


async def test_the_form_of_a_file(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, clock("s-1"), partial(replace, count=3, text="hé"), CLOCK)
    raw = files.root.joinpath("clock", "s-1.json").read_bytes()
    assert (
        raw
        == (
            '{"version":1,"owner":"local","sessionId":"s-1","count":3,"text":"hé","dueMs":null,'
            '"updatedAtMs":1770000000000}'
        ).encode()
    )


async def test_only_the_owner_of_the_process_can_read(files: Backend) -> None:
    before = os.umask(0)
    try:
        async with files.opened() as store:
            await update(store, clock("a"), plus_one, CLOCK)
            await update(store, clock("a"), plus_one, CLOCK)
    finally:
        os.umask(before)
    found = {
        str(path.relative_to(files.root)): stat.S_IMODE(path.stat().st_mode)
        for path in [files.root, *files.root.rglob("*")]
    }
    assert found == {
        ".": 0o700,
        ".lock": 0o600,
        "clock": 0o700,
        "clock/a.json": 0o600,
        "session": 0o700,
    }


async def test_no_session_leaves_the_directory(files: Backend) -> None:
    async with files.opened() as store:
        for session in ("../../x", "/etc/x", "..", "a/../../b", "\0", "x" * 256):
            await update(store, clock(session), plus_one, CLOCK)
    outside = [path for path in files.root.parent.rglob("*") if files.root not in path.parents]
    assert outside == [files.root]
    assert len(list(files.root.joinpath("clock").iterdir())) == 6


async def test_what_stays_equal_does_not_touch_the_disk(files: Backend) -> None:
    async with files.opened() as store:
        assert await update(store, clock("absent"), lambda notes: notes, CLOCK) == Notes()
        await update(store, clock("a"), plus_one, CLOCK)
        path = files.root / "clock" / "a.json"
        before = path.stat()
        await update(store, clock("a"), lambda notes: notes, CLOCK)
        after = path.stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


async def test_an_empty_value_leaves_no_file(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        await update(store, clock("a"), cleared, CLOCK)
    assert list(files.root.joinpath("clock").iterdir()) == []


async def test_a_file_changed_by_hand_is_noticed(files: Backend) -> None:
    changed = anyio.Event()
    path = files.root / "clock" / "a.json"
    async with files.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        assert (await fetch(store, clock("a"), CLOCK)).count == 1
        fields = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode(fields | {"count": 50, "dueMs": 7}))
        store.watch(clock("a"), changed.set)
        assert (await fetch(store, clock("a"), CLOCK)).count == 50
        await changed.wait()
        assert await store.due("clock", 8, 10) == [clock("a")]
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 51
        path.unlink()
        assert await fetch(store, clock("a"), CLOCK) == Notes()
        assert await store.due("clock", 8, 10) == []
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1


async def test_a_change_by_hand_that_was_not_read_is_a_conflict(files: Backend) -> None:
    path = files.root / "clock" / "a.json"
    async with files.opened() as store:

        def edit_meanwhile(notes: Notes) -> Notes:
            if notes.count == 1:
                path.write_bytes(path.read_bytes().replace(b'"count":1', b'"count":70'))
            return plus_one(notes)

        await update(store, clock("a"), plus_one, CLOCK)
        assert (await update(store, clock("a"), edit_meanwhile, CLOCK)).count == 71


async def test_a_file_by_hand_needs_no_owner_or_time(files: Backend) -> None:
    files.root.joinpath("clock").mkdir(parents=True)
    by_hand = b'{"version":1,"sessionId":"a","count":5,"text":"","dueMs":9}'
    files.root.joinpath("clock/a.json").write_bytes(by_hand)
    async with files.opened() as store:
        assert await fetch(store, clock("a"), CLOCK) == Notes(5, "", 9)
        assert await store.due("clock", 10, 10) == [clock("a")]


async def test_what_is_not_a_document_is_left_alone(files: Backend) -> None:
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    for name in ("ntp-state.json", "notes.txt", "old.corrupt-20260101T000000.000000Z", ".x.json"):
        folder.joinpath(name).write_text("mine")
    async with files.opened() as store:
        assert await store.due("clock", 10**15, 10) == []
    assert sorted(path.name for path in folder.iterdir()) == [
        ".x.json",
        "notes.txt",
        "ntp-state.json",
        "old.corrupt-20260101T000000.000000Z",
    ]
    assert files.quarantined == []


async def test_what_a_crash_left_is_removed(files: Backend) -> None:
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    folder.joinpath(".tmp-0123abcd-1").write_text('{"versi')
    async with files.opened() as store:
        await store.due("clock", 0, 1)
        assert list(folder.iterdir()) == []


async def test_requests_do_not_wait_for_the_scan_and_it_does_not_undo_them(files: Backend) -> None:
    async with files.opened() as store:
        for number in range(300):
            await store.write(clock(f"s{number}"), a_document(f"s{number}", due_ms=number), 0)
    async with files.opened() as store:
        async with anyio.create_task_group() as tasks:
            for number in range(0, 300, 3):
                tasks.start_soon(store.delete, clock(f"s{number}"))
                change = partial(replace, due_ms=1000 + number)
                tasks.start_soon(update, store, clock(f"s{number + 1}"), change, CLOCK)
        due = {key.session for key in await store.due("clock", 1000, 1000)}
        later = {key.session for key in await store.due("clock", 10_000, 1000)} - due
    assert due == {f"s{number}" for number in range(2, 300, 3)}
    assert later == {f"s{number}" for number in range(1, 300, 3)}


def a_document(session: str, due_ms: int) -> SealedDocument:
    text = f'{{"version":1,"sessionId":"{session}","count":1,"text":"","dueMs":{due_ms},"updatedAtMs":5}}'
    return SealedDocument(text.encode(), 5, due_ms)


async def test_many_files_do_not_stop_the_event_loop(files: Backend) -> None:
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    for number in range(3000):
        folder.joinpath(f"s{number}.json").write_bytes(a_document(f"s{number}", number).document)
    rounds = 0

    async def go_round() -> None:
        nonlocal rounds
        while True:
            await checkpoint()
            rounds += 1

    async with files.opened() as store:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_round)
            assert len(await store.due("clock", 10**9, 5000)) == 3000
            tasks.cancel_scope.cancel()
    assert rounds > 100


async def test_a_second_store_is_refused(files: Backend) -> None:
    async with files.opened() as store:
        with pytest.raises(InUse, match=rf"used by another Holdgate \(process {os.getpid()}\)"):
            async with files.opened():
                pass
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 1
    async with files.opened() as store:
        assert (await fetch(store, clock("a"), CLOCK)).count == 1


async def test_a_removed_lock_is_taken_again(durable: Backend) -> None:
    async with durable.opened() as store:
        lock_of(durable).unlink()
        await update(store, clock("a"), plus_one, CLOCK)
        with pytest.raises(InUse):
            async with durable.opened():
                pass


async def test_one_whose_lock_was_taken_over_stops_writing(durable: Backend) -> None:
    async with durable.opened() as store:
        await update(store, clock("a"), plus_one, CLOCK)
        lock_of(durable).unlink()
        async with durable.opened() as second:
            await update(second, clock("a"), plus_one, CLOCK)
            with pytest.raises(StoreUnavailable, match="another Holdgate uses") as refusal:
                await update(store, clock("a"), plus_one, CLOCK)
            assert str(durable.root.parent) not in refusal.value.message
        assert (await update(store, clock("a"), plus_one, CLOCK)).count == 3


def lock_of(backend: Backend) -> Path:
    [lock] = backend.root.parent.rglob("*.lock")
    return lock


async def test_closing_does_not_wait_for_the_scan(files: Backend) -> None:
    folder = files.root / "clock"
    folder.mkdir(parents=True)
    for number in range(500):
        folder.joinpath(f"s{number}.json").write_bytes(b"bad")
    for _ in range(5):
        async with files.opened() as store:
            assert await fetch(store, clock("s0"), CLOCK) == Notes()
    async with files.opened() as store:
        await store.due("clock", 0, 1)
    assert len(files.quarantined) == 500


async def test_a_place_that_cannot_be_a_directory(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await open_documents("", tmp_path / "file" / "sessions", SHAPES)
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await open_documents("", tmp_path / "file", SHAPES)


async def test_a_kind_without_shape_is_kept_as_well(files: Backend) -> None:
    key = DocumentKey("other", "local", "a")
    async with files.opened() as store:
        await store.write(key, SealedDocument(b"anything", 1, 5), 0)
        stored = await store.read(key)
        assert stored
        assert stored.document == b"anything"
        assert await store.due("other", 6, 1) == [key]


async def test_kinds_have_their_own_directories(files: Backend) -> None:
    async with files.opened() as store:
        await update(store, DocumentKey("session", "local", "a"), plus_one, SESSION)
        assert await fetch(store, clock("a"), CLOCK) == Notes()
    assert files.root.joinpath("session/a.json").exists()


def test_the_cache_forgets_what_was_not_used_for_longest() -> None:
    cache = DocumentCache(budget=3 * (ENTRY_BYTES + 10))
    for session in "abc":
        cache.put(clock(session), CachedDocument((1, 1, 1), Stored(b"x" * 10, 1)))
    assert cache.get(clock("a"))
    cache.put(clock("d"), CachedDocument((1, 1, 1), Stored(b"x" * 10, 1)))
    assert [session for session in "abcd" if cache.get(clock(session))] == ["a", "c", "d"]
    cache.drop(clock("a"))
    cache.put(clock("e"), CachedDocument((1, 1, 1), Stored(b"x" * 10, 1)))
    assert len(cache) == 3
    cache.put(clock("f"), CachedDocument((1, 1, 1), Stored(b"x" * 10_000, 1)))
    assert len(cache) == 0
