"""Takes the pictures of docs/console.md: every page of the console, as a browser shows it.

`python -m tests.console.pictures` takes all, `… live jobs` only some, `… --into DIR live` puts them elsewhere.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.console.chromium import start_chromium
from tests.console.palette_png import shrink_png
from tests.console.picture_traffic import (
    KEYS,
    Traffic,
    make_jobs,
    make_past,
    make_present,
    make_sessions,
    order_reminder,
    start_traffic,
)
from tests.run import as_process

FOLDER = Path(__file__).parents[2] / "docs" / "pictures" / "console"
THEMES = ("light", "dark")
PHONE = 390
WIDTHS = {1440: 900, PHONE: 844}
TALLEST = {1440: 1400, PHONE: 2200}
HALF = timedelta(seconds=34)
"""What is left of a hold of a minute when its picture is taken."""
ZONES = {"en": "Europe/Berlin", "zh": "Asia/Shanghai"}

Prepare = Callable[[Page, Traffic], Awaitable[None]]


@dataclass(frozen=True)
class Picture:
    """A page, how to get there, and what must be seen before the picture is taken."""

    name: str
    address: str
    shown: str
    prepare: Prepare | None = None
    languages: tuple[str, ...] = ("en",)
    height: int = 0
    """How tall the wide picture is; 0: as tall as the page. Those of phones always are."""
    is_fresh: bool = False
    """Whether it shows a gateway as anybody starts it: no configuration, no key."""

    def list_files(self) -> list[str]:
        """Name its files: each width and theme; in Chinese only the wide and light one."""
        english = [f"{self.name}-{width}-{theme}.png" for width in WIDTHS for theme in THEMES]
        chinese = [f"{self.name}-1440-light-zh.png"] if "zh" in self.languages else []
        return [*english, *chinese]


async def find_done(page: Page, traffic: Traffic) -> None:
    """Open the exchange that failed over, was held and went on by itself."""
    await open_exchange(page, traffic, "tea-and-tasks", "done")


async def find_held(page: Page, traffic: Traffic) -> None:
    """Have an answer held for a minute, and open it when about half of that has passed."""
    # The hold of the other width may still go on.
    size = page.viewport_size
    session = "tea-time" if size and size["width"] == PHONE else "tea-break"
    traffic.begin(traffic.ask, session, order_reminder(60, "drink tea"), "default")
    found = await traffic.find_exchange(session, "live")
    traffic.begin(traffic.watch, found)
    await traffic.find_exchange(session, "holding")
    await traffic.wait_until_left(found, HALF)
    await page.goto(f"{traffic.url}/console/exchange?id={found}")


async def open_exchange(page: Page, traffic: Traffic, session: str, state: str) -> None:
    """Open a session's exchange."""
    found = await traffic.find_exchange(session, state)
    await page.goto(f"{traffic.url}/console/exchange?id={found}")


async def let_cool(page: Page, traffic: Traffic) -> None:
    """Make an upstream refuse once more, so that it cools."""
    await traffic.ask("codex-7f3a", "Hello!", "default")


async def hold_talk(page: Page, traffic: Traffic) -> None:
    """Ask for a reminder in Chat, and wait until half of the time for which the answer is held has passed."""
    chinese = await page.evaluate("document.documentElement.lang.startsWith('zh')")
    text = "60秒后提醒我喝茶" if chinese else "remind me in 60 seconds to drink tea"
    await expect(page.locator("main select option").first).to_be_attached(timeout=20_000)
    await page.locator(".composer textarea").fill(text)
    await page.keyboard.press("Enter")
    left = f"0:{HALF.seconds}"
    await expect(page.locator(".waiting")).to_contain_text(left, timeout=60_000)


async def choose_job(page: Page, traffic: Traffic) -> None:
    """Open the details of a job; on a phone they have a page of their own."""
    size = page.viewport_size
    place = "job" if size and size["width"] == PHONE else "jobs"
    await page.goto(f"{traffic.url}/console/{place}?id={traffic.jobs['Morning check']}")


async def write_job(page: Page, traffic: Traffic) -> None:
    """Begin a new job, and let its schedule be previewed."""
    await page.locator(".head button.primary").click()
    await page.locator("#job-message").fill("Tell me which plants need water today.")
    await page.locator("#job-name").fill("Water the plants")
    await page.get_by_role("dialog").get_by_label("Agent").select_option("helper")
    await page.locator("#zone").fill("Asia/Shanghai")
    await page.locator("#when").fill("weekdays at 18:30")


async def run_all_four(page: Page, traffic: Traffic) -> None:
    """Press the button that a newcomer presses, and wait for what it does."""
    await page.get_by_role("button", name="Run all four").click()
    for state in ("holding", "done", "failed"):
        await expect(page.locator(f".try .s-{state}").first).to_be_visible(timeout=20_000)


PICTURES = (
    Picture("first", "", ".try", run_all_four, height=900, is_fresh=True),
    Picture("live", "", ".notes li", let_cool, ("en", "zh"), 900),
    Picture("exchange", "", ".story li", find_done, ("en", "zh")),
    Picture("hold", "", ".story li", find_held),
    Picture("chat", "chat", ".waiting", hold_talk, ("en", "zh"), 900),
    Picture("sessions", "sessions", ".w-row"),
    Picture("session", "session?id=tidy-repo", ".tab-list"),
    Picture("tools", "tools", ".tools"),
    Picture("jobs", "jobs", ".bars", None, ("en", "zh"), 900),
    Picture("job", "jobs", ".runs li", choose_job, height=1120),
    Picture("editor", "jobs", ".preview .times", write_job),
    Picture("health", "health", ".plot", let_cool),
    Picture("sign-in", "", ".sign-in form"),
)


