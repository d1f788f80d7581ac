import asyncio, anyio, pytest, sys
from random import Random
from tests.gateway.harness import *
from tests.gateway.test_gate_leaving import *
@pytest.mark.parametrize("transport", ["fast","httpx","fast","httpx"])
async def test_x(transport):
    visits=3000
    random = Random(visits)
    upstream = {"transport": transport, "max_connections": 20}
    async with running(dawdling(random), upstream=upstream, patience=240) as gate:
        async def visitor():
            for _ in range(visits // 30):
                await visit(gate, random)
        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(visitor)
        try: await gate.quiet()
        except TimeoutError:
            print("STUCK", transport, gate.live, gate.busy, [repr(d) for d in gate.gateway.driver.live], gate.fakes[0].open)
            for d in gate.gateway.driver.live:
                print(d._gone, d._cut, d._scope.cancel_called, d._turn, d._client.started, d._client.ended, d._client.blocked_since)
            for t in asyncio.all_tasks():
                if "run_asgi" in repr(t): t.print_stack(file=sys.stdout); print(t)
                if "gone" in repr(t): print(t)
