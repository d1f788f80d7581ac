"""Instances: beats, burial, whether one trusts itself, and the time."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from gateway.stores.postgres.instances import read_boot_ms
from tests.run import until

from .conftest import Notes
from .listeners import LEASE_MS, schema
from .proxy import cut_proxy
from .server import shared_server


class BootClock:
    """The clock of leases, which a test can let run ahead: the process was stopped so long."""

    def __init__(self) -> None:
        self.ahead_ms = 0.0

    def __call__(self) -> float:
        return read_boot_ms() + self.ahead_ms


async def test_an_instance_beats_as_long_as_it_runs(notes: Notes) -> None:
    async with schema(notes) as here:
        async with here.join(lease_ms=900) as node:
            first = await here.database.ask("SELECT until FROM @instances")
            assert await here.list_living() == [node.instance.id]
            later = first
            # Nothing tells of a beat but the row itself.
            with anyio.fail_after(30):
                while later[0]["until"] == first[0]["until"]:
                    await anyio.sleep(0.02)
                    later = await here.database.ask("SELECT until FROM @instances")
            assert later[0]["until"] > first[0]["until"]
            assert node.instance.is_trusted
        # Whoever leaves in order needs no lease to run out.
        assert len(await here.bury()) == 1


async def test_who_is_buried_goes_on_under_a_new_id(notes: Notes) -> None:
    async with schema(notes) as here, here.join(lease_ms=900) as node:
        former, told = node.instance.id, list[None]()
        node.instance.on_distrust(lambda: told.append(None))
        await here.lapse(node.instance)
        assert await here.bury() in ([former], [])
        while node.instance.id == former:
            # It may have beaten in between.
            await here.lapse(node.instance)
            await here.bury()
            await anyio.sleep(0.02)
        assert told
        await until(lambda: node.instance.is_trusted)
        assert node.instance.id != former
        assert node.instance.may_be_buried(former)
        assert not node.instance.may_be_buried(node.instance.id)


async def test_who_lapsed_and_is_not_buried_goes_on(notes: Notes) -> None:
    async with schema(notes) as here, here.join(lease_ms=900) as node:
        former = node.instance.id
        await here.lapse(node.instance)
        while not await here.list_lasting():  # noqa: ASYNC110 - a fact in the database
            await anyio.sleep(0.02)
        assert node.instance.id == former
        assert await here.bury() == []


async def test_only_who_has_beaten_for_a_lease_may_bury(notes: Notes) -> None:
    clock = BootClock()
    async with schema(notes) as here, here.join(lease_ms=900, boot_ms=clock) as node:
        assert not node.instance.may_bury
        await until(lambda: node.instance.may_bury, 20)
        # After a gap, it begins anew: the others may have had the same gap.
        clock.ahead_ms += 5000
        assert not node.instance.may_bury
        await until(lambda: node.instance.is_trusted)
        assert not node.instance.may_bury
        await until(lambda: node.instance.may_bury, 20)


async def test_a_stopped_process_does_not_trust_itself(notes: Notes) -> None:
    clock, told = BootClock(), list[bool]()
    async with schema(notes) as here, here.join(boot_ms=clock) as node:
        node.instance.on_distrust(lambda: told.append(node.instance.is_trusted))
        assert node.instance.is_trusted
        clock.ahead_ms += LEASE_MS - 1000
        assert not node.instance.is_trusted
        await until(lambda: bool(told), 20)
        # It says so once, and with the next beat it trusts itself again.
        await until(lambda: node.instance.is_trusted, 20)
        assert told == [False]


async def test_all_instances_have_the_time_of_the_database(notes: Notes) -> None:
    ahead = BootClock()
    ahead.ahead_ms = 3_600_000
    async with schema(notes) as here, AsyncExitStack() as stack:
        one = await stack.enter_async_context(here.join())
        other = await stack.enter_async_context(here.join(boot_ms=ahead))
        (row,) = await here.database.ask(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now_ms"
        )
        assert abs(one.instance.now_ms() - row["now_ms"]) < 1000
        assert abs(other.instance.now_ms() - one.instance.now_ms()) < 1000
        assert abs(one.instance.skew_ms) < 1000


async def test_instances_bury_each_lapsed_one_once(notes: Notes) -> None:
    async with schema(notes) as here:
        async with here.join(lease_ms=60_000) as node:
            await here.lapse(node.instance)
            buried: list[str] = []

            async def bury() -> None:
                buried.extend(await here.bury())

            async with anyio.create_task_group() as tasks:
                for _ in range(8):
                    tasks.start_soon(bury)
            assert buried == [node.instance.id]


async def test_a_cut_listener_is_a_missed_beat_and_everything_counts_as_changed(
    notes: Notes,
) -> None:
    async with (
        schema(notes) as here,
        cut_proxy(shared_server()) as proxy,
        here.join(proxy.url, lease_ms=900) as node,
    ):
        mark = node.hints.mark()
        proxy.is_closed = True
        proxy.reset()
        await until(lambda: not node.instance.is_trusted, 20)
        # Nobody tells it what changes now.
        assert node.hints.has_changed("c", ("ann", "s"), node.hints.mark())
        proxy.is_closed = False
        await until(lambda: node.instance.is_trusted, 20)
        # Nor was it told what had changed meanwhile.
        assert node.hints.has_changed("c", ("ann", "s"), mark)
        await until(lambda: not node.hints.has_changed("c", ("ann", "s"), node.hints.mark()))
        assert "listener_lost" in notes.events


async def test_a_frozen_listener_is_given_up(notes: Notes) -> None:
    async with (
        schema(notes) as here,
        cut_proxy(shared_server()) as proxy,
        here.join(proxy.url, lease_ms=900) as node,
    ):
        mark = node.hints.mark()
        proxy.freeze()
        await until(lambda: not node.instance.is_trusted, 20)
        await until(lambda: "listener_lost" in notes.events, 20)
        proxy.thaw()
        await until(lambda: node.instance.is_trusted, 20)
        assert node.hints.has_changed("c", ("ann", "s"), mark)
