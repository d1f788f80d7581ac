"""Webhooks, posted to a real server: signed, in order, until they are taken."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from gateway.outbox.webhooks import Hook, Tries
from gateway.reminders.reminder_documents import SHAPE
from gateway.stores import open_documents, open_rows
from tests.outbox.house import MINUTE, NOW, House, LoneRows, build, living
from tests.outbox.ledger import Ledger
from tests.outbox.receiver import (
    FAILED,
    TAKEN,
    Answering,
    Posted,
    Receiver,
    answer,
    free_port,
    receiving,
    takes,
)
from tests.run import until
from tests.wire.fake import Peer, fake_upstream

SECRET = b"ann's secret"
QUICK = Tries((0.01,) * 11, store_retry=0.01)
PATIENT = Tries((0.01,) * 1000)


def hook(port: int, owner: str = "ann") -> Hook:
    return Hook(owner, f"http://127.0.0.1:{port}/hooks/hidden-path?x=1", SECRET)


async def happen(house: House, *keys: str, session: str = "s") -> None:
    for one in keys:
        await house.happen(one, session=session, owner="ann")


async def ready(house: House) -> None:
    """Wait until all hooks know their place: what happened before that is the past to them."""
    for one in house.webhooks.hooks:
        await behind(house, one, 0)


async def behind(house: House, one: Hook, seq: int) -> None:
    """Wait until it is kept that a hook has come past an event."""

    async def is_so() -> bool:
        return await house.rows.position(one.name) > seq

    await house.come_to(is_so)


@asynccontextmanager
async def posting(
    answering: Answering = takes, **options: Any
) -> AsyncIterator[tuple[House, Receiver]]:
    """Have a house whose events of ann are posted to a receiver, and the receiver."""
    options = {"tries": QUICK, **options}
    async with receiving(answering) as receiver:
        async with living(hooks=[hook(receiver.port)], **options) as house:
            await ready(house)
            yield house, receiver


async def test_an_event_is_posted_and_signed() -> None:
    async with posting() as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(receiver.posted) == 1)
        (posted,) = receiver.posted
        assert posted.line == "POST /hooks/hidden-path?x=1 HTTP/1.1"
        said = posted.headers
        assert said["content-type"] == "application/json"
        assert said["x-holdgate-event"] == "run.finished"
        assert said["x-holdgate-event-id"] == "1"
        assert said["x-holdgate-timestamp"] == str(NOW // 1000)
        signed = said["x-holdgate-timestamp"].encode() + b"." + posted.body
        mac = hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
        assert said["x-holdgate-signature"] == f"sha256={mac}"
        assert posted.json == {
            "id": 1,
            "event": "run.finished",
            "sessionId": "s",
            "at": "2026-02-02T21:22:38.229Z",
            "data": {"run_id": "r1"},
        }


async def test_a_reminder_that_comes_due_is_posted() -> None:
    async with posting() as (house, receiver):
        await house.remind("drink tea", MINUTE, owner="ann")
        await until(lambda: len(house.timers) == 1)
        house.clock.advance(MINUTE)
        await until(lambda: len(receiver.posted) == 1)
        posted = receiver.posted[0].json
        assert (posted["event"], posted["data"]["text"]) == ("reminder.due", "drink tea")


async def test_each_owner_has_their_own() -> None:
    async with receiving() as anns, receiving() as bobs:
        hooks = [hook(anns.port), hook(bobs.port, "bob")]
        async with living(hooks=hooks, tries=QUICK) as house:
            await ready(house)
            for owner in ("ann", "bob", "eve"):
                await house.happen(owner, owner=owner)
            await until(lambda: bool(anns.posted and bobs.posted))
            assert (anns.keys, bobs.keys) == (["ann"], ["bob"])


@pytest.mark.parametrize(
    "trouble",
    [FAILED, answer("404 Not Found"), answer("429 Too Many Requests"), b"what?\r\n\r\n", None],
    ids=["500", "404", "429", "nonsense", "reset"],
)
async def test_what_is_not_taken_is_posted_again(trouble: bytes | None) -> None:
    answers = [trouble, trouble, TAKEN]
    async with posting(lambda posted: answers.pop(0)) as (house, receiver):
        await happen(house, "r1")
        await until(lambda: bool(house.notes.of("webhook_posted")))
        assert receiver.keys == ["r1"] * 3
        assert house.notes.of("webhook_posted")[0]["attempt"] == 3
        assert len(house.notes.of("webhook_failed")) == 2


async def test_a_receiver_that_is_not_there_yet() -> None:
    port = free_port()
    async with living(hooks=[hook(port)], tries=PATIENT) as house:
        await ready(house)
        await happen(house, "r1", "r2")
        await until(lambda: len(house.notes.of("webhook_failed")) > 2)
        assert house.notes.of("webhook_failed")[0]["why"] == "ConnectError"
        async with receiving(port=port) as receiver:
            await until(lambda: len(receiver.posted) == 2)
        assert receiver.keys == ["r1", "r2"]


async def test_a_receiver_that_never_answers() -> None:
    async def silent(peer: Peer) -> None:
        await peer.gone()

    async with fake_upstream(silent) as receiver:
        hooks = [hook(receiver.port)]
        async with living(hooks=hooks, tries=Tries(QUICK.delays, 0.05)) as house:
            await ready(house)
            await happen(house, "r1")
            await until(lambda: receiver.accepted == 3)
            assert house.notes.of("webhook_failed")[0]["why"] == "no answer in time"


async def test_a_long_answer_is_not_read_to_its_end() -> None:
    endless = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 200_000
    async with posting(lambda posted: endless) as (house, _receiver):
        await happen(house, "r1")
        await until(lambda: bool(house.notes.of("webhook_posted")))


async def test_a_redirect_is_not_followed() -> None:
    async with receiving() as elsewhere:
        moved = answer("307 Moved", f"location: http://127.0.0.1:{elsewhere.port}/")
        async with posting(lambda posted: moved) as (house, receiver):
            await happen(house, "r1")
            await until(lambda: len(receiver.posted) == 2)
            assert house.notes.of("webhook_failed")[0]["why"] == "answered 307"
            assert elsewhere.accepted == 0


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with posting() as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(receiver.posted) == 1)


async def test_order_is_kept_in_a_session_and_sessions_do_not_wait_for_each_other() -> None:
    stubborn = True

    def judge(posted: Posted) -> bytes:
        return FAILED if posted.key == "a1" and stubborn else TAKEN

    async with posting(judge, tries=PATIENT) as (house, receiver):
        await happen(house, "a1", "a2", session="a")
        await happen(house, "b1", "b2", session="b")
        await until(lambda: receiver.keys.count("a1") > 3 and "b2" in receiver.keys)
        assert [one for one in receiver.keys if one != "a1"] == ["b1", "b2"]
        stubborn = False
        await until(lambda: receiver.keys[-1] == "a2")


async def test_many_events_come_in_their_order() -> None:
    names = [f"{session}-{number}" for number in range(150) for session in "abc"]
    async with posting() as (house, receiver):
        for name in names:
            await happen(house, name, session=name[0])
        await until(lambda: len(receiver.posted) == len(names), 15)
        for session in "abc":
            hers = [name for name in receiver.keys if name[0] == session]
            assert hers == [f"{session}-{number}" for number in range(150)]


async def test_one_that_is_never_taken_is_given_up_and_the_next_goes_on() -> None:
    def judge(posted: Posted) -> bytes:
        return FAILED if posted.key == "bad" else TAKEN

    async with posting(judge, tries=Tries((0.001,) * 11)) as (house, receiver):
        await happen(house, "bad", "good")
        await until(lambda: bool(house.notes.of("webhook_posted")))
        assert receiver.keys == ["bad"] * 12 + ["good"]
        (line,) = house.notes.of("webhook_given_up")
        assert (line["attempt"], line["id"], line["why"]) == (12, 1, "answered 500")


async def test_after_a_day_it_is_given_up() -> None:
    async with posting(lambda posted: FAILED) as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(receiver.posted) == 2)
        house.clock.advance(24 * 60 * MINUTE + 1)
        await until(lambda: bool(house.notes.of("webhook_given_up")))


async def test_a_new_hook_is_not_told_of_the_past() -> None:
    rows = Ledger()
    async with living(rows) as before:
        await happen(before, "old")
    async with posting(rows=rows) as (house, receiver):
        await happen(house, "new")
        await until(lambda: len(receiver.posted) == 1)
        assert receiver.keys[0] == "new"


async def test_a_new_hook_is_told_of_all_that_happens_once_the_gateway_is_open() -> None:
    rows = Ledger()
    async with receiving() as receiver:
        async with living(rows) as before:
            await happen(before, "old")
        house = build(rows, hooks=[hook(receiver.port)], tries=QUICK)
        await house.webhooks.load()
        # Before its courier has looked at all.
        await happen(house, "new")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.run)
            await until(lambda: len(receiver.posted) == 1)
            tasks.cancel_scope.cancel()
        assert receiver.keys == ["new"]


@asynccontextmanager
async def rows_on_disk(directory: Path) -> AsyncIterator[LoneRows]:
    documents = await open_documents("", directory, [SHAPE])
    rows = await open_rows("", directory, documents)
    try:
        yield cast("LoneRows", rows.deliveries)
    finally:
        await rows.aclose()
        await documents.aclose()


async def test_a_new_process_goes_on_where_the_old_one_was(tmp_path: Path) -> None:
    broken = False

    def judge(posted: Posted) -> bytes:
        return FAILED if broken else TAKEN

    async with receiving(judge) as receiver:
        options = {"hooks": [hook(receiver.port)], "tries": QUICK}
        async with rows_on_disk(tmp_path) as rows, living(rows, **options) as house:
            await ready(house)
            await happen(house, "r1")
            await behind(house, hook(receiver.port), 1)
            broken = True
            await happen(house, "r2")
            await until(lambda: len(receiver.posted) > 1)
        async with rows_on_disk(tmp_path) as rows, living(rows) as unhooked:
            await happen(unhooked, "r3")
        broken = False
        receiver.posted.clear()
        async with rows_on_disk(tmp_path) as rows, living(rows, **options):
            await until(lambda: len(receiver.posted) == 2)
        assert receiver.keys == ["r2", "r3"]


class Forgetful(Ledger):
    """Rows of a process that dies before it has noted what was taken."""

    async def move(self, name: str, seq: int) -> None:
        if name not in self.positions:
            await super().move(name, seq)


async def test_what_is_not_known_to_be_taken_is_posted_again() -> None:
    rows = Forgetful()
    async with receiving() as receiver:
        for _ in range(2):
            async with living(rows, hooks=[hook(receiver.port)], tries=QUICK) as house:
                await ready(house)
                await happen(house, "r1")
                await until(lambda: bool(house.notes.of("webhook_posted")))
    assert receiver.keys == ["r1", "r1"]


async def test_after_trouble_with_the_store_it_goes_on() -> None:
    rows = Ledger()
    async with receiving() as receiver:
        rows.fails_to_move = True
        hooks = [hook(receiver.port)]
        async with living(rows, hooks=hooks, tries=QUICK) as house:
            await until(lambda: len(house.notes.of("webhook_store_down")) > 1)
            rows.fails_to_move = False
            await ready(house)
            await happen(house, "r1")
            await until(lambda: len(receiver.posted) == 1)


async def test_neither_secret_nor_address_is_shown() -> None:
    async with posting(lambda posted: FAILED) as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(receiver.posted) == 2)
        shown = repr(hook(1)) + str(house.notes.lines)
        assert "secret" not in repr(hook(1))
        assert "hidden-path" not in str(house.notes.lines)
        assert "127.0.0.1" in shown


async def test_a_hook_that_is_added_later_gets_what_happens_from_then_on() -> None:
    async with receiving() as receiver, living(tries=QUICK) as house:
        await happen(house, "before")
        await house.webhooks.replace([hook(receiver.port)])
        await happen(house, "after")
        await until(lambda: len(receiver.posted) == 1)
        assert receiver.keys == ["after"]


async def test_a_hook_that_is_removed_gets_nothing_more() -> None:
    async with receiving() as other, posting() as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(receiver.posted) == 1)
        await house.webhooks.replace([hook(other.port)])
        await happen(house, "r2")
        await until(lambda: len(other.posted) == 1)
        assert receiver.keys == ["r1"]
        assert other.keys == ["r2"]


async def test_a_hook_that_stays_goes_on_while_others_come_and_go() -> None:
    """What is being posted to it meanwhile is neither cut nor posted twice."""
    go_on = anyio.Event()

    async def take_slowly(peer: Peer) -> None:
        while True:
            await peer.request()
            await go_on.wait()
            await peer.send(TAKEN)

    async with receiving() as other, fake_upstream(take_slowly) as slow:
        stays = hook(slow.port)
        async with living(hooks=[stays], tries=QUICK) as house:
            await ready(house)
            await happen(house, "r1")
            await until(lambda: len(slow.requests) == 1)
            await house.webhooks.replace([stays, hook(other.port)])
            await happen(house, "r2")
            await until(lambda: other.keys == ["r2"])
            await house.webhooks.replace([stays])
            go_on.set()
            await until(lambda: len(slow.requests) == 2)
            await behind(house, stays, 2)
            assert [Posted("", {}, asked.body).key for asked in slow.requests] == ["r1", "r2"]


async def test_a_new_secret_signs_what_is_posted_from_then_on() -> None:
    async with posting() as (house, receiver):
        await happen(house, "r1")
        await until(lambda: len(house.notes.of("webhook_posted")) == 1)
        changed = replace(hook(receiver.port), secret=b"another")
        await house.webhooks.replace([changed])
        await happen(house, "r2")
        await until(lambda: len(receiver.posted) > 1)
        last = receiver.posted[-1]
        timestamp = last.headers["x-holdgate-timestamp"]
        mac = hmac.new(b"another", f"{timestamp}.".encode() + last.body, hashlib.sha256)
        assert last.headers["x-holdgate-signature"] == f"sha256={mac.hexdigest()}"
