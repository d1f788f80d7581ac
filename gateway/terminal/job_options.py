"""What can be said to `holdgate jobs`."""

from __future__ import annotations

import argparse
import re
import sys

from gateway.terminal.jobs import Desk, Members

JOB_HELP = "the id that list shows"
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_is_interval = re.compile(r"(?:[0-9]{1,9}(?:ms|s|m|h|d))+").fullmatch
_steps = re.compile(r"([0-9]+)(ms|s|m|h|d)").findall


def add_job_actions(parser: argparse.ArgumentParser, anywhere: argparse.ArgumentParser) -> None:
    """Describe all actions; each has the options that are said anywhere too.

    The parsed arguments hold, as `act`, what is to be done at a `Desk`.
    """
    actions = parser.add_subparsers(required=True, metavar="action")

    def action(name: str, says: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=says, description=says, parents=[anywhere])

    _list(action("list", "show the jobs"))
    _add(action("add", "make a job"))
    remove = action("remove", "delete a job and its runs")
    remove.add_argument("job_id", metavar="JOB", help=JOB_HELP)
    remove.set_defaults(act=lambda desk, given: desk.remove(given.job_id))
    run = action("run", "run a job now; its schedule stays")
    run.add_argument("job_id", metavar="JOB", help=JOB_HELP)
    run.set_defaults(act=lambda desk, given: desk.run(given.job_id))
    _runs(action("runs", "show the runs of a job, the newest first"))


def _list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", default="", metavar="S", help="only those of this session")
    parser.add_argument("--agent", default="", metavar="A", help="only those of this agent")
    parser.add_argument("--all", action="store_true", help="of all owners; an admin's key")
    parser.set_defaults(act=lambda desk, given: desk.list(given.session, given.agent, given.all))


def _runs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job_id", metavar="JOB", help=JOB_HELP)
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (20)")
    parser.add_argument("--full", action="store_true", help="with all that they said")
    parser.set_defaults(act=lambda desk, given: desk.runs(given.job_id, given.limit, given.full))


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--message", required=True, metavar="TEXT", help="what is sent; - reads it from the input"
    )
    when = parser.add_mutually_exclusive_group(required=True)
    when.add_argument("--every", type=_interval, metavar="SPAN", help="such as 30s, 5m, 2h or 1d")
    when.add_argument("--at", metavar="TIME", help="once: 2026-02-03T09:00:00+08:00")
    when.add_argument("--cron", metavar="EXPR", help='such as "30 9 * * MON-FRI"')
    when.add_argument("--text", metavar="WORDS", help='such as "daily at 9am"')
    parser.add_argument("--tz", metavar="ZONE", help="of the time, such as Asia/Shanghai")
    parser.add_argument("--session", metavar="S", help="which session it is for")
    parser.add_argument("--agent", metavar="A", help="which agent it is for")
    parser.add_argument("--name", help="for people")
    parser.add_argument("--model", help="for a session without an agent")
    parser.add_argument(
        "--isolated", action="store_true", help="in a fresh conversation, not the session's"
    )
    parser.add_argument("--disabled", action="store_true", help="let it rest for now")
    parser.add_argument("--delete-after-run", action="store_true", help="once a run went well")
    parser.add_argument("--dedupe-key", metavar="KEY", help="if known, that job is changed instead")
    parser.set_defaults(act=_added)


def _added(desk: Desk, given: argparse.Namespace) -> None:
    desk.add(_wish(given))


def _wish(given: argparse.Namespace) -> Members:
    """Write a job as the API reads it; what was not said is left out."""
    said: dict[str, object] = {
        "message": sys.stdin.read() if given.message == "-" else given.message,
        "schedule": _schedule(given),
        "schedule_text": given.text,
        "session_id": given.session,
        "agent_id": given.agent,
        "name": given.name,
        "model": given.model,
        "dedupe_key": given.dedupe_key,
        "session": "isolated" if given.isolated else None,
        "enabled": False if given.disabled else None,
        "delete_after_run": True if given.delete_after_run else None,
    }
    return {name: value for name, value in said.items() if value is not None}


def _schedule(given: argparse.Namespace) -> Members | None:
    kinds = {"every": given.every, "at": given.at, "cron": given.cron}
    kind = next((name for name, value in kinds.items() if value is not None), None)
    zone = {"tz": given.tz} if given.tz is not None else {}
    if kind is None:
        return zone or None
    return {"kind": kind, "every_ms" if kind == "every" else kind: kinds[kind], **zone}


def _interval(text: str) -> int:
    if not _is_interval(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no span; write 30s, 5m, 2h, 1d or 1h30m")
    return sum(int(number) * UNITS[unit] for number, unit in _steps(text))
