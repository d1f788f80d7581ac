"""What a person does with one job in the console, in a real browser and in both languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from playwright.async_api import Locator, Route, expect

from tests.console.jobs_visit import LANGUAGES, SLOW, JobsVisit, visit
from tests.run import GatewayProcess, as_process

ZONE = "Asia/Shanghai"
DAY = datetime.now(UTC).date() + timedelta(days=30)


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    home = tmp_path_factory.mktemp("jobs")
    with as_process(home, {"ROUTECODEX_CLOCK_NTP": "off"}) as started:
        yield started


async def begin_job(at: JobsVisit, name: str) -> Locator:
    """Open the editor, and say all but when; return the dialog."""
    await at.button("jobs.new").first.click()
    dialog = at.dialog()
    await dialog.get_by_label(at.say("editor.message")).fill("a word")
    await dialog.get_by_label(at.say("editor.name")).fill(name)
    await dialog.get_by_label(at.say("editor.session_id"), exact=True).fill("garden")
    return dialog


async def choose_once(at: JobsVisit, dialog: Locator) -> None:
    await at.button("when.once", dialog).click()
    field = dialog.locator("input[type=datetime-local]")
    await field.fill(f"{DAY}T07:08")


async def choose_interval(at: JobsVisit, dialog: Locator) -> None:
    await at.button("when.every", dialog).click()
    await dialog.get_by_label(at.say("when.number")).fill("20")
    await dialog.get_by_label(at.say("when.unit")).select_option("hours")


async def choose_cron(at: JobsVisit, dialog: Locator) -> None:
    await at.button("when.cron", dialog).click()
    for name, value in (("minute", "15"), ("hour", "6"), ("weekday", "2")):
        await dialog.get_by_label(at.say(f"when.cron_{name}"), exact=True).fill(value)


async def choose_days(at: JobsVisit, dialog: Locator) -> None:
    await at.button("when.days", dialog).click()
    for day in ("tue", "thu", "fri"):
        await at.button(f"when.{day}", dialog).click()
    await dialog.get_by_label(at.say("when.time")).fill("21:45")


async def type_words(at: JobsVisit, dialog: Locator) -> None:
    words = {"en": "every weekday at 18:30", "zh": "工作日 18:30"}[at.language]
    await dialog.get_by_label(at.say("when.when"), exact=True).fill(words)


KINDS = (
    ("Once", choose_once, 1, {"kind": "at", "at": f"{DAY - timedelta(days=1)}T23:08:00.000Z"}),
    ("Interval", choose_interval, 5, {"kind": "every", "every_ms": 72_000_000}),
    ("Cron", choose_cron, 5, {"kind": "cron", "cron": "15 6 * * 2", "tz": ZONE}),
    ("Days", choose_days, 5, {"kind": "cron", "cron": "45 21 * * 1,3", "tz": ZONE}),
    ("Words", type_words, 5, {"kind": "cron", "cron": "30 18 * * 1-5", "tz": ZONE}),
)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_job_of_each_kind_is_made_with_a_preview(
    gate: GatewayProcess, language: str
) -> None:
    async with visit(gate, language, "Made") as at:
        for kind, choose, times, schedule in KINDS:
            name = at.name(f"Made {kind}")
            dialog = await begin_job(at, name)
            await choose(at, dialog)
            preview = dialog.locator("#when-preview")
            # Until the preview is that of the last key, nothing can be saved.
            await expect(at.button("frame.save", dialog)).to_be_enabled()
            await expect(preview.get_by_role("row")).to_have_count(times + 1)
            words = await preview.locator("b").inner_text()
            await at.button("frame.save", dialog).click()
            await expect(dialog).to_have_count(0)
            await expect(at.row(name)).to_contain_text(words)
            job = (await at.find_jobs())[name]
            assert job["words"][language] == words
            assert {key: job["schedule"][key] for key in schedule} == schedule
            assert (job["enabled"], len(job["next_times"])) == (True, times)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_the_preview_refuses_cannot_be_saved(
    gate: GatewayProcess, language: str
) -> None:
    """Save says what is still needed, and when the time is refused, the server says why."""
    async with visit(gate, language, "Refused") as at:
        await at.page.keyboard.press("n")
        dialog, needed = at.dialog(), at.page.locator("#job-needed")
        save = at.button("frame.save", dialog)
        await expect(save).to_be_disabled()
        whole = [at.say(f"editor.need_{name}") for name in ("message", "when", "session")]
        await expect(needed).to_have_text(
            at.say("editor.need", what=at.say("when.comma").join(whole))
        )
        await dialog.get_by_label(at.say("editor.message")).fill("a word")
        await dialog.get_by_label(at.say("editor.name")).fill(at.name("Refused"))
        when = dialog.get_by_label(at.say("when.when"), exact=True)
        await when.fill("when pigs fly")
        refused = await at.page.request.post(
            f"{at.url}/api/cron/preview", data={"when": "when pigs fly", "tz": ZONE}
        )
        reason = (await refused.json())["error"]["message"]
        await expect(dialog.locator("#when-preview")).to_have_text(reason)
        await expect(when).to_have_attribute("aria-invalid", "true")
        await expect(needed).to_contain_text(at.say("editor.need_when_ok"))
        await expect(save).to_be_disabled()
        await when.fill("15m")
        await expect(dialog.locator("#when-preview").get_by_role("row")).to_have_count(6)
        # An agent has a session of its own; without either the message goes nowhere.
        await expect(needed).to_have_text(at.say("editor.need", what=at.say("editor.need_session")))
        await expect(save).to_be_disabled()
        await dialog.get_by_label(at.say("editor.agent_id")).select_option("demo")
        await expect(needed).to_have_text("")
        await expect(save).to_be_enabled()
        await at.page.keyboard.press("Escape")
        # What was typed is not lost by a slip.
        await at.button("frame.undo", at.toast("editor.closed")).click()
        await expect(dialog.get_by_label(at.say("editor.name"))).to_have_value(at.name("Refused"))
        await expect(save).to_be_enabled()
        await save.click()
        await expect(at.row(at.name("Refused"))).to_be_visible()
        job = (await at.find_jobs())[at.name("Refused")]
        assert (job["agent_id"], job["schedule"]["every_ms"]) == ("demo", 900_000)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_job_fires_by_itself_and_leads_to_its_exchange(
    gate: GatewayProcess, language: str
) -> None:
    async with visit(gate, language, "Fires") as at:
        name, row = at.name("Fires"), at.row(at.name("Fires"))
        job = await at.add(name, schedule={"kind": "at", "at": f"{DAY}T07:08:00Z"})
        await expect(row).to_contain_text(at.say("state.on"))
        due = datetime.now(UTC) + timedelta(seconds=4)
        await at.send("cron/update", job_id=job, schedule={"kind": "at", "at": due.isoformat()})
        await expect(row).to_contain_text(at.say("job.run_ok"))
        await expect(row).to_contain_text(at.say("jobs.after_once"))
        await expect(row.get_by_role("img")).to_have_attribute(
            "aria-label", at.say("jobs.ticks", n=1, bad=0)
        )
        # It has no time left: the switch returns, and the server says why.
        await at.switch(name).click()
        await expect(at.page.locator(".toast.bad")).to_contain_text("is in the past")
        await expect(at.switch(name)).to_have_attribute("aria-checked", "false")
        (run,) = (await at.ask("cron/runs", job_id=job))["data"]["runs"]
        await row.get_by_text(name).click()
        detail = at.page.get_by_role("region", name=at.say("job.title"))
        # However little it is.
        late = at.say("job.late", time=show_duration(run["late_ms"], at))
        listed = detail.get_by_role("listitem").get_by_role("button")
        await expect(listed).to_contain_text(late)
        await listed.click()
        dialog = at.dialog()
        await expect(dialog).to_contain_text(late)
        await expect(dialog.locator("pre")).to_have_text(run["result"])
        await expect(dialog).to_contain_text(at.say("job.by_timer"))
        await dialog.get_by_role("link", name=run["exchange_id"]).click()
        await expect(at.page).to_have_url(re.compile(f"exchange\\?id={run['exchange_id']}$"))
        await expect(at.page.locator("main")).to_contain_text(at.say("state.done"))
        await expect(dialog).to_have_count(0)
        await at.page.go_back()
        await expect(detail).to_contain_text(name)


def show_duration(ms: int, at: JobsVisit) -> str:
    """Write a duration as the page does."""
    if ms < 1000:
        return at.say("frame.span_ms", n=ms)
    return at.say("frame.span_s", n=f"{ms / 1000:.1f}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_job_is_switched_off_and_on_and_run(gate: GatewayProcess, language: str) -> None:
    async with visit(gate, language, "Off") as at:
        kept, undone = at.name("Off and stays"), at.name("Off and on")
        for name in (kept, undone):
            await at.add(name, message=SLOW)
        await expect(at.row(at.name("Off"))).to_have_count(2)
        await at.switch(kept).click()
        notice = at.toast("jobs.is_off", name=kept)
        await expect(notice).to_be_visible()
        await expect(at.switch(kept)).to_have_attribute("aria-checked", "false")
        await expect(at.row(kept)).to_contain_text(at.say("state.off"))
        await at.switch(undone).click()
        # While it is pointed at, it stays.
        await at.toast("jobs.is_off", name=undone).hover()
        assert not (await at.find_jobs())[undone]["enabled"]
        await at.button("frame.undo", at.toast("jobs.is_off", name=undone)).click()
        await expect(at.switch(undone)).to_have_attribute("aria-checked", "true")
        await expect(at.row(undone)).to_contain_text(at.say("state.on"))
        assert (await at.find_jobs())[undone]["enabled"]
        await run_now(at, undone)
        # The notice leaves by itself, and the job stays off.
        await expect(notice).to_have_count(0)
        assert not (await at.find_jobs())[kept]["enabled"]
        await at.switch(kept).click()
        await expect(at.row(kept)).to_contain_text(at.say("state.on"))
        assert (await at.find_jobs())[kept]["enabled"]


async def run_now(at: JobsVisit, name: str) -> None:
    """Run a job by its button: it is queued, runs, and has run."""
    sent = anyio.Event()

    async def wait(route: Route) -> None:
        await sent.wait()
        await route.continue_()

    await at.page.route("**/cron/run", wait)
    play = at.button("jobs.run_named", at.row(name), name=name)
    await play.click()
    await expect(at.row(name)).to_contain_text(at.say("jobs.queued"))
    sent.set()
    await expect(at.row(name)).to_contain_text(at.say("state.running"))
    due = at.say("jobs.due", time="")
    await expect(at.row(name).locator(".c-next")).to_contain_text(due.strip())
    await expect(at.row(name)).to_contain_text(at.say("job.run_ok"))
    await at.page.unroute("**/cron/run")
    job = (await at.find_jobs())[name]
    (run,) = (await at.ask("cron/runs", job_id=job["job_id"]))["data"]["runs"]
    assert (run["trigger"], run["status"], job["last_status"]) == ("manual", "ok", "ok")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_two_who_change_one_job_see_both_versions(
    gate: GatewayProcess, language: str
) -> None:
    async with visit(gate, language, "Both") as at:
        name, mine, theirs = (at.name(f"Both {one}") for one in ("before", "mine", "theirs"))
        job = await at.add(name)
        dialog = await edit(at, name)
        await dialog.get_by_label(at.say("editor.name")).fill(mine)
        await at.send("cron/update", job_id=job, name=theirs, schedule_text="every 2 hours")
        await at.button("frame.save", dialog).click()
        table = dialog.locator("table.both")
        for cell in (mine, theirs, at.say("editor.mine"), at.say("editor.theirs")):
            await expect(table).to_contain_text(cell)
        times = (await at.find_jobs())[theirs]["words"][language]
        await expect(table).to_contain_text(times)
        assert mine not in await at.find_jobs()
        await at.button("editor.keep_mine", dialog).click()
        await expect(at.row(mine)).to_be_visible()
        kept = (await at.find_jobs())[mine]
        assert (kept["job_id"], kept["schedule"]["cron"]) == (job, "0 9 * * *")

        dialog = await edit(at, mine)
        await dialog.get_by_label(at.say("editor.message")).fill("another word")
        await at.send("cron/update", job_id=job, message="their word", schedule_text="in 3 days")
        await at.button("frame.save", dialog).click()
        await at.button("editor.take_theirs", dialog).click()
        message = dialog.get_by_label(at.say("editor.message"))
        await expect(message).to_have_value("their word")
        await expect(table).to_have_count(0)
        await dialog.get_by_label(at.say("editor.name")).fill(theirs)
        await at.button("frame.save", dialog).click()
        await expect(at.row(theirs)).to_be_visible()
        taken = (await at.find_jobs())[theirs]
        assert (taken["payload"]["message"], taken["schedule"]["kind"]) == ("their word", "at")


async def edit(at: JobsVisit, name: str) -> Locator:
    """Open the editor of a job; return its dialog."""
    await at.choose(name, "jobs.edit")
    await expect(at.dialog().get_by_label(at.say("editor.name"))).to_have_value(name)
    await expect(at.button("frame.save", at.dialog())).to_be_enabled()
    return at.dialog()
