"""One helper process, as the gateway sees it. All here waits, so it is called in a thread."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, cast

from gateway.offload.frames import read_frame, write_frame

# The package is entered without its `__init__`, which brings the whole gateway with it.
_START = """
import sys, types
sys.path[:] = {path!r}
sys.modules["gateway"] = package = types.ModuleType("gateway")
package.__path__ = {package!r}
from gateway.offload.worker import main
main()
"""
# It needs no key of anybody's: of the environment only what finding Python and libraries takes.
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONUTF8")
_PACKAGE = [str(Path(__file__).parents[1])]
PIPE_BYTES = 1024 * 1024


class HelperProcess:
    """A process that does one piece of work at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _START.format(path=sys.path, package=_PACKAGE)]
        # A session of its own: Ctrl-C in a terminal is for the gateway, which drains.
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
        self._requests = cast(BinaryIO, self._process.stdin)
        self._answers = cast(BinaryIO, self._process.stdout)
        self.over = False
        self.busy = False
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def __repr__(self) -> str:
        return f"<HelperProcess {self._process.pid}{' over' if self.over else ''}>"

    def call(self, work: object) -> tuple[bool, Any] | None:
        """Have work done; None when the process died over it."""
        try:
            write_frame(self._requests, pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
            data, last = read_frame(self._answers)
        except (EOFError, OSError):
            self.over = True
            return None
        # It may have been killed just after it had answered.
        self.over = self.over or last
        done: tuple[bool, Any] = pickle.loads(data)
        return done

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended, by itself or by somebody's signal."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Stop it at once; whoever waits for its answer hears of it."""
        self.over = True
        self._process.kill()

    def close(self) -> None:
        """Let go of it while nobody waits for its answer; that ends it, if it lives."""
        self.over = True
        self._requests.close()
        self._answers.close()
        self._process.wait()
