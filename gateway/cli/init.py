"""`holdgate init`: write a first configuration from what is found on this machine."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from textwrap import indent

import anyio

from gateway.cli.discovery import Finding, find_keys, find_servers
from gateway.cli.tables import join_names, table
from gateway.config import ConfigError, UpstreamSection, load
from gateway.config.presets import NO_PRESET, PRESETS
from gateway.config.problems import quote
from gateway.config.rendering import write_value
from gateway.config.schema import keys_of
from gateway.config.sources import FILE_NAME

SHOWN_MODELS = 3
# What the example of a public model asks those for that do not list their models here.
EXAMPLE_MODELS = {
    "openai": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "openrouter": "openai/gpt-5",
}

NO_ROUTES = ['"mine/large"', '"mine/small"']

HEAD = """\
# Holdgate's configuration, written by `holdgate init`.
# `holdgate check` shows what is in effect, or every mistake. All keys: docs/configuration.md

[server]
host = "127.0.0.1"                # an address that others can reach needs [[keys]], see below
port = 8787

[clock]
due_window_ms = 0                 # reminders come on time; the default, 60000: a minute early
# enabled = false                 # add nothing to requests: no clock tool, no time
"""
NO_UPSTREAM = """
# No upstream was found, so the built-in demo model answers. Add one like this:
#
# [[upstreams]]
# id = "mine"
# base_url = "https://api.example.com/v1"
# api_key_env = "MY_KEY"          # the name of an environment variable, not the key itself
# models = ["large", "small"]
"""
TAIL = """
# Names of your own, with routes that are tried in this order. Without [[models]], clients ask for
# "<upstream>/<model>", or for a model that an upstream lists.
#
# [[models]]
# name = "default"
# routes = [{routes}]

# A key for each person: `holdgate keys new alice` prints these lines. With keys, every request
# needs one. All limits are in docs/owners.md.
#
# [[keys]]
# owner = "alice"
# key_sha256 = "…"
# rpm = 60                        # at most 60 requests to models in a minute
# budget = "2M tokens/day"        # or "20 USD/month", if [[models]] have a price
"""


FindServers = Callable[[], Coroutine[None, None, list[Finding]]]


def add_init_options(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `holdgate init`."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="the file to write (./holdgate.toml)"
    )
    parser.add_argument("--force", action="store_true", help="replace the file if there is one")
    parser.set_defaults(run=run_init)


def run_init(arguments: argparse.Namespace, find: FindServers = find_servers) -> int:
    """Look around, write the file, and say what to do next."""
    file: Path = arguments.config or Path(FILE_NAME)
    if not arguments.force and os.path.lexists(file):
        return _fail(f"{file} exists already; --force replaces it.")
    findings = find_keys(os.environ) + anyio.run(find)
    try:
        # Exclusive: somebody else may have written it meanwhile.
        with file.open("w" if arguments.force else "x", encoding="utf-8") as out:
            out.write(write_config(findings))
    except OSError as error:
        return _fail(f"{file} cannot be written: {error.strerror}.")
    print("\n".join(_report(findings)))
    print(f"\n{file} is written. It contains no secret. Next:\n")
    option = f" --config {shlex.quote(str(file))}" if arguments.config else ""
    steps = _list_next_steps(option)
    print(indent(table(steps[0], steps[1:]), "  "))
    return _check(file)


def _list_next_steps(option: str) -> list[tuple[str, str]]:
    return [
        (f"holdgate check{option}", "shows what is in effect, or every mistake"),
        (f"holdgate serve{option}", "serves it at http://127.0.0.1:8787"),
        ("holdgate keys new NAME", "makes a key, for when others than this machine are served"),
    ]


def _fail(sentence: str) -> int:
    print(f"holdgate: {sentence}", file=sys.stderr)
    return 1


def _check(file: Path) -> int:
    """Say what is wrong with the file in this environment, which sets keys, too."""
    try:
        load(file, os.environ, {}, Path.cwd())
        return 0
    except ConfigError as error:
        print(f"\nholdgate: the configuration does not work yet:\n{error}", file=sys.stderr)
        return 1


def write_config(findings: Sequence[Finding]) -> str:
    """Return the text of a configuration with the upstreams that were found."""
    tables = [_write_upstream(one, one.section) for one in findings if one.section] or [NO_UPSTREAM]
    routes = [_write_route(one.section) for one in findings if one.section] or NO_ROUTES
    return HEAD + "".join(tables) + TAIL.format(routes=", ".join(routes[:2]))


def _write_upstream(finding: Finding, section: UpstreamSection) -> str:
    """Write the keys that differ from their defaults, and from what the preset fills in."""
    needs = " The gateway needs it, too." if section.api_key_env else ""
    lines = [f"\n# Found: {finding.says}.{needs}", "[[upstreams]]"]
    filled = PRESETS.get(section.preset, NO_PRESET).values
    for name, key in keys_of(UpstreamSection).items():
        value = getattr(section, name)
        if value not in (key.default, filled.get(name)):
            lines.append(f"{name} = {write_value(key, value)}")
    return "\n".join(lines) + "\n"


def _write_route(section: UpstreamSection) -> str:
    model = EXAMPLE_MODELS.get(section.id, section.models[0]).replace("*", "some-model")
    return quote(f"{section.id}/{model}")


def _report(findings: Sequence[Finding]) -> Iterator[str]:
    yield "Found:"
    for finding in findings:
        if finding.section:
            yield f"  {finding.says}; ask for {_name_models(finding.section)}"
    if not any(finding.section for finding in findings):
        yield "  nothing, so the demo model answers"
    missed = [finding.says for finding in findings if not finding.section]
    yield from (["Not found:", *(f"  {says}" for says in missed)] if missed else [])


def _name_models(section: UpstreamSection) -> str:
    if "*" in section.models:
        return f"{section.id}/<one of its models>"
    return join_names(section.models, SHOWN_MODELS)
