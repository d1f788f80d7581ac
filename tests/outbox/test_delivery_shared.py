"""Several instances on one store: a turn reserves items in the store before it carries them."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from gateway.outbox.ledger import Claim
from gateway.outbox.queue import read_token, write_token
from gateway.sessions.identity import UNKNOWN, Requester
from gateway.stores.delivery_rows import ItemReservation, OutboxItem
from tests.run import until

from .house import OWNER, SESSION, House, build, living
from .ledger import Ledger

TALK = Requester(tools=True, system="main")
SIDE_CALL = Requester(tools=False, system="other")


async def reserve(house: House, requester: Requester = UNKNOWN) -> Claim[OutboxItem] | None:
    house.deliveries.look_again(OWNER, SESSION)
    return await house.deliveries.reserve(OWNER, SESSION, "c", requester)


@pytest.mark.parametrize("requester", [UNKNOWN, TALK, SIDE_CALL, Requester(True, "a:b")])
def test_a_token_says_who_reserved(requester: Requester) -> None:
    assert read_token(write_token(requester)) == requester
    assert write_token(requester) != write_token(requester)


async def test_what_one_instance_carries_no_other_does() -> None:
    rows = Ledger(is_shared=True)
    async with living(rows) as here, living(rows) as there:
        await here.result("one")
        claim = await reserve(here)
        assert claim is not None
        assert rows.reserved == {"run-1": claim.token}
        assert await reserve(there) is None
        await here.result("two")
        found = await reserve(there)
        assert found is not None
        assert [item.text for item in found.items] == ["two"]
        await here.deliveries.commit(claim)
        assert await reserve(here) is None
        assert rows.delivered == ["run-1"]


async def test_what_is_released_goes_with_a_turn_elsewhere() -> None:
    rows = Ledger(is_shared=True)
    async with living(rows) as here, living(rows) as there:
        await here.result("one")
        claim = await reserve(here)
        assert claim is not None
        here.deliveries.release(claim)
        await until(lambda: not rows.reserved)
        assert await reserve(there) is not None


async def test_many_instances_ask_at_once_and_one_gets_it() -> None:
    rows = Ledger(is_shared=True)
    found: list[Claim[OutboxItem]] = []

    async def ask(house: House) -> None:
        if claim := await reserve(house):
            found.append(claim)

    async with AsyncExitStack() as stack:
        houses = [await stack.enter_async_context(living(rows)) for _ in range(4)]
        await houses[0].result("one")
        async with anyio.create_task_group() as tasks:
            for house in houses * 5:
                tasks.start_soon(ask, house)
    assert len(found) == 1


async def test_a_conversation_takes_over_what_a_side_call_holds_elsewhere() -> None:
    rows = Ledger(is_shared=True)
    async with living(rows) as here, living(rows) as there:
        await here.result("one")
        assert await reserve(here, SIDE_CALL) is not None
        assert await reserve(there, SIDE_CALL) is None
        claim = await reserve(there, TALK)
        assert claim is not None
        assert rows.reserved == {"run-1": claim.token}
        assert await reserve(here, TALK) is None


async def test_a_reservation_that_nobody_heard_of_is_released() -> None:
    class Late(Ledger):
        async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
            await super().reserve(wanted)
            await anyio.sleep_forever()
            raise AssertionError

    rows = Late(is_shared=True)
    async with living(rows) as here:
        await here.result("one")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reserve, here)
            await until(lambda: bool(rows.reserved))
            tasks.cancel_scope.cancel()
        await until(lambda: not rows.reserved)


async def test_a_store_that_is_down_while_items_are_reserved() -> None:
    class Down(Ledger):
        async def reserve(self, wanted: ItemReservation) -> tuple[str, ...]:
            self.fails = True
            return await super().reserve(wanted)

    rows = Down(is_shared=True)
    house = build(rows)
    await house.result("one")
    assert await reserve(house) is None
    assert house.notes.of("deliveries_not_read")
