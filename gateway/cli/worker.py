"""A worker of `holdgate serve --workers N`: its parent starts it and says what it serves."""

from __future__ import annotations

import sys
from functools import partial
from io import FileIO

from gateway.app.serving import serve_worker
from gateway.app.worker import Worker
from gateway.app.worker_messages import StartWorker, read_message
from gateway.cli.serve import run_reporting
from gateway.logs import EventLog, LogWriter, set_up
from gateway.wire.http_server.hangup import take_hangup_signal


def main() -> int:
    """Serve until the parent or a signal ends it; return the exit status."""
    take_hangup_signal()
    messages = FileIO(sys.stdin.fileno(), closefd=False)
    start = read_message(messages)
    assert isinstance(start, StartWorker)
    worker = Worker(messages, sys.stdout.fileno(), start)
    server = start.config.server
    log = LogWriter(sys.stderr, server.log_format, shared=True)
    event_log = EventLog(server.log_format, log, level=server.log_level)
    set_up(event_log)
    return run_reporting(start.config, partial(serve_worker, worker, event_log))
