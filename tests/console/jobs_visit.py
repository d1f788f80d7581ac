"""Somebody at the page of jobs, in a real browser: the words of the walks through it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from playwright.async_api import Locator, Page, expect

from tests.console.chromium import start_chromium
from tests.console.test_console_pages import WORDS
from tests.run import GatewayProcess

LANGUAGES = ("en", "zh")
SLOW = "demo: tokens=20 delay_ms=50"


@dataclass
class JobsVisit:
    """Somebody at the page of jobs, who also looks at what the gateway really keeps."""

    page: Page
    url: str
    language: str

    def say(self, key: str, **values: object) -> str:
        """Return the words of the page."""
        return str(WORDS[self.language][key]).format(**values)

    def name(self, name: str) -> str:
        """Return a name that no test of the other language uses."""
        return f"{self.language} {name}"

    async def ask(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Any:
        """Read something of the gateway, as the page would."""
        url = f"{self.url}/api/{path}"
        answer = await self.page.request.get(url, params=query, headers=headers)
        assert answer.ok, await answer.text()
        return await answer.json()

    async def send(self, path: str, headers: dict[str, str] | None = None, **body: object) -> Any:
        """Change something behind the page's back."""
        url = f"{self.url}/api/{path}"
        answer = await self.page.request.post(url, data=body, headers=headers)
        assert answer.ok, await answer.text()
        return await answer.json()

    async def add(self, name: str, headers: dict[str, str] | None = None, **more: object) -> str:
        """Add a job; return its id."""
        wish: dict[str, Any] = {"name": name, "message": "a word", "session_id": "garden"}
        when = {} if "schedule" in more else {"schedule_text": "daily at 9am"}
        added = await self.send("cron/add", headers, **(wish | when | more))
        return str(added["data"]["job"]["job_id"])

    async def find_jobs(self, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Return all jobs of an owner, by name."""
        found = (await self.ask("cron/list", headers))["data"]["jobs"]
        return {job["name"]: job for job in found}

    def row(self, name: str) -> Locator:
        """Return the row of a job in the list."""
        return self.page.get_by_role("grid").get_by_role("row").filter(has_text=name)

    def dialog(self) -> Locator:
        """Return the dialog that is open."""
        return self.page.get_by_role("dialog")

    def button(self, key: str, within: Locator | None = None, **values: object) -> Locator:
        """Return a button by its words."""
        name = re.compile(f"^{re.escape(self.say(key, **values))}")
        return (within or self.page).get_by_role("button", name=name)

    def switch(self, name: str) -> Locator:
        """Return the switch of a job in its row."""
        return self.row(name).get_by_role("switch")

    async def choose(self, name: str, key: str) -> None:
        """Choose something in the menu of a job."""
        await self.button("jobs.more_named", self.row(name), name=name).click()
        await self.page.get_by_role("menuitem", name=self.say(key)).click()

    def toast(self, key: str, **values: object) -> Locator:
        """Return the notice with these words."""
        return self.page.locator(".toast").filter(has_text=self.say(key, **values))


@asynccontextmanager
async def visit(gate: GatewayProcess, language: str, about: str) -> AsyncIterator[JobsVisit]:
    """Look at the jobs with a name that begins so; whatever goes wrong fails the test."""
    url = f"{gate.url}/console/jobs?q={quote(f'{language} {about}')}"
    async with (
        start_chromium() as chromium,
        # The browser itself notes what the server refuses, which tests do on purpose.
        chromium.open(url, language=language, tolerated=("400", "409")) as tab,
    ):
        at = JobsVisit(tab.page, gate.url, language)
        await expect(tab.page.get_by_role("heading", level=1)).to_have_text(at.say("jobs.title"))
        yield at
