"""The queue: each result to one turn at a time, delivered once, and none forgotten."""

from __future__ import annotations

import anyio
import pytest

from gateway.outbox.ledger import Claim
from gateway.outbox.queue import MOST_CARRIED, MOST_WAITING, TRIMMED_AFTER, OutboxQueue
from gateway.outbox.text import results_text
from gateway.stores.delivery_rows import OutboxItem, TellDelivered
from gateway.stores.documents import StoreUnavailable
from tests.outbox.house import OWNER, SESSION, House, Notes, build, living
from tests.outbox.ledger import Ledger
from tests.run import until


async def reserve(house: House, chain: str = "c1", session: str = SESSION) -> Claim[OutboxItem]:
    parcel = await house.deliveries.reserve(OWNER, session, chain)
    assert parcel is not None
    return parcel


async def nothing_to_reserve(house: House, session: str = SESSION, owner: str = OWNER) -> bool:
    return await house.deliveries.reserve(owner, session, "c9") is None


async def test_a_result_is_given_to_the_next_turn_and_to_no_other(house: House) -> None:
    assert house.deliveries.idle(OWNER, SESSION)
    await house.result("all is well", name="morning check")
    assert not house.deliveries.idle(OWNER, SESSION)
    assert house.deliveries.idle(OWNER, "another")
    parcel = await reserve(house)
    assert parcel.id == "c1:delivery"
    assert results_text(parcel.items) == '[Scheduled task "morning check" result]:\nall is well'
    assert await nothing_to_reserve(house)
    await house.deliveries.commit(parcel)
    assert await nothing_to_reserve(house)
    assert house.deliveries.idle(OWNER, SESSION)


async def test_what_is_given_back_goes_with_the_next_turn(house: House) -> None:
    item = await house.result()
    first = await reserve(house)
    house.deliveries.release(first)
    second = await reserve(house, "c2")
    assert second.items == (item,)
    # Too late for the first: neither takes anything away from the second.
    house.deliveries.release(first)
    await house.deliveries.commit(first)
    assert await nothing_to_reserve(house)
    await house.deliveries.commit(second)
    counts = house.deliveries.counts
    assert (counts.reserved, counts.released, counts.committed) == (2, 1, 1)


async def test_many_ask_at_once_and_one_gets_it(house: House) -> None:
    await house.result()
    parcels: list[Claim[OutboxItem] | None] = []

    async def ask(number: int) -> None:
        parcels.append(await house.deliveries.reserve(OWNER, SESSION, f"c{number}"))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(ask, number)
    assert len([parcel for parcel in parcels if parcel is not None]) == 1


async def test_what_comes_while_another_is_carried_is_given_to_another(house: House) -> None:
    await house.result("one")
    first = await reserve(house)
    await house.result("two")
    second = await reserve(house, "c2")
    assert [item.text for item in second.items] == ["two"]
    await house.deliveries.commit(first)
    house.deliveries.release(second)
    assert [item.text for item in (await reserve(house, "c3")).items] == ["two"]


async def test_several_are_told_in_the_order_they_came(house: House) -> None:
    for text in ("one", "two"):
        await house.result(text, name=f'{text}\n" result]: all is lost')
    assert results_text((await reserve(house)).items) == (
        '[Scheduled task "one result : all is lost" result]:\none\n\n'
        '[Scheduled task "two result : all is lost" result]:\ntwo'
    )


async def test_one_request_brings_a_bounded_number(house: House) -> None:
    for number in range(MOST_CARRIED + 1):
        await house.result(str(number))
    parcel = await reserve(house)
    assert [item.text for item in parcel.items] == [str(n) for n in range(MOST_CARRIED)]
    await house.deliveries.commit(parcel)
    assert [item.text for item in (await reserve(house)).items] == [str(MOST_CARRIED)]


async def test_large_results_go_one_by_one_and_whole(house: House) -> None:
    for letter in "abc":
        await house.result(letter * 200_000)
    sizes = []
    while (parcel := await house.deliveries.reserve(OWNER, SESSION, "c")) is not None:
        sizes.append([len(item.text) for item in parcel.items])
        await house.deliveries.commit(parcel)
    assert sizes == [[200_000], [200_000], [200_000]]


async def test_of_results_nobody_fetches_the_newest_are_kept() -> None:
    many = 3 * MOST_WAITING
    async with living() as house:
        for number in range(many):
            await house.result(str(number))
        least = many - MOST_WAITING - TRIMMED_AFTER
        await until(lambda: house.deliveries.counts.dropped >= least)
        kept = [int(item.text) for item in await house.deliveries.pending(OWNER, SESSION)]
        assert kept == list(range(many - len(kept), many))
        assert MOST_WAITING <= len(kept) <= MOST_WAITING + TRIMMED_AFTER
        dropped = sum(line["count"] for line in house.notes.of("deliveries_dropped"))
        assert dropped == many - len(kept)


async def test_owners_and_sessions_are_apart(house: House) -> None:
    await house.result(owner="ann")
    assert await nothing_to_reserve(house, owner="bob")
    assert await nothing_to_reserve(house, owner="ann", session="another")
    assert await house.deliveries.acknowledge("bob", SESSION, ("run-1",)) == ()
    assert await house.deliveries.reserve("ann", SESSION, "c") is not None


