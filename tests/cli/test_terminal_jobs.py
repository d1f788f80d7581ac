"""`holdgate jobs`, as a person meets it, before a real gateway."""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gateway.__main__ import main
from gateway.cli.tables import width
from tests.test_command_line import holdgate, serving

from .seat import seated

SAYS = 'demo: say="Nothing is new."'
AGENTS = [{"id": "helper", "model": "demo"}]
OWNERS = {"ann": False, "bob": False, "root": True}
KEYS = [
    {"owner": owner, "key_sha256": hashlib.sha256(owner.encode()).hexdigest(), "admin": admin}
    for owner, admin in OWNERS.items()
]
SETTINGS = {"HOLDGATE_STORE__URL": "memory:", "HOLDGATE_AGENTS": json.dumps(AGENTS)}
JOB = re.compile(r"job_\w+")

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("gate"), **SETTINGS) as gate:
        yield gate.url


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in ("HOLDGATE_URL", "HOLDGATE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def ask(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Ask]:
    """Ask the gateway for something that is granted, and leave no job behind."""
    monkeypatch.setenv("HOLDGATE_URL", url)

    def asked(*arguments: str) -> str:
        assert main(["jobs", *arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    yield asked
    for job in JOB.findall(asked("list")):
        asked("remove", job)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Ask for something that is not granted; return the sentence that says why."""
    assert main(["jobs", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("holdgate: ")
    assert err.endswith((".\n", "?\n"))
    assert err.count("\n") == 1
    return err.removeprefix("holdgate: ").removesuffix("\n")


def added(ask: Ask, *arguments: str, message: str = SAYS) -> str:
    """Add a job; return its id."""
    (job,) = JOB.findall(ask("add", "--message", message, *arguments))
    return str(job)


def columns(shown: str) -> list[dict[str, str]]:
    """Read a table: each row's cells by their headings."""
    head, *rows = shown.splitlines()
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S+(?: \S+)*", head)]
    cuts = list(zip(starts, [*starts[1:], None], strict=True))
    return [{head[a:b].strip(): row[a:b].strip() for a, b in cuts} for row in rows]


def test_a_job_is_added_listed_run_and_removed(ask: Ask) -> None:
    assert ask("list") == "There are no jobs.\n"
    told = ask("add", "--message", SAYS, "--every", "1h30m", "--agent", "helper", "--name", "news")
    (job,) = JOB.findall(told)
    assert re.fullmatch(
        rf"{job} added: news, every 90 minutes; next run \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\n", told
    )
    (row,) = columns(ask("list"))
    assert list(row) == ["JOB", "NAME", "SESSION", "WHEN", "NEXT RUN", "LAST RUN"]
    assert (row["JOB"], row["NAME"], row["SESSION"]) == (job, "news", "helper")
    assert row["NEXT RUN"] in told
    assert row["LAST RUN"] == "-"
    assert ask("runs", job) == "The job has not run yet.\n"
    assert ask("run", job).startswith(f"{job} is started")
    run = finished(ask, job)
    assert (run["BY"], run["STATUS"], run["WHAT CAME OF IT"]) == ("manual", "ok", "Nothing is new.")
    assert re.fullmatch(r"\d+\.\d s", run["TOOK"])
    assert columns(ask("list"))[0]["LAST RUN"].endswith(" ok")
    assert ask("runs", job, "--full").splitlines()[1:] == ["Nothing is new."]
    assert ask("remove", job) == f"{job} is removed.\n"
    assert ask("list") == "There are no jobs.\n"


def finished(ask: Ask, job: str) -> dict[str, str]:
    """Wait until a job's only run has ended; return it."""
    until = time.monotonic() + 10
    while True:
        (run,) = columns(ask("runs", job))
        if run["STATUS"] != "running":
            return run
        assert time.monotonic() < until


@pytest.mark.parametrize(
    ("options", "when"),
    [
        (["--every", "90s"], "every 90 seconds"),
        (["--every", "1h"], "every hour"),
        (["--cron", "0 9 * * *", "--tz", "Europe/London"], "daily at 09:00 (Europe/London)"),
        (["--text", "weekdays at 18:30", "--tz", "UTC"], "weekdays at 18:30 (UTC)"),
        (["--at", "2099", "--tz", "UTC"], None),
    ],
)
def test_when_it_is_due_can_be_said_in_four_ways(
    options: list[str], when: str | None, ask: Ask
) -> None:
    if when is None:
        tomorrow = time.strftime("%Y-%m-%dT09:00:00", time.gmtime(time.time() + 86_400))
        options = ["--at", tomorrow, "--tz", "UTC"]
        when = f"once on {tomorrow[:10]} at 09:00 (UTC)"
    added(ask, *options, "--session", "s")
    (row,) = columns(ask("list"))
    assert row["WHEN"] == when
    if "once" in when:
        # The time of this terminal, eight hours ahead.
        assert row["NEXT RUN"] == f"{tomorrow[:10]} 17:00:00"


def test_all_else_that_a_job_has(ask: Ask) -> None:
    options = ("--session", "s", "--isolated", "--disabled", "--delete-after-run")
    job = added(ask, "--text", "hourly", "--model", "demo", "--dedupe-key", "k", *options)
    (shown,) = json.loads(ask("list", "--json"))["jobs"]
    assert shown["job_id"] == job
    assert (shown["session"], shown["session_id"], shown["dedupe_key"]) == ("isolated", "s", "k")
    assert (shown["enabled"], shown["delete_after_run"]) == (False, True)
    assert columns(ask("list"))[0]["NEXT RUN"] == "disabled"
    again = ask("add", "--message", "x", "--text", "hourly", "--session", "s", "--dedupe-key", "k")
    assert again.startswith(f"{job} changed: ")


def test_a_job_is_changed_and_the_rest_stays(ask: Ask) -> None:
    job = added(ask, "--text", "hourly", "--session", "s", "--name", "news", "--isolated")
    told = ask("update", job, "--every", "2h", "--message", "What now?")
    assert told.startswith(f"{job} changed: news, every 2 hours; next run ")
    ask("update", job, "--no-isolated", "--delete-after-run", "--dedupe-key", "k")
    (shown,) = json.loads(ask("list", "--json"))["jobs"]
    assert shown["payload"] == {"message": "What now?"}
    assert (shown["name"], shown["session"], shown["dedupe_key"]) == ("news", "main", "k")
    assert (shown["delete_after_run"], shown["schedule"]["every_ms"]) == (True, 7_200_000)


def test_a_job_rests_until_it_is_enabled(ask: Ask) -> None:
    job = added(ask, "--text", "hourly", "--session", "s", "--name", "news")
    told = ask("disable", job)
    assert told == f"{job} is disabled; `holdgate jobs enable {job}` lets it run again.\n"
    assert columns(ask("list"))[0]["NEXT RUN"] == "disabled"
    assert ask("enable", job).startswith(f"{job} enabled: news, hourly")
    assert columns(ask("list"))[0]["NEXT RUN"] != "disabled"


def test_a_sentence_quotes_what_was_said_as_it_was_said(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wish = ("--message", "m", "--session", "s", "--text", "session_id schedule.at")
    assert "session_id schedule.at" in refused(capsys, "add", *wish, "--url", url)


def test_lines_into_a_pipe_are_whole(ask: Ask) -> None:
    name = "the quick brown fox jumps over the lazy dog " * 2
    added(ask, "--cron", "0 9 1,15 * MON", "--session", "s" * 60, "--name", name.strip())
    (row,) = columns(ask("list"))
    assert (row["NAME"], row["SESSION"]) == (name.strip(), "s" * 60)


async def test_a_list_fits_the_terminal(ask: Ask, url: str) -> None:
    names = ["The weather of tomorrow for the whole team", "日程助手的每日新闻摘要和天气预报"]
    for name in names:
        added(
            ask,
            "--text",
            "weekdays at 18:30",
            "--session",
            "a-long-session-id-0001",
            "--name",
            name,
        )
    jobs = JOB.findall(ask("list"))
    for wide in (120, 80, 60, 44):
        async with seated("jobs", "list", "--url", url, columns=wide) as seat:
            await seat.sees_end()
        shown = [line for line in seat.lines if line]
        assert len(shown) == 3
        assert all(width(line) <= wide for line in shown)
        assert [job for line in shown for job in JOB.findall(line)] == jobs


def test_only_those_of_a_session_or_an_agent(ask: Ask) -> None:
    one = added(ask, "--text", "hourly", "--session", "one")
    two = added(ask, "--text", "hourly", "--session", "two", "--agent", "helper")
    assert JOB.findall(ask("list")) == [one, two]
    assert JOB.findall(ask("list", "--session", "one")) == [one]
    assert JOB.findall(ask("list", "--agent", "helper")) == [two]


def test_the_message_may_come_from_the_input(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
    added(ask, "--text", "hourly", "--session", "s", message="-")
    (shown,) = json.loads(ask("list", "--json"))["jobs"]
    assert shown["payload"] == {"message": "two\nlines"}


def test_what_others_wrote_does_not_move_the_cursor(ask: Ask) -> None:
    job = added(ask, "--text", "hourly", "--session", "s", "--name", "a\x1b[2Jb", message=SAYS)
    told = 'demo: say="one\\u001b[2Jtwo\\nthree"'
    other = added(ask, "--text", "hourly", "--session", "s", message=told)
    ask("run", other)
    assert finished(ask, other)["WHAT CAME OF IT"] == "one [2Jtwo three"
    assert "\x1b" not in ask("list") + ask("runs", other, "--full")
    assert f"{job}  a [2Jb" in ask("list")


def test_json_is_what_was_answered(ask: Ask) -> None:
    wish = ("--message", SAYS, "--text", "hourly", "--session", "s")
    made = json.loads(ask("add", *wish, "--json"))
    job = made["job"]["job_id"]
    assert made["deduped"] is False
    assert json.loads(ask("list", "--json"))["jobs"] == [made["job"]]
    assert json.loads(ask("runs", job, "--json")) == {"job_id": job, "runs": [], "next": None}
    assert json.loads(ask("run", job, "--json"))["queued"] is True
    finished(ask, job)
    assert json.loads(ask("remove", job, "--json")) == {"removed": True}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["remove", "job_x"], "No job has the id 'job_x'."),
        (["enable", "job_x"], "No job has the id 'job_x'."),
        (["disable", "job_x"], "No job has the id 'job_x'."),
        (["update", "job_x", "--name", "n"], "No job has the id 'job_x'."),
        (["run", "job_x"], "No job has the id 'job_x'."),
        (["runs", "job_x"], "No job has the id 'job_x'."),
        (["add", "--message", "m", "--text", "hourly"], "--session is missing; "),
        (["add", "--message", " ", "--text", "hourly", "--session", "s"], "--message is empty; "),
        (["add", "--message", "m", "--text", "now and then", "--session", "s"], "--text "),
        (["add", "--message", "m", "--cron", "0 0 31 2 *", "--session", "s"], "--cron "),
        (
            ["add", "--message", "m", "--every", "1ms", "--session", "s"],
            "--every must be from 1000ms to 366d.",
        ),
        (["add", "--message", "m", "--text", "hourly", "--agent", "who"], "--agent: there is no "),
    ],
)
def test_a_refusal_names_the_options(
    arguments: list[str], says: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *arguments, "--url", url).startswith(says)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["show"],
        ["remove"],
        ["enable"],
        ["update"],
        ["update", "job_x"],
        ["add", "--message", "m"],
        ["add", "--text", "hourly"],
        ["add", "--message", "m", "--text", "hourly", "--every", "5m"],
        ["add", "--message", "m", "--every", "5"],
        ["add", "--message", "m", "--every", "soon"],
    ],
)
def test_what_cannot_be_meant_is_told_with_the_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["jobs", *arguments])
    assert left.value.code == 2
    assert "usage: holdgate jobs" in capsys.readouterr().err


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    says = "no gateway answers at http://127.0.0.1:9; is `holdgate serve` running?"
    assert refused(capsys, "list", "--url", "http://127.0.0.1:9") == says


