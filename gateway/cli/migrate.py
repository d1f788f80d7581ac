"""The command that brings the schema of a PostgreSQL up to date."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import anyio

from gateway.app.wiring import store_settings
from gateway.config import ConfigError, load
from gateway.errors import HoldgateError
from gateway.stores.shared import is_shared
from gateway.stores.urls import update_schema

NOT_SHARED = "holdgate: store.url is no postgresql://…; other stores bring themselves up to date."


def add_migrate_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options of the command."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration; else ./holdgate.toml, else the defaults",
    )
    parser.set_defaults(run=run_migrate)


def run_migrate(arguments: argparse.Namespace) -> int:
    """Bring the schema up to date, and say from which version to which."""
    try:
        config = load(arguments.config, os.environ, {}, Path.cwd())
        if not is_shared(config.store.url):
            print(NOT_SHARED, file=sys.stderr)
            return 1
        before, after = anyio.run(update_schema, store_settings(config), _warn)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except HoldgateError as error:
        print(f"holdgate: {error.message}", file=sys.stderr)
        return 1
    schema = config.store.schema
    if before == after:
        print(f"The schema {schema} has version {after}; there is nothing to do.")
    else:
        print(f"The schema {schema} has version {after} now; it had version {before}.")
    return 0


def _warn(event: str, **fields: object) -> None:
    told = " ".join(f"{name}={value}" for name, value in fields.items())
    print(f"holdgate: {event} {told}", file=sys.stderr)
