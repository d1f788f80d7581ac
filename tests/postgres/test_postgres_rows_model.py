"""Any course of events on the rows of a PostgreSQL, against plain lists that do the same."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.stores.row_backends import cut, idle
from tests.stores.test_rows_model import AgainstLists

from .rows import OpenedRows


class SharedAgainstLists(AgainstLists):
    """Runs have no leases; an instance is buried, and another one goes on."""

    backend_name = "postgres"
    has_leases = False

    @rule()
    def bury(self) -> None:
        assert isinstance(self.rows, OpenedRows)
        self.run(self.rows.bury())
        self.close_and_open()
        ended = self.run(self.rows.jobs.end_lapsed(0, cut))
        over = [replace(run, status="interrupted") for run in self.runs if run.status == "running"]
        assert sorted(ended, key=lambda run: run.run_id) == sorted(over, key=lambda run: run.run_id)
        for run in over:
            at = next(at for at, one in enumerate(self.runs) if one.run_id == run.run_id)
            self.runs[at] = run
            self.jobs[run.job_id] = idle(self.jobs[run.job_id])


def test_any_course_of_events_on_postgresql() -> None:
    run_state_machine_as_test(
        SharedAgainstLists,
        settings=settings(
            max_examples=6,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
