"""What a person does with the list of jobs, with those of others, and with reminders."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from tests.console.chromium import start_chromium
from tests.console.jobs_visit import LANGUAGES, SLOW, JobsVisit, visit
from tests.run import GatewayProcess, as_process


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    home = tmp_path_factory.mktemp("jobs")
    with as_process(home, {"ROUTECODEX_CLOCK_NTP": "off"}) as started:
        yield started


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_job_is_copied_and_deleted(gate: GatewayProcess, language: str) -> None:
    async with visit(gate, language, "Goes") as at:
        name = at.name("Goes")
        await at.add(name)
        copy = at.say("editor.copy_of", name=name)
        await at.choose(name, "jobs.duplicate")
        await at.button("frame.save", at.dialog()).click()
        await expect(at.row(copy)).to_be_visible()
        assert {name, copy} <= (await at.find_jobs()).keys()
        await at.row(copy).get_by_text(copy).click()
        for answer in ("frame.cancel", "jobs.delete"):
            await at.choose(copy, "jobs.delete_menu")
            title = at.say("jobs.delete_title", name=copy)
            await expect(at.dialog().get_by_role("heading")).to_have_text(title)
            await expect(at.button("frame.cancel", at.dialog())).to_be_focused()
            assert copy in await at.find_jobs()
            await at.button(answer, at.dialog()).click()
        await expect(at.toast("jobs.is_deleted", name=copy)).to_be_visible()
        await expect(at.row(copy)).to_have_count(0)
        await expect(at.page.get_by_role("region", name=at.say("job.title"))).to_have_count(0)
        left = await at.find_jobs()
        assert (name in left, copy in left) == (True, False)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_several_jobs_are_changed_at_once(gate: GatewayProcess, language: str) -> None:
    async with visit(gate, language, "Several") as at:
        names = [at.name(f"Several {number}") for number in (1, 2, 3)]
        for name in names:
            await at.add(name)
        await expect(at.row(at.name("Several"))).to_have_count(3)
        first, _, last = (at.row(name).get_by_role("checkbox") for name in names)
        await first.click()
        await last.click(modifiers=["Shift"])
        bar = at.page.get_by_role("group", name=at.say("jobs.picked"))
        await expect(bar).to_contain_text(at.say("jobs.n_picked.other", n=3))
        await at.button("jobs.do_disable", bar).click()
        # While it is pointed at, it stays.
        await at.toast("jobs.bulk_disable.other", n=3).hover()
        await expect(bar).to_be_hidden()
        assert await read_enabled(at, names) == [False] * 3
        await at.button("frame.undo", at.toast("jobs.bulk_disable.other", n=3)).click()
        await expect(at.toast("jobs.bulk_enable.other", n=3)).to_be_visible()
        assert await read_enabled(at, names) == [True] * 3
        await first.click()
        await at.button("jobs.pick_all", bar).click()
        await expect(bar).to_contain_text(at.say("jobs.n_picked.other", n=3))
        await at.button("jobs.do_run", bar).click()
        for name in names:
            await expect(at.row(name)).to_contain_text(at.say("job.run_ok"))
        for name in names[:2]:
            await at.row(name).get_by_role("checkbox").click()
        await at.button("jobs.do_remove", bar).click()
        title = at.say("jobs.delete_several.other", n=2)
        await expect(at.dialog().get_by_role("heading")).to_have_text(title)
        await expect(at.button("frame.cancel", at.dialog())).to_be_focused()
        await at.button("jobs.delete", at.dialog()).click()
        await expect(at.row(at.name("Several"))).to_have_count(1)
        left = await at.find_jobs()
        assert [name for name in names if name in left] == names[2:]


async def read_enabled(at: JobsVisit, names: list[str]) -> list[bool]:
    """Return which of these jobs are enabled."""
    found = await at.find_jobs()
    return [found[name]["enabled"] for name in names]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_jobs_are_found_and_nothing_moves_under_the_pointer(
    gate: GatewayProcess, language: str
) -> None:
    async with visit(gate, language, "Found") as at:
        names = [at.name(f"Found {letter}") for letter in "bca"]
        for name in names:
            await at.add(name, enabled=not name.endswith("a"))
        shown = at.row(at.name("Found")).locator(".c-name")
        await at.page.get_by_label(at.say("jobs.sort")).select_option("name")
        await expect(shown).to_have_text([re.compile(f"^{name}") for name in sorted(names)])
        await at.page.get_by_role("button", name=f"{at.say('jobs.chip_off')} 1").click()
        await expect(shown).to_have_text([re.compile(f"^{names[2]}")])
        await expect(at.page).to_have_url(re.compile(r"q=.*state=off|state=off.*q="))
        await at.page.reload()
        await expect(shown).to_have_text([re.compile(f"^{names[2]}")])
        await at.row(names[2]).hover()
        last = at.name("Found too")
        await at.add(last, enabled=False)
        fresh = at.button("frame.fresh.one", n=1)
        await expect(fresh).to_be_visible()
        await expect(shown).to_have_count(1)
        await fresh.click()
        await expect(shown).to_have_count(2)
        await at.page.get_by_role("searchbox").fill("nothing has this")
        await expect(at.page.get_by_text(at.say("live.none_fits"))).to_be_visible()
        await at.button("live.show_all").click()
        await expect(at.page.get_by_role("grid")).to_be_visible()
        await expect(at.page).to_have_url(re.compile(r"/jobs\?sort=name$"))


@pytest.mark.parametrize("language", LANGUAGES)
async def test_keys_select_switch_and_run_a_job(gate: GatewayProcess, language: str) -> None:
    async with visit(gate, language, "Keys") as at:
        names = [at.name(f"Keys {number}") for number in (1, 2)]
        for name, hour in zip(names, (9, 10), strict=True):
            await at.add(name, schedule_text=f"daily at {hour}am", message=SLOW)
        await expect(at.row(at.name("Keys"))).to_have_count(2)
        press = at.page.keyboard.press
        for _ in names:
            await press("j")
        await expect(at.row(names[1])).to_be_focused()
        await press("x")
        await expect(at.row(names[1]).get_by_role("checkbox")).to_be_checked()
        await press("k")
        await press("e")
        await expect(at.row(names[0])).to_contain_text(at.say("state.off"))
        assert await read_enabled(at, names) == [False, True]
        await press("r")
        await expect(at.row(names[0])).to_contain_text(at.say("job.run_ok"))
        await press("Enter")
        detail = at.page.get_by_role("region", name=at.say("job.title"))
        await expect(detail.get_by_role("heading", level=2)).to_have_text(names[0])
        await press("Escape")
        await expect(detail).to_have_count(0)
        await press("Escape")
        await expect(at.row(names[1]).get_by_role("checkbox")).not_to_be_checked()


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_reminder_is_added_and_cancelled(gate: GatewayProcess, language: str) -> None:
    async with visit(gate, language, "Balcony") as at:
        session = f"balcony-{language}"
        await at.add(at.name("Balcony"), session_id=session)
        await at.page.get_by_role("link", name=at.say("frame.sessions")).click()
        await at.page.get_by_role("link", name=session).click()
        await at.page.get_by_role("tab", name=at.say("session.tab_reminders")).click()
        panel = at.page.get_by_role("tabpanel")
        await expect(panel).to_contain_text(at.say("session.no_reminders"))
        await at.button("session.add_reminder", panel).click()
        add = at.button("session.add_reminder", at.dialog())
        await at.button("session.in_minutes", at.dialog(), n=60).click()
        await add.click()
        # A reminder of nothing is refused, and what was chosen stays.
        await expect(at.dialog().get_by_role("alert")).not_to_be_empty()
        await at.dialog().get_by_label(at.say("session.task")).fill("water them")
        await add.click()
        await expect(panel.get_by_role("listitem")).to_contain_text("water them")
        path = f"sessions/{session}/reminders"
        (reminder,) = (await at.ask(path))["items"]
        due = datetime.fromisoformat(reminder["dueAt"]) - datetime.now(UTC)
        assert reminder["task"] == "water them"
        assert timedelta(minutes=55) < due < timedelta(minutes=61)
        await at.button("frame.cancel", panel).click()
        await expect(panel).to_contain_text(at.say("session.outcome_cancelled"))
        await expect(panel).to_contain_text(at.say("session.no_reminders"))
        assert (await at.ask(path))["items"] == []


ANN, ROOT = "ann-key-000000000000", "root-key-00000000000"
KEYS = [{"key": ANN, "owner": "ann"}, {"key": ROOT, "owner": "root", "admin": True}]


@pytest.fixture(scope="module")
def shared_gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway of two owners, of whom one is an admin."""
    home = tmp_path_factory.mktemp("owners")
    settings = {
        "ROUTECODEX_CLOCK_NTP": "off",
        "HOLDGATE_SERVER__SESSION_DIR": str(home / "sessions"),
        "HOLDGATE_KEYS": json.dumps(KEYS),
    }
    with as_process(home, settings) as started:
        yield started


