"""What the pictures of the console show: a gateway, and real requests of two people to the demo model."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import TaskGroup

from gateway.demo.server import DemoServer
from tests.run import as_process
from tests.wire.fake import answering, fake_upstream, head

KEYS = {"alice": "sk-pictures-alice", "bob": "sk-pictures-bob"}
PATIENCE = 60.0
"""How long anything may take to be so, in seconds."""
REFUSAL = b'{"error":{"message":"Slow down.","type":"rate_limit","code":"rate_limited"}}'
CONFIGURATION = """
[server]
keepalive_ms = 10000

[clock]
due_window_ms = 0
hold_max_ms = 1800000
hold_total_ms = 1800000

[clock.ntp]
enabled = false

[cron]
max_concurrent_runs = 8

[[upstreams]]
id = "demo"
base_url = "http://127.0.0.1:{demo}/v1"
models = ["demo"]

[[upstreams]]
id = "cloud"
base_url = "http://127.0.0.1:{cloud}/v1"
models = ["large"]

[[models]]
name = "default"
routes = ["cloud/large", "demo/demo"]

[[models]]
name = "demo"
routes = ["demo/demo"]

[[agents]]
id = "demo"
name = "Demo"
model = "demo"
tools = ["clock", "schedule_task"]

[[agents]]
id = "helper"
name = "Helper"
model = "default"
system = "You keep an eye on the servers."
tools = ["clock"]

[[keys]]
owner = "alice"
key = "{alice}"
admin = true

