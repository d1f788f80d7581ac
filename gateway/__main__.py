"""The command line as a process: `python -m gateway`."""

from __future__ import annotations

import sys

from gateway.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
