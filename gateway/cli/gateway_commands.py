"""The commands that ask a running gateway for something: chat, jobs and usage."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from gateway.cli.chat import ChatOptions, chat
from gateway.cli.client import CommandFailed, say
from gateway.cli.jobs import JobCommands
from gateway.cli.usage import show_usage
from gateway.config import ConfigError, load


def run_chat(arguments: argparse.Namespace) -> int:
    """Chat in the terminal."""
    given = arguments
    options = ChatOptions(given.session, given.model, given.agent, not given.no_history)
    return _run_and_report(lambda: chat(*_find_gateway(arguments), options))


def run_jobs(arguments: argparse.Namespace) -> int:
    """Do with jobs what the action says."""
    return _run_and_report(
        lambda: arguments.act(JobCommands(*_find_gateway(arguments), arguments.json), arguments)
    )


def run_usage(arguments: argparse.Namespace) -> int:
    """Show what was used."""
    return _run_and_report(lambda: show_usage(*_find_gateway(arguments), arguments))


def _run_and_report(run: Callable[[], None]) -> int:
    """Run what asks a gateway for something; say what kept it from that."""
    try:
        run()
        return 0
    except ConfigError as error:
        print(error, file=sys.stderr)
    except CommandFailed as failed:
        say(f"holdgate: {failed}")
    except KeyboardInterrupt:
        return 130
    return 1


def _find_gateway(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the address of the gateway that is to be asked, and the key to ask it with."""
    url = arguments.url or os.environ.get("HOLDGATE_URL") or _read_url(arguments)
    return url, arguments.key or os.environ.get("HOLDGATE_KEY", "")


def _read_url(arguments: argparse.Namespace) -> str:
    server = load(arguments.config, os.environ, {}, Path.cwd()).server
    if not server.port:
        raise CommandFailed(
            "server.port is 0, so each start picks another port; name it with --url."
        )
    # Who listens everywhere can be reached here.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"
