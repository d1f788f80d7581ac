"""The command line as a process: `python -m gateway`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from gateway.wire.http_server.hangup import take_hangup_signal

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        # Before all else is imported: until then, a SIGHUP ends the process.
        take_hangup_signal()
    status: int = import_module("gateway.cli.main").main(argv)
    return status


if __name__ == "__main__":
    sys.exit(main())