[[keys]]
owner = "bob"
key = "{bob}"
"""

BROKEN = 'demo: status=503 code=overloaded message="Overloaded."'
JOBS: tuple[dict[str, Any], ...] = (
    {
        "name": "Morning check",
        "message": "Check that the three servers answer, and tell me of any disk above 90 %.",
        "schedule": {"kind": "cron", "cron": "30 8 * * 1-5", "tz": "Asia/Shanghai"},
        "agent_id": "helper",
    },
    {
        "name": "Hourly news",
        "message": "tell me a word",
        "schedule_text": "hourly",
        "agent_id": "demo",
    },
    {
        "name": "Disk report",
        "message": "tell me a word",
        "schedule_text": "every 15 minutes",
        "session_id": "ops",
        "model": "demo",
    },
    {
        "name": "Summarise the week",
        "message": "summarise",
        "schedule": {"kind": "cron", "cron": "0 17 * * 5", "tz": "Europe/Berlin"},
        "agent_id": "helper",
    },
    {
        "name": "Open pull requests",
        "message": "summarise",
        "schedule": {"kind": "cron", "cron": "0 9,17 * * *", "tz": "Europe/Berlin"},
        "agent_id": "helper",
    },
    {
        "name": "Drink water",
        "message": "remind me to drink water",
        "schedule_text": "every 30 minutes",
        "session_id": "tea",
        "model": "demo",
    },
    {
        "name": "Sync calendar",
        "message": "tell me a word",
        "schedule": {"kind": "cron", "cron": "5 8-18/2 * * 1-5", "tz": "Europe/Berlin"},
        "agent_id": "demo",
        "session_id": "calendar",
    },
    {
        "name": "Nightly backup digest",
        "message": "tell me a joke",
        "schedule": {"kind": "cron", "cron": "30 2 * * *", "tz": "Europe/Berlin"},
        "agent_id": "helper",
        "session_id": "backups",
    },
    {
        "name": "A joke for the team",
        "message": "tell me a joke",
        "schedule": {"kind": "cron", "cron": "0 9 * * 1-5", "tz": "Europe/Berlin"},
        "session": "isolated",
        "session_id": "team",
        "model": "demo",
    },
)


@dataclass
class Traffic:
    """Two people's requests, and the ids of what the pictures open."""

    url: str
    tasks: TaskGroup
    people: dict[str, httpx.AsyncClient]
    jobs: dict[str, str] = field(default_factory=dict)

    async def post(self, path: str, body: dict[str, Any], owner: str = "alice") -> Any:
        """Send something that must be accepted."""
        answer = await self.people[owner].post(path, json=body)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def get(self, path: str, owner: str = "alice") -> Any:
        """Ask for JSON."""
        answer = await self.people[owner].get(path)
        assert answer.is_success, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    async def ask(
        self,
        session: str,
        text: str,
        model: str = "demo",
        owner: str = "alice",
        leave_after: int = 0,
    ) -> None:
        """Ask for a streamed answer and read it to its end, or leave after so many pieces."""
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}
        await self._read("/v1/chat/completions", body, session, owner, leave_after)

    async def ask_otherwise(self, session: str, text: str, path: str, owner: str = "alice") -> None:
        """Ask in another dialect."""
        messages = [{"role": "user", "content": text}]
        body = {"model": "demo", "stream": True, "max_tokens": 4096, "messages": messages}
        if path == "/v1/responses":
            body = {"model": "demo", "stream": True, "input": text}
        await self._read(path, body, session, owner)

    async def _read(
        self, path: str, body: dict[str, Any], session: str, owner: str, leave_after: int = 0
    ) -> None:
        headers = {"x-session-id": session}
        person = self.people[owner]
        async with person.stream("POST", path, json=body, headers=headers) as answer:
            with_end = 0
            try:
                async for _ in answer.aiter_raw():
                    with_end += 1
                    if with_end == leave_after:
                        return
            except httpx.RemoteProtocolError:
                pass  # Some are ordered to break off.

    async def watch(self, exchange: str) -> None:
        """Look at an exchange as a page does: then its bytes are noted ten times a second."""
        path = f"/api/console/feed?topics=exchange:{exchange}"
        async with self.people["alice"].stream("GET", path) as answer:
            async for _ in answer.aiter_raw():
                pass

    def begin(
        self, work: Callable[..., Coroutine[Any, Any, None]], *values: Any, **named: Any
    ) -> None:
        """Let something go on beside the rest, until the pictures are taken."""
        self.tasks.start_soon(partial(work, *values, **named))

    async def wait_for(self, path: str, fact: Callable[[Any], Any]) -> Any:
        """Ask again and again until something is so; return what it is."""
        with anyio.fail_after(PATIENCE):
            while True:
                found = fact(await self.get(path))
                if found:
                    return found
                await anyio.sleep(0.1)

    async def find_exchange(self, session: str, state: str) -> str:
        """Return the id of a session's exchange, once it is in a state."""
        path = f"/api/console/exchanges?session={session}&state={state}"
        found: str = await self.wait_for(path, lambda got: [one["id"] for one in got["exchanges"]])
        return found[0]

    async def wait_until_left(self, exchange: str, left: timedelta) -> None:
        """Wait until so much is left of the hold of an exchange."""
        trail = await self.get(f"/api/console/exchanges/{exchange}")
        due = trail["begun_at"] / 1000 + trail["holds"][-1]["until"] / 1000
        await anyio.sleep(due - left.total_seconds() - time.time())

    async def run_job(self, name: str, times: int = 1) -> None:
        """Run a job now, and wait for its end, so many times."""
        job = self.jobs[name]
        for _ in range(times):
            before = await self._count_runs(job)
            await self.post("/api/cron/run", {"job_id": job})
            path = f"/api/cron/runs?job_id={job}&limit=100&results=0"
            await self.wait_for(path, partial(has_ended, before))

    async def _count_runs(self, job: str) -> int:
        runs = await self.get(f"/api/cron/runs?job_id={job}&limit=100&results=0")
        return len(runs["data"]["runs"])


def has_ended(before: int, got: Any) -> bool:
    """Whether there is a run more, and none goes on."""
    runs = got["data"]["runs"]
    return len(runs) > before and all(run["status"] != "running" for run in runs)


