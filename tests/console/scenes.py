"""What the console's pages show in tests: things that really happened, and each page with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
from playwright.async_api import Page, Route, expect

from tests.run import GatewayProcess, as_process

FOLDER = Path(__file__).parents[2] / "gateway" / "api" / "console"
WORDS: dict[str, dict[str, str]] = {
    language: json.loads(FOLDER.joinpath(f"words-{language}.json").read_text())
    for language in ("en", "zh")
}
SETTINGS = {
    "ROUTECODEX_CLOCK_NTP": "off",
    "HOLDGATE_CLOCK__HOLD_MAX_MS": "3600000",
    "HOLDGATE_CLOCK__HOLD_TOTAL_MS": "3600000",
}
KEY = "sk-console-tests-open-sesame"
LONG_NAME = "Water-the-plants-on-the-balcony-and-in-the-kitchen 每个工作日的早晨给阳台上的花浇水"
QUICK = "demo: tokens=20 delay_ms=5"
PATIENCE = 60.0


@dataclass(frozen=True)
class Happened:
    """A gateway in which something happened, and the ids of it."""

    gate: GatewayProcess
    ids: Mapping[str, str]

    def find_url(self, path: str) -> str:
        """Return the address of a page, with ids in place of their names."""
        return f"{self.gate.url}/console/{path.format(**self.ids)}"


class Visitor:
    """Asks a gateway as any client would."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._stack = stack
        self.client = stack.enter_context(httpx.Client(base_url=url, timeout=PATIENCE))

    def chat(self, session: str, text: str) -> None:
        """Ask the demo model, and read the answer to its end."""
        # Some are asked to break off.
        with self._ask(session, text) as answer, suppress(httpx.RemoteProtocolError):
            answer.read()

    def chat_and_stay(self, session: str, text: str) -> None:
        """Ask the demo model, and stay connected until the gateway is gone."""
        self._stack.enter_context(self._ask(session, text))

    def _ask(self, session: str, text: str) -> Any:
        body = {
            "model": "demo",
            "stream": True,
            "messages": [{"role": "user", "content": text}],
        }
        headers = {"x-session-id": session}
        return self.client.stream("POST", "/v1/chat/completions", json=body, headers=headers)

    def post(self, path: str, **body: object) -> Any:
        """Post JSON and return what comes back."""
        return self.client.post(path, json=body).raise_for_status().json()

    def get(self, path: str, **query: object) -> Any:
        """Get JSON."""
        params = {name: str(value) for name, value in query.items()}
        return self.client.get(path, params=params).raise_for_status().json()

    def find_exchange(self, session: str, state: str) -> str:
        """Wait until an exchange of a session is in a state; return its id."""
        return str(self._wait_for("/api/console/exchanges", session, state)["id"])

    def _wait_for(self, path: str, session: str, state: str) -> Any:
        end = monotonic() + PATIENCE
        while monotonic() < end:
            for row in self.get(path, session=session)["exchanges"]:
                if row["state"] == state:
                    return row
            sleep(0.05)
        raise AssertionError(f"no exchange of {session} is {state}")

    def add_job(self, name: str, when: str, message: str) -> str:
        """Add a job of the demo model."""
        schedule = self.post("/api/cron/preview", when=when, tz="Asia/Shanghai")["data"]["schedule"]
        body = {"name": name, "message": message, "session_id": "garden", "model": "demo"}
        return str(self.post("/api/cron/add", **body, schedule=schedule)["data"]["job"]["job_id"])

    def run_job(self, job: str, status: str) -> str:
        """Run a job now, and wait until that ended; return the run's id."""
        before = len(self.list_runs(job))
        self.post("/api/cron/run", job_id=job)
        end = monotonic() + PATIENCE
        while monotonic() < end:
            runs = self.list_runs(job)
            if len(runs) > before and runs[0]["status"] == status:
                return str(runs[0]["run_id"])
            sleep(0.05)
        raise AssertionError(f"{job} has no run that is {status}")

    def list_runs(self, job: str) -> list[Any]:
        """Return the runs of a job, the newest first."""
        runs: list[Any] = self.get("/api/cron/runs", job_id=job, limit=100)["data"]["runs"]
        return runs


