"""How many round trips to PostgreSQL a run of a job takes, counted by a proxy."""

from __future__ import annotations

from gateway.stores.delivery_rows import OutboxItem, SessionEvent
from gateway.stores.documents import LATEST
from tests.stores.row_backends import due, ended, idle, job, same, tells

from .rows import PostgresRowBackend
from .server import shared_server
from .wire_count import counting

JOBS = 20


async def test_a_run_takes_as_many_as_its_statements() -> None:
    async with counting(shared_server()) as trips:
        backend = PostgresRowBackend(url=trips.url)
        # One connection, on which each statement is prepared once.
        async with backend.opened(connections=1) as rows:
            for number in range(JOBS):
                await rows.jobs.add(job(str(number)), same, 99)
            for _ in range(3):
                trips.take()
                claims = await rows.jobs.claim(LATEST, "", 0, due, JOBS)
                assert len(claims) == JOBS
                claimed = trips.take()
                finished: list[str] = []
                for claim in claims:
                    [run] = claim.runs
                    item = OutboxItem(run.run_id, "ann", "s", 1, "Done.")
                    event = SessionEvent("ann", "s", "run.finished", run.run_id, 1, b"{}")
                    trips.take()
                    await rows.jobs.finish(ended(run), idle, 9, tells(item, events=(event,)))
                    finished = trips.take()
        # BEGIN and COMMIT are among them.
        assert len(claimed) == 5, claimed
        assert len(finished) == 6, finished
