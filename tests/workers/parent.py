"""Runs workers like `holdgate serve --workers N` does, each with a store of its own in memory.

The command line refuses such stores, since sessions would be cut into pieces. What is tested with
it are the processes alone.
"""

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateway.app.workers import serve_workers
from gateway.cli.serve import WORKER, run_reporting
from gateway.cli.startup import announce
from gateway.config import ConfigSource
from gateway.logs import EventLog, LogWriter, set_up
from gateway.wire.http_server.hangup import take_hangup_signal


def main() -> int:
    take_hangup_signal()
    source = ConfigSource(None, os.environ, {"server.port": 0}, Path.cwd())
    config, count = source.load(), int(sys.argv[1])
    out, log = (LogWriter(to, "json", shared=True) for to in (sys.stdout, sys.stderr))
    event_log = EventLog("json", log)
    set_up(event_log)
    command = (sys.executable, "-c", WORKER.format(path=sys.path))

    def listening(url: str, metrics: Sequence[str]) -> None:
        announce(config, url, out, event_log, terminal=False, metrics=metrics)

    return run_reporting(
        config, partial(serve_workers, count, command, config, source, listening, event_log)
    )


if __name__ == "__main__":
    sys.exit(main())
