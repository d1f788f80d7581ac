"""The commands that run a gateway: serve, and check its configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.app import serve
from gateway.cli.startup import announce
from gateway.config import Config, ConfigError, ConfigSource, render
from gateway.errors import HoldgateError
from gateway.logs import EventLog, LogWriter, set_up
from gateway.wire.http_server.hangup import take_hangup_signal


def _find_overrides(arguments: argparse.Namespace) -> Mapping[str, object]:
    given = vars(arguments)
    return {name: value for name, value in given.items() if "." in name and value is not None}


def _find_source(arguments: argparse.Namespace) -> ConfigSource:
    return ConfigSource(arguments.config, os.environ, _find_overrides(arguments), Path.cwd())


def _load_config(source: ConfigSource) -> Config | None:
    try:
        return source.load()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


def run_check(arguments: argparse.Namespace) -> int:
    """Print the effective configuration, or every mistake in it."""
    config = _load_config(_find_source(arguments))
    if config is None:
        return 1
    print(render(config))
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """Run the gateway until it is told to stop."""
    take_hangup_signal()
    source = _find_source(arguments)
    config = _load_config(source)
    if config is None:
        return 1
    form = config.server.log_format
    out, log = LogWriter(sys.stdout, form), LogWriter(sys.stderr, form)
    event_log = EventLog(form, log, level=config.server.log_level)
    set_up(event_log)

    def listening(url: str) -> None:
        announce(config, url, out, event_log, sys.stdout.isatty())

    try:
        serve(config, listening, event_log, source)
        return 0
    except ConfigError as error:
        problem = str(error)
    except HoldgateError as error:
        problem = f"holdgate: {error.message}"
    except OSError as error:
        where = f"{config.server.host}:{config.server.port}"
        problem = f"holdgate: cannot listen on {where}: {error.strerror}"
    print(problem, file=sys.stderr)
    return 1
