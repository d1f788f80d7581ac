"""The gateway's part in a talk with the demo model: time tags, reminders, and tools that work.

It speaks with the words of the gateway itself, so that the model is known to understand them.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

from msgspec.structs import replace

from gateway.clock.protocol import NtpState
from gateway.errors import InvalidInput
from gateway.jobs import tool_calls as schedule_task
from gateway.jobs.lifecycle import make_job
from gateway.jobs.model import Job, JobRules
from gateway.jobs.reader import read_draft
from gateway.outbox.text import results_text
from gateway.reminders import clock_calls as clock
from gateway.reminders.model import Reminder
from gateway.reminders.text import reminder_text, time_tag
from gateway.stores.delivery_rows import OutboxItem

from .peer import Answer, asking, connected, request

NOON = 1_770_067_358_229  # 2026-02-02T21:22:38.229Z
ZONE, ZONE_NAME = timezone(timedelta(hours=-8)), "America/Los_Angeles"
RULES = JobRules(timezone=ZONE_NAME)
BOTH = ("clock", "schedule_task")


class Clockwork:
    """One session: its conversation, its reminders, its jobs, and its time."""

    def __init__(
        self,
        url: str,
        *,
        holds: bool = True,
        session: bool = True,
        tells_time: bool = True,
        tools: tuple[str, ...] = ("clock",),
    ) -> None:
        self.url = url
        self.now = NOON
        self.tasks: dict[str, Reminder] = {}
        self.jobs: dict[str, Job] = {}
        self.outcomes: list[OutboxItem] = []
        self.calls: list[dict[str, Any]] = []
        self.answers: list[Answer] = []
        self._holds = holds
        self._session = session
        self._tells_time = tells_time
        self._tools = [{"type": "function", "function": {"name": name}} for name in tools]
        self._messages: list[dict[str, Any]] = []

    async def ask(self, prompt: str, *, stream: bool = False) -> str:
        """Say something, with what is due; run the clock until the model has answered."""
        self._user(prompt)
        return await self._turns(stream)

    async def wake(self, seconds: int, *, stream: bool = False) -> str:
        """Let time pass, and go on with the answer that was held."""
        self.now += seconds * 1000
        return await self._turns(stream)

    def let_pass(self, seconds: int) -> None:
        """Let time pass, with nobody connected."""
        self.now += seconds * 1000

    async def _turns(self, stream: bool) -> str:
        self._add_outcomes()
        self._add_reminders()
        if self._tells_time:
            self._user(time_tag(self.now, ZONE, ZONE_NAME, -12))
        said = ""
        while True:
            message = await self._turn(stream)
            self._messages.append(message)
            said += message["content"] or ""
            if not message.get("tool_calls"):
                return said
            for call in message["tool_calls"]:
                self._run(call)

    async def _turn(self, stream: bool) -> dict[str, Any]:
        body = asking("", stream=stream, messages=self._messages, tools=self._tools)
        async with connected(self.url) as peer:
            await peer.send(request(body))
            answer = await peer.answer()
        assert answer.status == 200, answer.body
        self.answers.append(answer)
        if stream:
            return streamed(answer)
        message: dict[str, Any] = answer.json["choices"][0]["message"]
        return message

    def _user(self, text: str) -> None:
        self._messages.append({"role": "user", "content": text})

    def _add_outcomes(self) -> None:
        if self.outcomes:
            self._user(results_text(tuple(self.outcomes)))
        self.outcomes.clear()

    def _add_reminders(self) -> None:
        due = [t for t in self.tasks.values() if t.due_ms <= self.now and t.delivered_ms is None]
        for task in due:
            self.tasks[task.id] = replace(task, delivered_ms=self.now, deliveries=1)
        if due:
            self._user(reminder_text(tuple(due), False))

    def _run(self, call: dict[str, Any]) -> None:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        self.calls.append(json.loads(arguments))
        if name == "clock":
            text = self._result(clock.read_call(arguments))
        else:
            text = self._planned(schedule_task.read_call(arguments))
        self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    def _result(self, call: clock.Call) -> str:
        if not self._session and not isinstance(call, clock.Get):
            return clock.render_error(call.action, clock.NEEDS_SESSION.format(action=call.action))
        match call:
            case clock.Get():
                return clock.render_time(self.now, ZONE, ZONE_NAME, NtpState("disabled"))
            case clock.Schedule(items=items):
                made = tuple(self._task(item) for item in items)
                return clock.render_scheduled(made, lambda task: self._holds)
            case clock.List():
                return clock.render_list(self.tasks.values())
            case clock.Cancel(task_id=task_id):
                known = self.tasks.pop(task_id, None)
                return (
                    clock.render_removed(task_id)
                    if known
                    else clock.describe_unknown_reminder(task_id).render()
                )
            case clock.ClearAll():
                count = len(self.tasks)
                self.tasks.clear()
                return clock.render_cleared(count)

    def _planned(self, call: schedule_task.ScheduleTaskCall) -> str:
        if call.action == "list":
            return schedule_task.render_jobs(self.jobs.values())
        if call.action == "remove":
            return schedule_task.render_removal(self.jobs.pop(str(call.members["job_id"])).job_id)
        try:
            draft = read_draft(call.members, self.now, RULES)
        except InvalidInput as invalid:
            return clock.render_error(call.action, str(invalid))
        job_id = f"job_{len(self.calls)}"
        self.jobs[job_id] = make_job(draft, job_id, "local", "s", "", self.now, RULES)
        return schedule_task.render_job("add", self.jobs[job_id])

    def _task(self, item: clock.ReminderItem) -> Reminder:
        due = round(datetime.fromisoformat(item.due_at).timestamp() * 1000)
        task = Reminder(f"task-{len(self.tasks) + 1}", due, self.now, self.now, item.task)
        self.tasks[task.id] = task
        return task


def streamed(answer: Answer) -> dict[str, Any]:
    """Put the deltas of a stream together."""
    calls: list[dict[str, Any]] = []
    for event in answer.events:
        for piece in event["choices"][0]["delta"].get("tool_calls", ()):
            if "id" in piece:
                calls.append({"id": piece["id"], "function": dict(piece["function"])})
            else:
                calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    content = "".join(answer.tokens) or None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