async def make_jobs(traffic: Traffic) -> None:
    """Make jobs of several kinds, and let them run: most work, some fail, one goes on."""
    made = [*JOBS, make_release_job()]
    for job in made:
        answer = await traffic.post("/api/cron/add", job)
        traffic.jobs[job["name"]] = answer["data"]["job"]["job_id"]
    async with anyio.create_task_group() as tasks:
        for name, times in (("Morning check", 7), ("Hourly news", 9), ("Summarise the week", 4)):
            tasks.start_soon(traffic.run_job, name, times)
        tasks.start_soon(traffic.run_job, "Nightly backup digest", 6)
        tasks.start_soon(let_fail, traffic, "Disk report", 5, 3)
        tasks.start_soon(let_fail, traffic, "Sync calendar", 4, 5)
        tasks.start_soon(traffic.run_job, "Drink water", 3)
        tasks.start_soon(traffic.run_job, "Open pull requests", 4)
        tasks.start_soon(traffic.run_job, "A joke for the team", 5)
    await traffic.post("/api/cron/disable", {"job_id": traffic.jobs["Nightly backup digest"]})
    long = {"job_id": traffic.jobs["Hourly news"], "message": "demo: tokens=11000 delay_ms=25"}
    await traffic.post("/api/cron/update", long)
    await traffic.post("/api/cron/run", {"job_id": traffic.jobs["Hourly news"]})
    weekly = {
        "name": "Weekly report",
        "message": "summarise",
        "schedule_text": "every monday at 9:00",
    }
    await traffic.post("/api/cron/add", {**weekly, "agent_id": "demo"}, "bob")


def make_release_job() -> dict[str, Any]:
    """A job for one time, three days from now."""
    day = (datetime.now(UTC) + timedelta(days=3)).replace(hour=10, minute=0, second=0)
    schedule = {"kind": "at", "at": day.strftime("%Y-%m-%dT%H:%M:%SZ")}
    message = "Tell me what has to be done for the release."
    return {"name": "Release", "message": message, "schedule": schedule, "agent_id": "helper"}


async def let_fail(traffic: Traffic, name: str, well: int, badly: int) -> None:
    """Let a job work so many times, then fail so many times."""
    await traffic.run_job(name, well)
    job = {"job_id": traffic.jobs[name], "message": BROKEN}
    await traffic.post("/api/cron/update", job)
    await traffic.run_job(name, badly)


# A large model does not speak evenly.
AGAIN = "demo: first_ms=420 tokens=60 delay_ms=22 quiet_ms=120@14 quiet_ms=210@33 quiet_ms=90@47"


def order_reminder(seconds: float, task: str = AGAIN) -> str:
    """Order the demo model to set a reminder, and to take as long as a large model takes."""
    due = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    items = [{"dueAt": due, "task": task}]
    arguments = json.dumps({"action": "schedule", "items": items, "taskId": ""})
    return (
        f"demo: first_ms=380 tool=clock args={arguments}\n"
        "demo: first_ms=360 tokens=44 delay_ms=26 quiet_ms=150@11 quiet_ms=110@30\n"
    )


async def make_past(traffic: Traffic) -> None:
    """Make exchanges that have ended, each in its own way."""
    more = (
        "demo: first_ms=390 tokens=70 delay_ms=21 quiet_ms=180@16 quiet_ms=100@35 quiet_ms=230@52"
    )
    first = f"<**stopMessage:{more},2**>\n{order_reminder(61)}"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(traffic.ask, "tea-and-tasks", first, "default")
        traffic.begin(traffic.watch, await traffic.find_exchange("tea-and-tasks", "live"))
        for i in range(24):
            text = f"demo: first_ms={180 + 90 * (i % 7)} tokens={20 + 7 * i} delay_ms=10"
            owner = "bob" if i % 4 == 3 else "alice"
            tasks.start_soon(traffic.ask, f"codex-{7103 + i * 1747:x}", text, "demo", owner)
        tasks.start_soon(
            traffic.ask, "ops", "demo: first_ms=400 tokens=90 delay_ms=30 drop_after=60"
        )
        tasks.start_soon(
            traffic.ask,
            "playground",
            "demo: first_ms=350 tokens=99 delay_ms=30",
            "demo",
            "alice",
            20,
        )
        tasks.start_soon(traffic.ask_otherwise, "claude-code", "Hello!", "/v1/messages")
        tasks.start_soon(traffic.ask_otherwise, "codex", "what time is it?", "/v1/responses")
        body = {"agentId": "demo", "message": "what time is it?"}
        tasks.start_soon(partial(traffic.people["alice"].post, "/api/chat", json=body))


