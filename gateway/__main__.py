"""The command line."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gateway.app import serve
from gateway.app.wiring import agents_of
from gateway.cli.chat import ChatOptions, chat
from gateway.cli.job_options import add_job_actions
from gateway.cli.jobs import Desk
from gateway.cli.line import Refused, say
from gateway.config import Config, ConfigError, load, render
from gateway.demo.__main__ import main as demo_main
from gateway.errors import HoldgateError
from gateway.jobs.tool_calls import NAME as SCHEDULE_TASK
from gateway.logs import EventLog, LogWriter, set_up
from gateway.version import __version__

BROKEN_PIPE = 128 + signal.SIGPIPE
CONFIG_HELP = "the configuration; else ./holdgate.toml, else the defaults"
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    arguments = _parser().parse_args(argv)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdgate", description="A streaming LLM gateway that gives models time."
    )
    parser.add_argument("--version", action="version", version=f"holdgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, says: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=says, description=says, parents=parents)

    settings = _server_options()
    command("serve", "run the gateway", settings).set_defaults(run=_serve)
    check = command("check", "print the effective configuration, or every mistake in it", settings)
    check.set_defaults(run=_check)
    demo = command("demo-upstream", "run the scripted upstream alone")
    demo.add_argument(
        "--port", type=int, default=0, metavar="P", help="where to listen; 0 picks a free port (0)"
    )
    demo.set_defaults(run=lambda a: demo_main(["--port", str(a.port)]))
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
    talk.set_defaults(run=_chat)
    jobs = command("jobs", "show, make, change, remove and run jobs")
    client.add_argument("--json", action="store_true", help="show what was answered as it came")
    add_job_actions(jobs, client)
    jobs.set_defaults(run=_jobs)
    return parser


def _client_options() -> argparse.ArgumentParser:
    """Describe what is said of the gateway that is asked for something."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument(
        "--url", help="the gateway's address; else $HOLDGATE_URL, else as configured"
    )
    options.add_argument("--key", help="a key of that gateway; else $HOLDGATE_KEY")
    options.add_argument("--config", type=Path, metavar="FILE", help=CONFIG_HELP)
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


def _overrides(arguments: argparse.Namespace) -> Mapping[str, object]:
    given = vars(arguments)
    return {name: value for name, value in given.items() if "." in name and value is not None}


def _loaded(arguments: argparse.Namespace) -> Config | None:
    try:
        return load(arguments.config, os.environ, _overrides(arguments), Path.cwd())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


def _gateway(arguments: argparse.Namespace) -> tuple[str, str]:
    """Return the address of the gateway that is to be asked, and the key to ask it with."""
    url = arguments.url or os.environ.get("HOLDGATE_URL") or _configured_url(arguments)
    return url, arguments.key or os.environ.get("HOLDGATE_KEY", "")


def _configured_url(arguments: argparse.Namespace) -> str:
    server = load(arguments.config, os.environ, {}, Path.cwd()).server
    if not server.port:
        raise Refused("the port is picked at each start (server.port is 0); name it with --url.")
    # Who listens everywhere can be reached here.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _chat(arguments: argparse.Namespace) -> int:
    given = arguments
    options = ChatOptions(given.session, given.model, given.agent, not given.no_history)
    return _told(lambda: chat(*_gateway(arguments), options))


def _jobs(arguments: argparse.Namespace) -> int:
    return _told(lambda: arguments.act(Desk(*_gateway(arguments), arguments.json), arguments))


def _told(run: Callable[[], None]) -> int:
    """Run what asks a gateway for something; say what kept it from that."""
    try:
        run()
        return 0
    except ConfigError as error:
        print(error, file=sys.stderr)
    except Refused as refused:
        say(f"holdgate: {refused}")
    except KeyboardInterrupt:
        return 130
    return 1


def _check(arguments: argparse.Namespace) -> int:
    config = _loaded(arguments)
    if config is None:
        return 1
    print(render(config))
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    config = _loaded(arguments)
    if config is None:
        return 1
    form = config.server.log_format
    out, log = LogWriter(sys.stdout, form), LogWriter(sys.stderr, form)
    set_up(form, log)

    def listening(url: str) -> None:
        # Not printed: nobody has to read it for the gateway to serve.
        out.write(f"listening on {url}\n")
        if config.demo:
            out.write(_advice(config, url) + "\n")

    try:
        serve(config, listening, EventLog(form, log))
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    except HoldgateError as error:
        print(f"holdgate: {error.message}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{config.server.host}:{config.server.port}"
        print(f"holdgate: can not listen on {where}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def _advice(config: Config, url: str) -> str:
    """Say what can be tried with the demo model."""
    keys = "send one of your keys with each request" if config.keys else "no key is needed"
    listed = [agent.id for agent in agents_of(config) if SCHEDULE_TASK in agent.tools]
    agent = TRY_AGENT.format(url=url, agent=listed[0]) if listed else ""
    return TRY.format(version=__version__, url=url, keys=keys, agent=agent)


if __name__ == "__main__":
    sys.exit(main())