@pytest.mark.parametrize("wrong", ["127.0.0.1:8787", "localhost:8787", "http://a:b", "ftp://x"])
def test_no_address(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    says = f"{wrong} is not a URL; write it like http://127.0.0.1:8787."
    assert refused(capsys, "list", "--url", wrong) == says


class Stranger(BaseHTTPRequestHandler):
    """Answers whatever it is asked, and not what was asked for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"data": {"jobs": "many"}}')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_somebody_else_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        answering = Thread(target=server.handle_request)
        answering.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert (
            refused(capsys, "list", "--url", url)
            == f"the server at {url} is not a Holdgate gateway."
        )
        answering.join()


def test_without_an_address_the_configuration_says_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "holdgate.toml"
    config.write_text(f"[server]\nport = {url.rpartition(':')[2]}\n")
    assert main(["jobs", "list"]) == 0
    other = tmp_path / "other.toml"
    other.write_text("[server]\nport = 0\n")
    assert "name it with --url" in refused_after(capsys, "list", "--config", str(other))
    other.write_text('[server]\nhost = "::1"\nport = 9\n')
    assert "http://[::1]:9;" in refused_after(capsys, "list", "--config", str(other))
    config.write_text("[server]\nprot = 1\n")
    assert main(["jobs", "list"]) == 1
    assert "port" in capsys.readouterr().err


def refused_after(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    return refused(capsys, *arguments)


def test_keys_say_whose_jobs_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyed: dict[str, Any] = {**SETTINGS, "HOLDGATE_KEYS": json.dumps(KEYS)}
    with serving(tmp_path, **keyed) as gate:
        monkeypatch.setenv("HOLDGATE_URL", gate.url)
        assert refused(capsys, "list").startswith("the gateway needs a key; ")
        assert refused(capsys, "list", "--key", "eve") == "This key is not known to the gateway."
        monkeypatch.setenv("HOLDGATE_KEY", "ann")
        wish = ("--message", SAYS, "--text", "hourly", "--session", "s")
        assert main(["jobs", "add", *wish]) == 0
        (job,) = JOB.findall(capsys.readouterr().out)
        assert refused(capsys, "remove", job, "--key", "bob") == f"No job has the id '{job}'."
        assert refused(capsys, "list", "--all") == "This request needs the key of an admin."
        assert main(["jobs", "list", "--all", "--key", "root"]) == 0
        assert job in capsys.readouterr().out


def test_as_a_process_a_refusal_is_one_line_and_status_1(url: str, tmp_path: Path) -> None:
    result = holdgate("jobs", "runs", "job_x", "--url", url, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "holdgate: No job has the id 'job_x'.\n"
