"""The command line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gateway.app import serve
from gateway.config import Config, ConfigError, load, render
from gateway.demo.__main__ import main as demo_main
from gateway.errors import HoldgateError
from gateway.logs import set_up
from gateway.terminal import chat
from gateway.version import __version__

TRY = """
Holdgate {version} answers with its demo model; {keys}. Try:

  curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model":"demo","stream":true,"messages":[{{"role":"user","content":"Hello!"}}]}}'

  .venv/bin/holdgate chat --url {url} --model demo

  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=none   for any OpenAI client, with model "demo"

GET {url}/api/status shows what is going on. Ctrl-C ends it.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    arguments = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = arguments.run
    return run(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdgate", description="A streaming LLM gateway that gives models time."
    )
    parser.add_argument("--version", action="version", version=f"holdgate {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    _serve_parser(commands.add_parser("serve", help="run the gateway"))
    check = commands.add_parser("check", help="validate and print the effective configuration")
    check.add_argument("--config", type=Path, metavar="FILE")
    check.set_defaults(run=_check)
    demo = commands.add_parser("demo-upstream", help="run the scripted upstream alone")
    demo.add_argument("--port", type=int, default=0)
    demo.set_defaults(run=lambda a: demo_main(["--port", str(a.port)]))
    talk = commands.add_parser("chat", help="chat in the terminal")
    talk.add_argument("--url", default=os.environ.get("HOLDGATE_URL", "http://127.0.0.1:8787"))
    talk.add_argument("--key", default=os.environ.get("HOLDGATE_KEY", ""))
    talk.add_argument("--session", default="")
    talk.add_argument("--model", default="")
    talk.set_defaults(run=lambda a: chat(a.url, a.key, a.session, a.model))
    return parser


def _serve_parser(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE")
    parser.add_argument("--host", dest="server.host", metavar="H")
    parser.add_argument("--port", dest="server.port", type=int, metavar="P")
    parser.add_argument("--session-dir", dest="server.session_dir", metavar="DIR")
    parser.add_argument("--workers", dest="server.workers", type=int, metavar="N")
    parser.add_argument("--log-format", dest="server.log_format", choices=("text", "json"))
    parser.set_defaults(run=_serve)


def _overrides(arguments: argparse.Namespace) -> Mapping[str, object]:
    given = vars(arguments)
    return {name: value for name, value in given.items() if "." in name and value is not None}


def _loaded(arguments: argparse.Namespace) -> Config | None:
    try:
        return load(arguments.config, os.environ, _overrides(arguments), Path.cwd())
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None


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
    set_up(config.server.log_format, sys.stderr)

    def listening(url: str) -> None:
        print(f"listening on {url}", flush=True)
        if config.demo:
            keys = "send one of your keys with each request" if config.keys else "no key is needed"
            print(TRY.format(version=__version__, url=url, keys=keys), flush=True)

    try:
        serve(config, listening)
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


if __name__ == "__main__":
    sys.exit(main())
