"""What can be said to `holdgate jobs`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from gateway.cli.jobs import JobCommands, Members

JOB_HELP = "the id that list shows"
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_is_interval = re.compile(r"(?:[0-9]{1,9}(?:ms|s|m|h|d))+").fullmatch
_steps = re.compile(r"([0-9]+)(ms|s|m|h|d)").findall


def add_job_actions(parser: argparse.ArgumentParser, anywhere: argparse.ArgumentParser) -> None:
    """Describe all actions; each has the options that are said anywhere too.

    The parsed arguments hold, as `act`, what is to be done with `JobCommands`.
    """
    actions = parser.add_subparsers(required=True, metavar="action")

    def action(name: str, says: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=says, description=says, parents=[anywhere])

    def action_on_job(name: str, says: str, act: Callable[[JobCommands, str], None]) -> None:
        one = action(name, says)
        one.add_argument("job_id", metavar="JOB", help=JOB_HELP)
        one.set_defaults(act=lambda commands, given: act(commands, given.job_id))

    _add_list_options(action("list", "show the jobs"))
    _add_wish_options(action("add", "make a job"))
    _add_change_options(action("update", "change what is named of a job; the rest stays"))
    action_on_job("enable", "let a job run again", JobCommands.enable)
    action_on_job("disable", "let a job rest; it stays in the list", JobCommands.disable)
    action_on_job("remove", "delete a job and its runs", JobCommands.remove)
    action_on_job("run", "run a job now; its schedule stays", JobCommands.run)
    _add_runs_options(action("runs", "show the runs of a job, the newest first"))


def _add_list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", default="", metavar="S", help="only those of this session")
    parser.add_argument("--agent", default="", metavar="A", help="only those of this agent")
    parser.add_argument("--all", action="store_true", help="of all owners; an admin's key")
    parser.set_defaults(
        act=lambda commands, given: commands.list(given.session, given.agent, given.all)
    )


def _add_runs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job_id", metavar="JOB", help=JOB_HELP)
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (20)")
    parser.add_argument("--full", action="store_true", help="with all that they said")
    parser.set_defaults(
        act=lambda commands, given: commands.runs(given.job_id, given.limit, given.full)
    )


def _add_wish_options(parser: argparse.ArgumentParser) -> None:
    _add_job_options(parser, is_new=True)
    parser.add_argument("--session", metavar="S", help="which session it is for")
    parser.add_argument("--agent", metavar="A", help="which agent it is for")
    parser.add_argument(
        "--isolated", action="store_true", help="in a fresh conversation, not the session's"
    )
    parser.add_argument("--disabled", action="store_true", help="let it rest for now")
    parser.add_argument("--delete-after-run", action="store_true", help="once a run went well")
    parser.set_defaults(act=lambda commands, given: commands.add(_read_wish(given)))


def _add_change_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job_id", metavar="JOB", help=JOB_HELP)
    _add_job_options(parser, is_new=False)
    either = argparse.BooleanOptionalAction
    parser.add_argument("--isolated", action=either, help="in a fresh conversation, or not")
    parser.add_argument("--delete-after-run", action=either, help="once a run went well, or not")
    parser.set_defaults(act=lambda commands, given: commands.update(_read_change(parser, given)))


def _add_job_options(parser: argparse.ArgumentParser, is_new: bool) -> None:
    """Describe what a job has when it is made, and may be changed later."""
    parser.add_argument(
        "--message", required=is_new, metavar="TEXT", help="what is sent; - reads it from the input"
    )
    when = parser.add_mutually_exclusive_group(required=is_new)
    when.add_argument("--every", type=_interval, metavar="SPAN", help="such as 30s, 5m, 2h or 1d")
    when.add_argument("--at", metavar="TIME", help="once: 2026-02-03T09:00:00+08:00")
    when.add_argument("--cron", metavar="EXPR", help='such as "30 9 * * MON-FRI"')
    when.add_argument("--text", metavar="WORDS", help='such as "daily at 9am"')
    parser.add_argument("--tz", metavar="ZONE", help="of the time, such as Asia/Shanghai")
    parser.add_argument("--name", help="for people")
    parser.add_argument("--model", help="for a session without an agent")
    parser.add_argument("--dedupe-key", metavar="KEY", help="add with a known key changes that job")


def _read_wish(given: argparse.Namespace) -> Members:
    """Write a job as the API reads it; what was not said is left out."""
    return _read_job(
        given,
        session_id=given.session,
        agent_id=given.agent,
        session="isolated" if given.isolated else None,
        enabled=False if given.disabled else None,
        delete_after_run=given.delete_after_run or None,
    )


def _read_change(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Members:
    """Write what is to change about a job as the API reads it."""
    places = {True: "isolated", False: "main", None: None}
    session, deletes = places[given.isolated], given.delete_after_run
    change = _read_job(given, session=session, delete_after_run=deletes)
    if not change:
        parser.error("there is nothing to change; give an option such as --message or --every")
    return {"job_id": given.job_id, **change}


def _read_job(given: argparse.Namespace, **more: object) -> Members:
    """Return what was said of a job; what was not is left out."""
    said = {
        "message": sys.stdin.read() if given.message == "-" else given.message,
        "schedule": _read_schedule(given),
        "schedule_text": given.text,
        "name": given.name,
        "model": given.model,
        "dedupe_key": given.dedupe_key,
        **more,
    }
    return {name: value for name, value in said.items() if value is not None}


def _read_schedule(given: argparse.Namespace) -> Members | None:
    kinds = {"every": given.every, "at": given.at, "cron": given.cron}
    kind = next((name for name, value in kinds.items() if value is not None), None)
    zone = {"tz": given.tz} if given.tz is not None else {}
    if kind is None:
        return zone or None
    return {"kind": kind, "every_ms" if kind == "every" else kind: kinds[kind], **zone}


def _interval(text: str) -> int:
    if not _is_interval(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time span; write 30s, 5m, 2h, 1d or 1h30m"
        )
    return sum(int(number) * UNITS[unit] for number, unit in _steps(text))