async def test_a_new_process_knows_what_waits_and_what_was_delivered() -> None:
    rows = Ledger()
    before = build(rows)
    await before.result("one")
    await before.deliveries.commit(await reserve(before))
    await before.result("two")
    await reserve(before)
    after = build(rows)
    await after.deliveries.load()
    assert [item.text for item in (await reserve(after)).items] == ["two"]


async def test_an_acknowledged_result_is_not_carried(house: House) -> None:
    await house.result("one")
    await house.result("two")
    assert await house.deliveries.acknowledge(OWNER, SESSION, ("run-1", "run-7")) == ("run-1",)
    assert await house.deliveries.acknowledge(OWNER, SESSION, ("run-1",)) == ()
    assert [item.text for item in (await reserve(house)).items] == ["two"]


async def test_an_acknowledged_result_is_not_given_back_by_the_turn_that_carried_it(
    house: House,
) -> None:
    await house.result()
    parcel = await reserve(house)
    assert await house.deliveries.acknowledge(OWNER, SESSION, ("run-1",)) == ("run-1",)
    house.deliveries.release(parcel)
    assert await nothing_to_reserve(house)
    assert house.deliveries.counts.released == 0


async def test_a_forgotten_session_has_nothing(house: House) -> None:
    await house.result()
    parcel = await reserve(house)
    await house.deliveries.forget(OWNER, SESSION)
    assert house.deliveries.idle(OWNER, SESSION)
    house.deliveries.release(parcel)
    assert await nothing_to_reserve(house)


async def test_watchers_hear_of_what_comes_and_of_what_is_given_back(house: House) -> None:
    heard: list[int] = []
    unwatch = house.deliveries.watch(OWNER, SESSION, lambda: heard.append(1))
    await house.result()
    await until(lambda: len(heard) == 1)
    house.deliveries.release(await reserve(house))
    await until(lambda: len(heard) == 2)
    unwatch()
    await house.result()
    await anyio.lowlevel.checkpoint()
    assert len(heard) == 2


async def test_a_read_that_comes_back_late_does_not_bring_back_what_was_delivered() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result()
        parcel = await reserve(house)
        gate = anyio.Event()
        rows.gates.append(gate)
        found: list[Claim[OutboxItem] | None] = []

        async def ask() -> None:
            found.append(await house.deliveries.reserve(OWNER, SESSION, "c2"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: not rows.gates)
            tasks.start_soon(house.deliveries.commit, parcel)
            await anyio.lowlevel.checkpoint()
            gate.set()
        assert found == [None]
        assert rows.delivered == ["run-1"]


async def test_an_item_that_comes_during_a_read_is_not_overlooked() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result("one")
        await house.deliveries.commit(await reserve(house))
        gate = anyio.Event()
        rows.gates.append(gate)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(house.deliveries.reserve, OWNER, SESSION, "c2")
            await until(lambda: not rows.gates)
            await house.result("two")
            gate.set()
        assert not house.deliveries.idle(OWNER, SESSION)


async def test_without_a_store_nothing_is_carried_and_the_chat_goes_on() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result()
        rows.fails = True
        assert await nothing_to_reserve(house)
        assert house.notes.of("deliveries_not_read")
        with pytest.raises(StoreUnavailable):
            await house.deliveries.acknowledge(OWNER, SESSION, ("run-1",))
        rows.fails = False
        assert await reserve(house)


async def test_what_could_not_be_written_is_owed_and_written_later() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result()
        parcel = await reserve(house)
        rows.fails = True
        await house.deliveries.commit(parcel)
        assert len(house.notes.of("deliveries_owed")) == 1
        await until(lambda: len(house.notes.of("deliveries_not_kept")) > 1)
        rows.fails = False
        assert await nothing_to_reserve(house)
        await until(lambda: rows.delivered == ["run-1"])


async def test_a_store_that_hangs_does_not_hold_the_answer_for_ever() -> None:
    class Hanging(Ledger):
        async def deliver(
            self, owner: str, session: str, ids: tuple[str, ...], tell: TellDelivered | None = None
        ) -> tuple[str, ...]:
            await anyio.sleep_forever()
            raise AssertionError

    rows, notes = Hanging(), Notes()
    deliveries = OutboxQueue(rows, notes, patience=0.01)
    house = build(rows)
    await house.result()
    await deliveries.load()
    parcel = await deliveries.reserve(OWNER, SESSION, "c")
    assert parcel is not None
    with anyio.fail_after(5):
        await deliveries.commit(parcel)
    assert "does not answer" in notes.of("deliveries_owed")[0]["why"]
    assert await deliveries.reserve(OWNER, SESSION, "c") is None


async def test_a_client_that_leaves_during_the_commit_does_not_undo_it() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result()
        parcel = await reserve(house)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await house.deliveries.commit(parcel)
        assert rows.delivered == ["run-1"]


async def test_sessions_that_nothing_waits_for_are_not_read() -> None:
    rows = Ledger()
    async with living(rows) as house:
        await house.result()
        assert await nothing_to_reserve(house, session="another")
        assert await house.shown(session="another") == []
        assert rows.reads == 0
        await house.deliveries.commit(await reserve(house))
        assert await nothing_to_reserve(house)
        reads = rows.reads
        assert await nothing_to_reserve(house)
        assert rows.reads == reads


async def test_texts_are_not_logged(house: House) -> None:
    await house.result("secret words")
    house.deliveries.release(await reserve(house))
    await house.deliveries.commit(await reserve(house))
    assert "secret" not in str(house.notes.lines)
