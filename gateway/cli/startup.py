"""What `holdgate serve` says at its start: what is served, and what can be tried.

A person at a terminal reads it on stdout, after the line that says where the gateway listens.
Elsewhere stdout belongs to scripts, and what is served goes where log lines go, as log lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from urllib.parse import urlsplit

from gateway.app.wiring import DEMO, agents_of
from gateway.cli.client import CONTROLS
from gateway.cli.tables import join_names, table
from gateway.config import Config, UpstreamSection
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.logs import EventLog, LogWriter
from gateway.version import __version__
from gateway.wire.http_client.reach import find_obstacle

CONNECT_SECONDS = 3.0
SHOWN_NAMES = 20

SERVES = """
Holdgate {version} serves {file}:

{rows}

GET {url}/api/status shows what is going on. Ctrl-C ends it.

"""
TRY = """
Holdgate {version} answers with its demo model; {keys}. Try:

  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model":"demo","stream":true,"messages":[{{"role":"user","content":"Hello!"}}]}}'

{agent}  .venv/bin/holdgate chat --url {url} --model demo

  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none     for any OpenAI client, with model "demo"
  ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY=none  for any Anthropic client, such as Claude Code

To use your own models, {go_on}, and start again.
GET {url}/api/status shows what is going on. Ctrl-C ends it.
"""
TRY_AGENT = """\
  curl -N {url}/api/chat -H 'content-type: application/json' \\
    -d '{{"agentId":"{agent}","message":"every 5 seconds tell me a word"}}'
  curl -N {url}/api/sessions/{agent}/events    # the runs; say "stop" to end them

"""

Tell = Callable[[UpstreamSection, str], None]


def announce(
    config: Config,
    url: str,
    out: LogWriter,
    log: EventLog,
    terminal: bool,
    metrics: Sequence[str] = (),
) -> None:
    """Say where the gateway listens, what it serves, and what can be tried."""
    workers = [f"metrics of worker {number} at {at}\n" for number, at in enumerate(metrics, 1)]
    # Not printed: nobody has to read it for the gateway to serve.
    out.write(f"listening on {url}\nconsole at {find_console(url)}\n{''.join(workers)}")
    if config.file or config.upstreams:
        if terminal:
            out.write(CONTROLS.sub("", write_summary(config, url)))
            check_upstreams(config.upstreams, partial(_print_obstacle, out))
        else:
            names, file = describe(config), config.file or None
            log.note("serving", url=url, file=file, **names, keys=len(config.keys))
            loop = asyncio.get_running_loop()
            check_upstreams(config.upstreams, partial(_log_obstacle, loop, log))
    if config.demo:
        out.write(write_advice(config, url) + "\n")


def find_console(url: str) -> str:
    """Return the address of the console, as a browser on this machine can open it."""
    here = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    return f"{here}/console/"


def describe(config: Config) -> dict[str, str]:
    """Return what is served, by its names; nothing of it is a secret."""
    return {
        "upstreams": join_names([section.id for section in config.upstreams], SHOWN_NAMES),
        "models": join_names(_name_models(config), SHOWN_NAMES),
        "agents": join_names([agent.id for agent in agents_of(config)], SHOWN_NAMES),
        "store": _name_store(config),
    }


def _name_models(config: Config) -> list[str]:
    """Return what clients may ask for; where any name is fine, an upstream and a star."""
    if config.models:
        return [model.name for model in config.models]
    names = [
        f"{section.id}/*" if name == "*" else name
        for section in config.upstreams
        for name in section.models
    ]
    return list(dict.fromkeys([*([DEMO] if config.demo else []), *names]))


def _name_store(config: Config) -> str:
    return config.store.url.masked or f"files in {config.server.session_dir}"


def _name_host(section: UpstreamSection) -> str:
    """Return host and port of an upstream, and nothing that may be a secret."""
    return urlsplit(section.base_url).netloc.rpartition("@")[2]


def write_summary(config: Config, url: str) -> str:
    """Write what is served, for a person."""
    names = describe(config)
    upstreams = [(one.id, one.dialect, _name_host(one)) for one in config.upstreams]
    if upstreams:
        lines = table(upstreams[0], upstreams[1:]).splitlines()
        names["upstreams"] = "\n             ".join(lines)
    names["keys"] = str(len(config.keys) or "none; only this machine is served")
    rows = "\n".join(f"  {name:<9}  {value or 'none'}" for name, value in names.items())
    file = config.file or "the settings of its environment"
    return SERVES.format(version=__version__, file=file, rows=rows, url=url)


def check_upstreams(upstreams: tuple[UpstreamSection, ...], tell: Tell) -> None:
    """Find out in the background which upstreams can be reached.

    Looking up a name can take as long as it likes. So each has a thread of its own, which keeps
    neither the gateway from serving nor the process from ending.
    """
    for section in upstreams:
        # A host that cannot start another thread serves all the same.
        with suppress(RuntimeError):
            Thread(target=_check, args=(section, tell), name="reach", daemon=True).start()


def _check(section: UpstreamSection, tell: Tell) -> None:
    tell(section, find_obstacle(section.base_url, CONNECT_SECONDS))


def _print_obstacle(out: LogWriter, section: UpstreamSection, obstacle: str) -> None:
    state = f"not reachable: {obstacle}" if obstacle else "reachable"
    out.write(f"upstream {section.id}: {_name_host(section)} is {state}\n")


def _log_obstacle(
    loop: asyncio.AbstractEventLoop, log: EventLog, section: UpstreamSection, obstacle: str
) -> None:
    fields = {"id": section.id, "dialect": section.dialect, "host": _name_host(section)}
    why = {"why": obstacle} if obstacle else {}
    # By now the gateway may be gone, and its loop with it.
    with suppress(RuntimeError):
        note = partial(log.note, "upstream", **fields, reachable=not obstacle, **why)
        loop.call_soon_threadsafe(note)


def write_advice(config: Config, url: str) -> str:
    """Say what can be tried with the demo model."""
    keys = "send one of your keys with each request" if config.keys else "no key is needed"
    listed = [agent.id for agent in agents_of(config) if SCHEDULE_TASK in agent.tools]
    agent = TRY_AGENT.format(url=url, agent=listed[0]) if listed else ""
    go_on = f"add [[upstreams]] to {config.file}" if config.file else "run `holdgate init`"
    return TRY.format(version=__version__, url=url, keys=keys, agent=agent, go_on=go_on)
