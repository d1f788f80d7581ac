"""The demo upstream as a process: `python -m gateway.demo`."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import anyio

from gateway.demo.journal import RequestJournal
from gateway.demo.server import DemoServer


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until a signal says to stop."""
    options = arguments().parse_args(argv)
    uvloop = {"use_uvloop": sys.platform != "win32"}
    try:
        with ExitStack() as open_files:
            write = appender(options.log, open_files) if options.log else None
            journal = RequestJournal(keep=0, write=write)
            anyio.run(serve, options.host, options.port, journal, backend_options=uvloop)
    except OSError as error:
        print(f"demo upstream: {error}", file=sys.stderr)
        return 1
    return 0


def arguments() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="demo-upstream", description="A scripted model that needs no key."
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=8788, help="the port; 0 picks a free one")
    parser.add_argument("--log", type=Path, help="append every request and event to this file")
    return parser


def appender(path: Path, open_files: ExitStack) -> Callable[[bytes], object]:
    """Open a log so that each line is in the file as soon as it is written."""
    return open_files.enter_context(path.open("ab", buffering=0)).write


async def serve(host: str, port: int, journal: RequestJournal) -> None:
    """Say where the server listens, and end it at the first signal."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        server = DemoServer(journal)
        await server.start(host, port)
        print(f"listening on {server.url}", flush=True)
        async for _ in signals:
            break
        await server.aclose()


if __name__ == "__main__":
    sys.exit(main())