@contextmanager
def let_things_happen(home: Path) -> Iterator[Happened]:
    """Start a gateway with the demo model, and use it: answers, a hold, reminders, jobs, an agent."""
    with as_process(home, SETTINGS) as gate, ExitStack() as stack:
        visitor = Visitor(gate.url, stack)
        visitor.chat("morning", "demo: tokens=90 delay_ms=5")
        visitor.chat("broken", "demo: tokens=20 delay_ms=0 drop_after=10")
        visitor.chat("rounds", f'<**stopMessage:"{QUICK}",2**> {QUICK}')
        visitor.chat("plans", "<**!demo**> remind me in 3 hours to drink tea")
        visitor.chat_and_stay("tea", "remind me in 3000 seconds to drink tea")
        visitor.client.post(
            "/api/chat", json={"agentId": "demo", "sessionId": "talk", "message": "tell me a joke"}
        )
        fine = visitor.add_job(LONG_NAME, "weekdays at 18:30", "tell me a word")
        failing = visitor.add_job("Disk report", "every 15 minutes", "demo: status=500")
        off = visitor.add_job("Drink water", "daily at 09:00", "tell me a joke")
        run = visitor.run_job(fine, "ok")
        visitor.run_job(failing, "error")
        visitor.post("/api/cron/disable", job_id=off)
        ids = {
            "held": visitor.find_exchange("tea", "holding"),
            "done": visitor.find_exchange("rounds", "done"),
            "failed": visitor.find_exchange("broken", "failed"),
            "job": fine,
            "run": run,
            "failing": failing,
        }
        yield Happened(gate, ids)


def start_with_key(home: Path) -> GatewayProcess:
    """Start a gateway with the demo model that lets in who has the key, and nobody else."""
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    keys = [{"owner": "ann", "key_sha256": digest, "admin": True}]
    return as_process(home, {**SETTINGS, "HOLDGATE_KEYS": json.dumps(keys)})


@dataclass(frozen=True)
class Scene:
    """A page in one of its forms: its address, what is there when it is ready, what is done first."""

    name: str
    path: str
    ready: str
    act: Callable[[Page, dict[str, str]], Awaitable[None]] | None = None


async def hold_longer(route: Route) -> None:
    """Send what a card of Try it sends, but let the answer be held for longer than 20 s."""
    asked = route.request.post_data or ""
    await route.continue_(post_data=asked.replace("in 20 seconds", "in 3000 seconds"))


async def open_schema(page: Page, words: dict[str, str]) -> None:
    await page.get_by_role("button", name=words["tools.schema_of"].format(name="clock")).click()
    await expect(page.locator("dialog pre")).to_contain_text("schedule")


async def open_editor(page: Page, words: dict[str, str]) -> None:
    await page.get_by_role("button", name=words["jobs.new"]).first.click()
    await page.get_by_role("dialog").get_by_label(words["editor.message"]).fill("tell me a word")
    await page.locator("#when").fill("weekdays at 18:30")
    await expect(page.locator(".preview table")).to_be_visible()
    await page.locator(".editor summary").click()


async def refuse_when(page: Page, words: dict[str, str]) -> None:
    await page.get_by_role("button", name=words["jobs.new"]).first.click()
    await page.locator("#when").fill("at the end of time")
    await expect(page.locator(".preview .bad-text")).to_be_visible()


async def ask_before_delete(page: Page, words: dict[str, str]) -> None:
    await page.locator(".detail-bar [aria-haspopup=menu]").click()
    await page.get_by_role("menuitem", name=words["jobs.delete_menu"]).click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def open_menu(page: Page, words: dict[str, str]) -> None:
    await page.locator(".detail-bar [aria-haspopup=menu]").click()
    await expect(page.get_by_role("menu")).to_be_visible()


async def pick_two(page: Page, words: dict[str, str]) -> None:
    await expect(page.locator(".jobs-list .w-row:not([hidden])")).to_have_count(3)
    for key in ("j", "x", "j", "x"):
        await page.keyboard.press(key)
    await expect(page.locator(".bulk")).to_be_visible()


async def say_in_chat(page: Page, words: dict[str, str], text: str) -> None:
    await expect(page.locator("main option")).not_to_have_count(0)
    await page.get_by_role("textbox", name=words["chat.message"], exact=True).fill(text)
    await page.keyboard.press("Enter")