async def make_sessions(traffic: Traffic) -> None:
    """Leave something in force, reminders and deliveries in sessions."""
    async with anyio.create_task_group() as tasks:
        text = "<**stopMessage:Run the tests again.,5**><**!demo.demo**> Hello!"
        tasks.start_soon(traffic.ask, "tidy-repo", text)
        path = "/api/console/exchanges?session=tidy-repo&state=live"
        await traffic.wait_for(path, lambda got: any(one["turns"] > 2 for one in got["exchanges"]))
        tasks.cancel_scope.cancel()
    soon = datetime.now(UTC)
    for session, task, minutes in (
        ("tea", "buy more tea", 95),
        ("standup", "call Ann back", 47),
        ("tidy-repo", "look whether the tests are green", 12),
        ("tidy-repo", "push the branch", 60 * 26),
    ):
        due = (soon + timedelta(minutes=minutes)).isoformat()
        await traffic.post(f"/api/sessions/{session}/reminders", {"task": task, "dueAt": due})
    await traffic.ask("tea", "remind me in 2 seconds to stretch")


async def make_present(traffic: Traffic) -> None:
    """Begin answers that go on while the pictures are taken."""
    slow = "demo: first_ms={1} tokens=9000 delay_ms={0}"
    traffic.begin(traffic.ask, "tea", order_reminder(25 * 60, "drink tea"), "default")
    traffic.begin(traffic.ask, "standup", order_reminder(12 * 60, "begin the stand-up"))
    for session, delay, owner in (
        ("codex-7f3a", 40, "alice"),
        ("tidy-repo", 70, "alice"),
        ("notes", 55, "bob"),
    ):
        traffic.begin(traffic.ask, session, slow.format(delay, 6 * delay), "demo", owner)
    traffic.begin(traffic.ask_otherwise, "claude-code-19c", slow.format(60, 700), "/v1/messages")
    traffic.begin(traffic.ask, "long-think", "demo: first_ms=600000", "demo")
    await traffic.find_exchange("standup", "holding")
    await traffic.find_exchange("tea", "holding")


@asynccontextmanager
async def start_traffic(home: Path) -> AsyncIterator[Traffic]:
    """Start the demo model, an upstream that refuses, a gateway, and the clients of two people."""
    refusal = head(
        "content-type: application/json",
        "retry-after: 30",
        f"content-length: {len(REFUSAL)}",
        status="429 Too Many Requests",
    )
    async with AsyncExitStack() as stack:
        demo = DemoServer()
        port = await demo.start("127.0.0.1", 0)
        stack.push_async_callback(demo.aclose)
        cloud = await stack.enter_async_context(fake_upstream(answering(refusal + REFUSAL)))
        text = CONFIGURATION.format(demo=port, cloud=cloud.port, **KEYS)
        home.joinpath("holdgate.toml").write_text(text)
        gate = await stack.enter_async_context(as_process(home))
        people = {
            owner: await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=gate.url, headers={"authorization": f"Bearer {key}"}, timeout=None
                )
            )
            for owner, key in KEYS.items()
        }
        tasks = await stack.enter_async_context(anyio.create_task_group())
        yield Traffic(gate.url, tasks, people)
        tasks.cancel_scope.cancel()
