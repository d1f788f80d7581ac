"""Jobs: made and changed, run when it is time, and what their runs come to."""

from gateway.scheduler.agenda import Agenda
from gateway.scheduler.agent_runs import AgentRuns
from gateway.scheduler.jobs import Jobs
from gateway.scheduler.loop import Scheduler
from gateway.scheduler.relay_runs import RelayRuns
from gateway.scheduler.snapshots import Snapshots
from gateway.scheduler.timer import Queued
from gateway.scheduler.tool import ScheduleTask
from gateway.scheduler.values import Parts, RunSettings, Taken

__all__ = [
    "Agenda",
    "AgentRuns",
    "Jobs",
    "Parts",
    "Queued",
    "RelayRuns",
    "RunSettings",
    "ScheduleTask",
    "Scheduler",
    "Snapshots",
    "Taken",
]