async def get_answer(page: Page, words: dict[str, str]) -> None:
    await say_in_chat(page, words, 'demo: say="Some prose.\\n\\n```py\\nprint(1)\\n```\\n"')
    await expect(page.locator(".said-foot > .s-done")).to_be_visible()
    await expect(page.locator(".said pre")).to_be_visible()


async def get_hold(page: Page, words: dict[str, str]) -> None:
    await say_in_chat(page, words, "remind me in 3000 seconds to drink tea")
    await expect(page.locator(".waiting")).to_be_visible()


async def get_refusal(page: Page, words: dict[str, str]) -> None:
    await say_in_chat(page, words, 'demo: status=400 message="No."')
    await expect(page.locator(".said-error")).to_be_visible()


async def open_chat_options(page: Page, words: dict[str, str]) -> None:
    await page.get_by_role("button", name=words["chat.options"]).click()
    await expect(page.locator("#chat-options")).to_be_visible()


async def add_reminder(page: Page, words: dict[str, str]) -> None:
    await page.get_by_role("button", name=words["session.add_reminder"]).click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def see_plots(page: Page, words: dict[str, str]) -> None:
    await expect(page.locator(".plot-box figcaption").last).to_be_visible()
    # It keeps figures every ten seconds.
    await expect(page.locator(".plot-box .keys b").first).not_to_be_empty()


async def show_help(page: Page, words: dict[str, str]) -> None:
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()


async def show_more(page: Page, words: dict[str, str]) -> None:
    tabs = page.locator(".tabs button")
    if await tabs.is_visible():
        await tabs.click()
        await expect(page.get_by_role("dialog")).to_be_visible()


ROW = ".w-row:not([hidden])"
SCENES = (
    Scene("live", "", f".live-list {ROW} .countdown"),
    Scene("live, more", "", f".live-list {ROW} .countdown", show_more),
    Scene("live, ended", "live?state=ended", f".live-list {ROW} .s-failed"),
    Scene("live, none fits", "live?q=nothing-has-this-name", ".empty button"),
    Scene("live, help", "", f".live-list {ROW}", show_help),
    Scene("exchange held", "exchange?id={held}", ".story li .s-holding"),
    Scene("exchange done", "exchange?id={done}", ".story li .s-done"),
    Scene("exchange failed", "exchange?id={failed}", ".story li .s-failed"),
    Scene("exchange unknown", "exchange?id=req_unknown", "[role=alert]"),
    Scene("chat", "chat", ".chat-empty"),
    Scene("chat, options", "chat", ".chat-empty", open_chat_options),
    Scene("chat, answer", "chat", ".chat-empty", get_answer),
    Scene("chat, hold", "chat", ".chat-empty", get_hold),
    Scene("chat, refused", "chat", ".chat-empty", get_refusal),
    Scene("sessions", "sessions", f".session-list {ROW}"),
    Scene("session, in force", "session?id=plans", "#session-tab li"),
    Scene("session, reminders", "session?id=plans&tab=reminders", "#session-tab li"),
    Scene(
        "session, add reminder", "session?id=plans&tab=reminders", "#session-tab li", add_reminder
    ),
    Scene("session, jobs", "session?id=garden&tab=jobs", "#session-tab li"),
    Scene("session, waiting", "session?id=garden&tab=waiting", "#session-tab li"),
    Scene("session, exchanges", "session?id=rounds&tab=exchanges", f"#session-tab {ROW}"),
    Scene("session, conversation", "session?id=talk&tab=conversation", "#session-tab .said"),
    Scene("tools", "tools", ".tools button"),
    Scene("tools, schema", "tools", ".tools button", open_schema),
    Scene("jobs", "jobs", f".jobs-list {ROW}"),
    Scene("jobs, detail", "jobs?id={failing}", ".detail .run"),
    Scene("jobs, editor", "jobs", f".jobs-list {ROW}", open_editor),
    Scene("jobs, refused", "jobs", f".jobs-list {ROW}", refuse_when),
    Scene("jobs, menu", "jobs?id={failing}", ".detail .run", open_menu),
    Scene("jobs, delete", "jobs?id={job}", ".detail .run", ask_before_delete),
    Scene("jobs, several", "jobs", f".jobs-list {ROW}", pick_two),
    Scene("job", "job?id={job}", ".detail .run"),
    Scene("job, run", "job?id={job}&run={run}", "dialog pre"),
    Scene("health", "health", ".health-facts dd", see_plots),
)
