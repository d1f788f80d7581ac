"""A real Chromium for the tests of the console.

A page that throws, logs an error or breaks its own content policy fails the test that opened it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    async_playwright,
    expect,
)

from tests.clients.node import provide

DIRECTORY = Path(__file__).parent
AXE = DIRECTORY / "node_modules" / "axe-core" / "axe.min.js"
MISSING = "chromium is missing, and the tests of the console need it: apt-get install chromium."
PATIENCE_MS = 60_000
"""How many milliseconds a page may need for what takes it a moment: other tests may run beside this one."""
expect.set_options(timeout=PATIENCE_MS)
WATCH_POLICY = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
LASTING_NOTICES = """
const wait = window.setTimeout;
window.setTimeout = (run, ms, ...more) => wait(run, /notice/.test(run) ? 600_000 : ms, ...more);
"""
"""Notices leave after some seconds; on a busy machine that may be before a test has come to them."""
SERIOUS = ("serious", "critical")
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


@dataclass
class Tab:
    """A page of the console, and what went wrong in it."""

    page: Page
    wrong: list[str] = field(default_factory=list)
    tolerated: tuple[str, ...] = ()
    """What may be said: a test that breaks something breaks it on purpose."""

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def watch(self) -> None:
        """Take note of all that goes wrong."""
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: self.wrong.append(f"dialog: {dialog.message}"))

    def check(self) -> None:
        """Fail if anything went wrong."""
        wrong = [one for one in self.wrong if not any(ok in one for ok in self.tolerated)]
        assert not wrong, wrong


@dataclass
class Chromium:
    """Opens tabs."""

    browser: Browser

    @asynccontextmanager
    async def open(
        self,
        url: str,
        *,
        language: str = "en",
        theme: str = "light",
        width: int = 1440,
        tolerated: tuple[str, ...] = (),
        **options: Any,
    ) -> AsyncIterator[Tab]:
        """Open an address in a fresh profile; at the end, nothing may have gone wrong in it."""
        # What moves without end is drawn without end, which takes half a core.
        options.setdefault("reduced_motion", "reduce")
        context = await self.browser.new_context(
            locale="zh-CN" if language == "zh" else "en-GB",
            color_scheme="dark" if theme == "dark" else "light",
            viewport={"width": width, "height": 900},
            timezone_id="Asia/Shanghai",
            **options,
        )
        try:
            async with open_tab(context, url, tolerated) as tab:
                yield tab
        finally:
            await context.close()


@asynccontextmanager
async def open_tab(
    context: BrowserContext, url: str, tolerated: tuple[str, ...] = ()
) -> AsyncIterator[Tab]:
    """Open an address in another tab of a profile."""
    page = await context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    await page.add_init_script(WATCH_POLICY)
    tab = Tab(page, tolerated=tolerated)
    tab.watch()
    await page.goto(url)
    yield tab
    tab.check()


@asynccontextmanager
async def start_chromium(fonts: Path | None = None) -> AsyncIterator[Chromium]:
    """Start a browser, or say what is missing; `fonts` is a configuration of fontconfig."""
    # The same browser without the parts that no test sees: it needs two thirds of the time.
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    assert program is not None, MISSING
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu"],
            env={**os.environ, **({"FONTCONFIG_FILE": str(fonts)} if fonts else {})},
        )
        try:
            yield Chromium(browser)
        finally:
            await browser.close()


async def find_barriers(page: Page) -> list[str]:
    """Return what axe-core finds that keeps people out, by WCAG 2.2 AA: the serious of it."""
    provide(DIRECTORY)
    # Not as a script tag, which the page's own policy forbids.
    await page.evaluate(AXE.read_text())
    found = await page.evaluate("(tags) => axe.run({runOnly: tags})", list(RULES))
    return [
        f"{one['id']}: {node['html'][:200]} ({'; '.join(node['any'][0:1] and [node['any'][0]['message']])})"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
