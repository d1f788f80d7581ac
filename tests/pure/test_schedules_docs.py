"""The page for users says what the code does."""

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import to_builtins

from gateway.errors import InvalidInput
from gateway.jobs.model import JobRules
from gateway.jobs.schedule.cron import LONGEST, NICKNAMES
from gateway.jobs.schedule.model import At, Cron, Every, Schedule, show_schedule
from gateway.jobs.schedule.reader import LONGEST_TEXT, read_schedule

PAGE = Path(__file__).parents[2].joinpath("docs/schedules.md").read_text()
NOW = 1_770_067_358_229
RULES = JobRules(timezone="Asia/Shanghai")
HOURLY = JobRules(timezone="Asia/Shanghai", min_interval_ms=3_600_000)
TEN = int(datetime(2026, 2, 4, 2, tzinfo=UTC).timestamp()) * 1000


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text: str) -> list[tuple[str, str]]:
    """Each example in the first column of the tables, with what the second says."""
    lines = text.splitlines()
    headings = {above for above, rule in pairwise(lines) if rule.startswith("|--")}
    rows = [line for line in lines if line.startswith("| `") and line not in headings]
    cells = [row.strip("| ").split(" | ", 1) for row in rows]
    return [(one, said) for first, said in cells for one in re.findall(r"`([^`]+)`", first)]


def read(text: str, given: dict[str, object] | None = None) -> Schedule:
    return read_schedule(given or {}, text, NOW, RULES)


def refusal(given: dict[str, object], text: str, rules: JobRules) -> str:
    with pytest.raises(InvalidInput) as refused:
        read_schedule(given, text, NOW, rules)
    return str(refused.value)


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_are_read(block: str) -> None:
    given = json.loads(block)
    schedule = given.get("schedule", {} if "schedule_text" in given else given)
    read(given.get("schedule_text", ""), schedule)


def test_what_was_written_is_read_back() -> None:
    first, second, shown = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[:3]
    schedule = read("", json.loads(first)["schedule"])
    assert to_builtins(show_schedule(schedule)) == json.loads(shown)
    assert read(json.loads(second)["schedule_text"]) == Cron("30 18 * * 1-5", "Asia/Shanghai")


@pytest.mark.parametrize("at, said", rows(section("Once: `at`")))
def test_forms_of_at(at: str, said: str) -> None:
    found = read("", {"kind": "at", "at": json.loads(at)})
    assert found == At(TEN, "Asia/Shanghai" if "wall clock" in said else "")


@pytest.mark.parametrize("text, said", rows(section("In words: `schedule_text`")))
def test_words_mean_what_is_said(text: str, said: str) -> None:
    found = read(text)
    match found:
        case Cron(expression):
            assert said in (f"`{expression}`", "the cron expression")
        case Every():
            assert said == "an interval from now on"
        case At():
            assert said.startswith("once, ")


ZONED = section("In words: `schedule_text`").partition("A zone may follow")[2]


@pytest.mark.parametrize("text", re.findall(r"`([^`]+)`", ZONED)[:3])
def test_a_zone_may_follow(text: str) -> None:
    found = read(text)
    assert isinstance(found, Cron)
    assert found.tz in text


REFUSED = section("What is refused")
GENERAL, _, REST = REFUSED.partition("With `cron.min_interval_ms = 3600000`:")
LIMITED, _, WORDS = REST.partition("| `schedule_text` |")


@pytest.mark.parametrize("given, sentence", rows(GENERAL))
def test_refusals(given: str, sentence: str) -> None:
    assert refusal(json.loads(given), "", RULES) == sentence


@pytest.mark.parametrize("given, sentence", rows(LIMITED))
def test_refusals_where_jobs_may_run_hourly(given: str, sentence: str) -> None:
    assert refusal(json.loads(given), "", HOURLY) == sentence


@pytest.mark.parametrize("text, sentence", rows(WORDS))
def test_refusals_of_words(text: str, sentence: str) -> None:
    assert refusal({}, text, RULES) == f"schedule_text {text!r}: {sentence}"


def test_the_tables_are_found() -> None:
    assert [len(rows(part)) for part in (GENERAL, LIMITED, WORDS)] == [27, 3, 13]


def test_limits_and_nicknames_are_those_in_force() -> None:
    assert (
        f"A `schedule_text` may have {LONGEST_TEXT} characters, a cron expression {LONGEST}."
        in PAGE
    )
    assert all(f"`{name}`" in PAGE for name in NICKNAMES)