@pytest.mark.parametrize("language", LANGUAGES)
async def test_an_admin_acts_on_the_jobs_of_others(
    shared_gate: GatewayProcess, language: str
) -> None:
    """Their pages, runs and planned load are there, and several can be changed at once."""
    ann = {"authorization": f"Bearer {ANN}"}
    url = f"{shared_gate.url}/console/jobs"
    async with (
        start_chromium() as chromium,
        chromium.open(url, language=language, tolerated=("401",)) as tab,
    ):
        page = tab.page
        at = JobsVisit(page, shared_gate.url, language)
        first, second = (at.name(f"Of ann {number}") for number in (1, 2))
        for name in (first, second):
            job = await at.add(name, ann, message=SLOW)
        await page.get_by_label(at.say("sign_in.key")).fill(ROOT)
        await page.keyboard.press("Enter")
        await expect(at.row(first)).to_contain_text("ann")
        calendar = page.get_by_role("img", name=re.compile(f"^{at.say('jobs.next_day')}"))
        await expect(calendar).not_to_have_attribute(
            "aria-label", re.compile(at.say("jobs.no_runs"))
        )
        for name in (first, second):
            await at.row(name).get_by_role("checkbox").click()
        bar = page.get_by_role("group", name=at.say("jobs.picked"))
        await at.button("jobs.do_disable", bar).click()
        await expect(at.row(first)).to_contain_text(at.say("state.off"))
        found = await at.find_jobs(ann)
        assert [found[name]["enabled"] for name in (first, second)] == [False, False]
        await at.switch(second).click()
        await expect(at.row(second)).to_contain_text(at.say("state.on"))
        # On a phone a job has a page of its own.
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(f"{shared_gate.url}/console/job?id={job}")
        await expect(page.get_by_role("heading", level=1)).to_have_text(second)
        await at.button("jobs.run").click()
        # It is opened while it runs, and shows by itself how it ended.
        await page.get_by_role("listitem").get_by_role("button").click()
        await expect(at.dialog().locator("pre")).not_to_be_empty()
        found = await at.find_jobs(ann)
        assert (found[second]["enabled"], found[second]["last_status"]) == (True, "ok")