def list_files() -> list[str]:
    """Name all files, in the order of the pages."""
    return [file for picture in PICTURES for file in picture.list_files()]


@asynccontextmanager
async def start_fresh_gateway() -> AsyncIterator[str]:
    """Run a gateway as anybody starts it."""
    with TemporaryDirectory() as home:
        async with as_process(Path(home), {"ROUTECODEX_CLOCK_NTP": "off"}) as gate:
            yield gate.url


class Photographer:
    """Opens pages in a browser and writes what it shows."""

    def __init__(
        self, browser: Browser, folder: Path, blank: Page, traffic: Traffic, fresh: str
    ) -> None:
        self._browser = browser
        self._folder = folder
        self._blank = blank
        self._traffic = traffic
        self._fresh = fresh

    async def take(self, picture: Picture) -> None:
        """Take all pictures of a page."""
        for width in WIDTHS:
            async with self._open(picture, "en", width) as page:
                for theme in THEMES:
                    await self._write(page, f"{picture.name}-{width}-{theme}.png", theme)
        if "zh" in picture.languages:
            async with self._open(picture, "zh", 1440) as page:
                await self._write(page, f"{picture.name}-1440-light-zh.png", "light")

    @asynccontextmanager
    async def _open(self, picture: Picture, language: str, width: int) -> AsyncIterator[Page]:
        context = await self._browser.new_context(
            locale="zh-CN" if language == "zh" else "en-GB",
            timezone_id=ZONES[language],
            viewport={"width": width, "height": WIDTHS[width]},
            device_scale_factor=2 if width == PHONE else 1,
            reduced_motion="reduce",
        )
        try:
            url = self._fresh if picture.is_fresh else self._traffic.url
            if picture.name != "sign-in" and not picture.is_fresh:
                await sign_in(context, url)
            page = await context.new_page()
            await page.goto(f"{url}/console/{picture.address}")
            await page.locator("h1").first.wait_for()
            if picture.prepare:
                await picture.prepare(page, self._traffic)
            await page.mouse.move(0, 0)
            await page.locator(picture.shown).first.wait_for(state="attached")
            await set_height(page, picture.height)
            yield page
        finally:
            await context.close()

    async def _write(self, page: Page, name: str, theme: str) -> None:
        await page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        await expect(page.locator(".bones")).to_have_count(0)
        png = await page.screenshot()
        self._folder.joinpath(name).write_bytes(await shrink_png(png, self._blank))


async def sign_in(context: BrowserContext, url: str) -> None:
    """Let a profile be signed in, as the page for that does it."""
    path = f"{url}/api/console/login"
    key = {"key": KEYS["alice"]}
    answer = await context.request.post(path, data=key, headers={"origin": url})
    assert answer.ok, await answer.text()


async def set_height(page: Page, height: int) -> None:
    """Make the window as tall as this, or as its page; on phones always as its page."""
    size = page.viewport_size
    assert size is not None
    tall = await page.evaluate("document.documentElement.scrollHeight")
    most = min(TALLEST[size["width"]], max(tall, size["height"]))
    chosen = height if height and size["width"] != PHONE else most
    await page.set_viewport_size({"width": size["width"], "height": chosen})


async def make_everything(traffic: Traffic, report: Callable[[str], None]) -> None:
    """Make all that the pictures show."""
    report("exchanges that end")
    await make_past(traffic)
    report("jobs and their runs")
    await make_jobs(traffic)
    report("sessions, and answers that go on")
    await make_sessions(traffic)
    await make_present(traffic)


async def take_pictures(names: Sequence[str], folder: Path) -> None:
    """Make everything that is shown, then take the pictures."""
    began = time.monotonic()

    def report(text: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {text}", flush=True)

    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        home = stack.enter_context(TemporaryDirectory())
        traffic = await stack.enter_async_context(start_traffic(Path(home)))
        await make_everything(traffic, report)
        fresh = await stack.enter_async_context(start_fresh_gateway())
        browser = (await stack.enter_async_context(start_chromium())).browser
        photographer = Photographer(browser, folder, await browser.new_page(), traffic, fresh)
        for picture in PICTURES:
            if not names or picture.name in names:
                report(f"picture: {picture.name}")
                await photographer.take(picture)
    sizes = [file.stat().st_size for file in folder.glob("*.png")]
    report(f"{len(sizes)} pictures, {sum(sizes) / 1e6:.1f} MB")


def main() -> None:
    """Take all pictures, or those of the pages that are named."""
    known = [picture.name for picture in PICTURES]
    parser = argparse.ArgumentParser(prog="scripts/console", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {' '.join(known)}")
    parser.add_argument("--into", type=Path, default=FOLDER, help="where the pictures are put")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(known))
    if unknown:
        parser.error(f"no such picture: {' '.join(unknown)}; there are: {' '.join(known)}")
    anyio.run(take_pictures, given.names, given.into)


if __name__ == "__main__":
    main()
