"""The page of jobs with 5,000 jobs: how soon the first rows stand there, and how many elements."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from playwright.async_api import Page, expect

from gateway.jobs.lifecycle import make_job
from gateway.jobs.model import Job, JobRules
from gateway.jobs.reader import read_draft
from tests.console.chromium import start_chromium
from tests.run import GatewayProcess, as_process
from tests.stores.row_backends import RowBackend, same

JOBS = 5_000
MOST_NODES = 300
HEAD_NODES, ROW_NODES, ROWS = 12, 13, 20
"""What the list consists of when it is scrolled; a row has the same elements in every state."""
FIRST_ROWS_MS = 50
"""From when the first jobs are there as text to when a row of the list has been drawn."""
SINCE_NAVIGATION_MS = 1_000
"""To the same row from when the address was opened: with all files of the page, and without a cache."""
SLACK = 10
"""The short form may run beside many others; the long form demands the budget itself."""

# Notes when the first jobs are there as text, and when a row of the list has been drawn. Either the
# list that is asked for or the feed comes first; the clock starts with the one that does.
WATCH = """
const arrive = () => { window.arrived ??= performance.now(); };
const real = window.fetch;
window.fetch = async (...given) => {
  const answer = await real(...given);
  if (!String(given[0]).includes("/cron/list")) return answer;
  const text = await answer.text();
  arrive();
  return new Response(text, { status: answer.status, headers: answer.headers });
};
const parse = JSON.parse;
JSON.parse = (text, ...more) => {
  if (text.length > 1_000_000) arrive();
  return parse(text, ...more);
};
const watch = new MutationObserver(() => {
  if (!document.querySelector(".jobs-list .w-row .c-name")?.textContent) return;
  window.drawn = performance.now();
  watch.disconnect();
});
watch.observe(document, { subtree: true, childList: true, characterData: true });
"""


def write_job(number: int, now_ms: int, rules: JobRules) -> Job:
    """Make one of many different jobs: some fail, some are disabled, some ran."""
    cron = {"kind": "cron", "cron": f"{number % 60} {number // 60 % 24} * * *"}
    every = {"kind": "every", "every_ms": 3_600_000 + number * 1000}
    wish = {"name": f"Job {number}", "message": "a word", "schedule": (cron, every)[number % 2]}
    draft = read_draft({**wish, "enabled": number % 10 != 0}, now_ms, rules)
    made = make_job(draft, f"job_{number:016x}", "local", f"s{number % 50}", "", now_ms, rules)
    if number % 7:
        return made
    return replace(
        made,
        last_run_ms=now_ms - number * 1000,
        last_status="error",
        last_error="The upstream did not answer in time.",
        consecutive_failures=2,
    )


async def fill(home: Path) -> None:
    """Store the jobs, as a gateway that made them would have."""
    now_ms, rules = time.time_ns() // 1_000_000, JobRules()
    async with RowBackend("embedded", home).opened() as rows, anyio.create_task_group() as tasks:
        for number in range(JOBS):
            tasks.start_soon(rows.jobs.add, write_job(number, now_ms, rules), same, JOBS)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that has many jobs."""
    home = tmp_path_factory.mktemp("many")
    anyio.run(fill, home)
    settings = {
        "ROUTECODEX_CLOCK_NTP": "off",
        "HOLDGATE_SERVER__SESSION_DIR": str(home / "sessions"),
    }
    with as_process(home, settings) as started:
        yield started


async def count_nodes(page: Page) -> dict[str, Any]:
    """Count the elements of the list, and its rows."""
    found: dict[str, Any] = await page.evaluate(
        """() => ({
          nodes: document.querySelectorAll(".jobs-list *").length,
          rows: document.querySelectorAll(".jobs-list .w-row").length,
        })"""
    )
    return found


@pytest.mark.parametrize(
    ("loads", "slack"), [(5, SLACK), pytest.param(15, 1, marks=pytest.mark.long)]
)
async def test_five_thousand_jobs_take_few_elements_and_little_time(
    gate: GatewayProcess, loads: int, slack: int
) -> None:
    spans: list[float] = []
    whole: list[float] = []
    async with start_chromium() as chromium:
        for _ in range(loads):
            async with chromium.open("about:blank") as tab:
                page = tab.page
                await page.add_init_script(WATCH)
                await page.goto(f"{gate.url}/console/jobs")
                await page.wait_for_function("() => window.drawn")
                spans.append(await page.evaluate("() => window.drawn - window.arrived"))
                # The clock of a page begins when its address is opened.
                whole.append(await page.evaluate("() => window.drawn"))
                await expect(page.locator(".list-count")).to_contain_text("5,000 of 5,000")
                await check_list(page)
    for name, ones in (("data", spans), ("navigation", whole)):
        found = [round(one, 1) for one in ones]
        print(f"first rows since {name}: {statistics.median(ones):.1f} ms of {found}")
    assert statistics.median(spans) <= FIRST_ROWS_MS * slack
    assert statistics.median(whole) <= SINCE_NAVIGATION_MS * slack


async def check_list(page: Page) -> None:
    """Scroll to every part of a row: the list never has more elements, whatever is in sight."""
    assert (await count_nodes(page))["nodes"] <= MOST_NODES
    await page.evaluate(
        """async () => {
          for (let top = 150000; top < 150060; top += 3) {
            scrollTo(0, top);
            for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
          }
        }"""
    )
    first = page.locator(".jobs-list .w-row").first
    assert int(await first.get_attribute("aria-rowindex") or 0) > 2_000
    nodes = HEAD_NODES + ROW_NODES * ROWS
    assert await count_nodes(page) == {"nodes": nodes, "rows": ROWS}
    assert nodes <= MOST_NODES
