"""The commands that run a gateway: serve, and check its configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio

from gateway.app import serve
from gateway.app.wiring import store_settings
from gateway.app.workers import serve_workers
from gateway.cli.startup import announce
from gateway.config import Config, ConfigError, ConfigSource, render
from gateway.errors import HoldgateError
from gateway.logs import EventLog, LogWriter, set_up
from gateway.stores.shared import is_shared
from gateway.stores.urls import check_shared
from gateway.wire.http_server.hangup import take_hangup_signal

# What it imports is found where this process found it, whatever the directory.
WORKER = "import sys; sys.path[:] = {path!r}; from gateway.cli.worker import main; sys.exit(main())"


def _find_overrides(arguments: argparse.Namespace) -> Mapping[str, object]:
    given = vars(arguments)
    return {name: value for name, value in given.items() if "." in name and value is not None}


def find_source(arguments: argparse.Namespace) -> ConfigSource:
    """Return where the configuration of a command comes from."""
    return ConfigSource(arguments.config, os.environ, _find_overrides(arguments), Path.cwd())


def load_config(source: ConfigSource) -> Config | None:
    """Return the configuration; None if it has mistakes, which are printed."""
    try:
        return source.load()
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


def run_check(arguments: argparse.Namespace) -> int:
    """Print the effective configuration, or every mistake in it."""
    config = load_config(find_source(arguments))
    if config is None:
        return 1
    print(render(config))
    if is_shared(config.store.url):
        try:
            anyio.run(check_shared, store_settings(config))
        except HoldgateError as error:
            print(f"holdgate: {error.message}", file=sys.stderr)
            return 1
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """Run the gateway until it is told to stop."""
    take_hangup_signal()
    source = find_source(arguments)
    config = load_config(source)
    if config is None:
        return 1
    form, count = config.server.log_format, config.server.workers
    out, log = LogWriter(sys.stdout, form), LogWriter(sys.stderr, form, shared=count > 1)
    event_log = EventLog(form, log, level=config.server.log_level)
    set_up(event_log)

    def listening(url: str, metrics: Sequence[str] = ()) -> None:
        announce(config, url, out, event_log, sys.stdout.isatty(), metrics)

    if count > 1:
        command = (sys.executable, "-c", WORKER.format(path=sys.path))
        return run_reporting(
            config, partial(serve_workers, count, command, config, source, listening, event_log)
        )
    return run_reporting(config, partial(serve, config, listening, event_log, source))


def run_reporting(config: Config, run: Callable[[], None]) -> int:
    """Run a gateway; return its exit status, and say in one sentence why it could not serve."""
    try:
        run()
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
