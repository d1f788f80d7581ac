"""The command line: its commands and their options."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gateway.cli.completion import SHELLS, write_completion
from gateway.cli.copy import add_copy_options, run_copy
from gateway.cli.gateway_commands import run_chat, run_jobs, run_usage
from gateway.cli.init import add_init_options
from gateway.cli.job_options import add_job_actions
from gateway.cli.keys import add_key_actions
from gateway.cli.migrate import add_migrate_options
from gateway.cli.serve import run_check, run_serve
from gateway.cli.usage import add_usage_options
from gateway.demo.__main__ import main as demo_main
from gateway.version import __version__

BROKEN_PIPE = 128 + signal.SIGPIPE
CONFIG_HELP = "the configuration; else ./holdgate.toml, else the defaults"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    arguments = build_parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    try:
        status = run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    return status


def _discard_output() -> None:
    """Write nothing more: who reads has seen enough, such as `head`."""
    # Python would write what is left once more at exit, and fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser() -> argparse.ArgumentParser:
    """Describe all commands."""
    parser = argparse.ArgumentParser(
        prog="holdgate", description="A streaming LLM gateway that gives models time."
    )
    parser.add_argument("--version", action="version", version=f"holdgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, says: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=says, description=says, parents=parents)

    settings = _server_options()
    command("serve", "run the gateway", settings).set_defaults(run=run_serve)
    check = command("check", "print the effective configuration, or every mistake in it", settings)
    check.set_defaults(run=run_check)
    copy = command("copy", "copy all that a store keeps into another one", _store_options())
    add_copy_options(copy)
    copy.set_defaults(run=run_copy)
    demo = command("demo-upstream", "run the scripted upstream alone")
    demo.add_argument(
        "--port", type=int, default=0, metavar="P", help="where to listen; 0 picks a free port (0)"
    )
    demo.set_defaults(run=lambda a: demo_main(["--port", str(a.port)]))
    add_init_options(command("init", "write a configuration from what is found on this machine"))
    add_key_actions(command("keys", "make keys for the owners of a gateway"))
    says = "bring the schema of a PostgreSQL up to date, with a role that may do that"
    add_migrate_options(command("migrate", says))
    client = _client_options()
    talk = command("chat", "chat in the terminal", client)
    talk.add_argument(
        "--session", default="", metavar="S", help="which session; else a new one, or the agent's"
    )
    whom = talk.add_mutually_exclusive_group()
    whom.add_argument("--model", default="", metavar="M", help="whom to ask; else the first listed")
    whom.add_argument("--agent", default="", metavar="A", help="talk to this agent instead")
    talk.add_argument(
        "--no-history", action="store_true", help="do not keep what you type for the next time"
    )
    talk.set_defaults(run=run_chat)
    jobs = command("jobs", "show, make, change, remove and run jobs")
    client.add_argument("--json", action="store_true", help="show what was answered as it came")
    add_job_actions(jobs, client)
    jobs.set_defaults(run=run_jobs)
    usage = command("usage", "show how many tokens were used, and what they cost", client)
    add_usage_options(usage)
    usage.set_defaults(run=run_usage)
    completion = command("completion", "print a script that completes commands in a shell")
    completion.add_argument("shell", choices=tuple(SHELLS), help="for which shell")
    completion.set_defaults(run=_print_completion)
    return parser


def _print_completion(arguments: argparse.Namespace) -> int:
    print(write_completion(arguments.shell, build_parser()), end="")
    return 0


def _client_options() -> argparse.ArgumentParser:
    """Describe what is said of the gateway that is asked for something."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "--url", help="the gateway's address; else $HOLDGATE_URL, else as configured"
    )
    options.add_argument("--key", help="a key of that gateway; else $HOLDGATE_KEY")
    options.add_argument("--config", type=Path, metavar="FILE", help=CONFIG_HELP)
    return options


def _store_options() -> argparse.ArgumentParser:
    """Describe where the configuration is, and where it keeps state."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--config", type=Path, metavar="FILE", help=CONFIG_HELP)
    options.add_argument(
        "--session-dir", dest="server.session_dir", metavar="DIR", help="where state is kept"
    )
    return options


def _server_options() -> argparse.ArgumentParser:
    """Describe where the configuration is, and what may be said instead of it."""
    options = argparse.ArgumentParser(add_help=False)

    def add(name: str, says: str, **kind: Any) -> None:
        dest = f"server.{name.removeprefix('--').replace('-', '_')}"
        options.add_argument(name, dest=dest, help=says, **kind)

    options.add_argument("--config", type=Path, metavar="FILE", help=CONFIG_HELP)
    add("--host", "the address to listen on", metavar="H")
    add("--port", "the port to listen on; 0 picks a free one", type=int, metavar="P")
    add("--session-dir", "where state is kept", metavar="DIR")
    add("--workers", "how many processes serve", type=int, metavar="N")
    add("--log-format", "how log lines are written", choices=("text", "json"))
    return options
