"""The commands that run a gateway: serve, and check its configuration."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from gateway.app import serve
from gateway.app.wiring import agents_of
from gateway.config import Config, ConfigError, load, render
from gateway.errors import HoldgateError
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.logs import EventLog, LogWriter, set_up
from gateway.version import __version__

TRY = """
Holdgate {version} answers with its demo model; {keys}. Try:

  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model":"demo","stream":true,"messages":[{{"role":"user","content":"Hello!"}}]}}'

{agent}  .venv/bin/holdgate chat --url {url} --model demo

  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none     for any OpenAI client, with model "demo"
  ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none  for any Anthropic client, such as Claude Code

GET {url}/api/status shows what is going on. Ctrl-C ends it.
"""
TRY_AGENT = """\
  curl -N {url}/api/chat -H 'content-type: application/json' \\
    -d '{{"agentId":"{agent}","message":"every 5 seconds tell me a word"}}'
  curl -N {url}/api/sessions/{agent}/events    # the runs; say "stop" to end them

"""


def _find_overrides(arguments: argparse.Namespace) -> Mapping[str, object]:
    given = vars(arguments)
    return {name: value for name, value in given.items() if "." in name and value is not None}


def _load_config(arguments: argparse.Namespace) -> Config | None:
    try:
        return load(arguments.config, os.environ, _find_overrides(arguments), Path.cwd())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


def run_check(arguments: argparse.Namespace) -> int:
    """Print the effective configuration, or every mistake in it."""
    config = _load_config(arguments)
    if config is None:
        return 1
    print(render(config))
    return 0


def run_serve(arguments: argparse.Namespace) -> int:
    """Run the gateway until it is told to stop."""
    config = _load_config(arguments)
    if config is None:
        return 1
    form = config.server.log_format
    out, log = LogWriter(sys.stdout, form), LogWriter(sys.stderr, form)
    set_up(form, log)

    def listening(url: str) -> None:
        # Not printed: nobody has to read it for the gateway to serve.
        out.write(f"listening on {url}\n")
        if config.demo:
            out.write(_write_advice(config, url) + "\n")

    try:
        serve(config, listening, EventLog(form, log))
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


def _write_advice(config: Config, url: str) -> str:
    """Say what can be tried with the demo model."""
    keys = "send one of your keys with each request" if config.keys else "no key is needed"
    listed = [agent.id for agent in agents_of(config) if SCHEDULE_TASK in agent.tools]
    agent = TRY_AGENT.format(url=url, agent=listed[0]) if listed else ""
    return TRY.format(version=__version__, url=url, keys=keys, agent=agent)
