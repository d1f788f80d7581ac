"""Run a gateway in this process and record which of its functions are called.

Started by `trace.py` as a process of its own: `recorder.py TREE ARGUMENT…`, where the arguments are
those of `python -m gateway`. Nothing of the gateway is known here but that name. Orders come as
lines on standard input: `start` forgets what was recorded and records on, `stop FILE` writes the
calls into that file, one `module<TAB>function<TAB>how` a line, in their order; `how` is `call`, or
`resume` where a coroutine or generator goes on. A line on file descriptor 3
says that an order was carried out. The end of the input ends the gateway as Ctrl-C would.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType


class Recorder:
    """A profile hook that keeps the calls of functions of one package."""

    def __init__(self, package: Path) -> None:
        self._package = f"{package}{os.sep}"
        self._names: dict[CodeType, str] = {}
        self._calls: list[tuple[CodeType, int]] = []
        self.on = False

    def hook(self, frame: FrameType, event: str, _: object) -> None:
        """Keep a call, and where in its code it begins."""
        if self.on and event == "call":
            self._calls.append((frame.f_code, frame.f_lasti))

    def start(self) -> None:
        """Forget what was recorded, and record."""
        self._calls = []
        self.on = True

    def stop(self, out: Path) -> None:
        """Record no more; write what was recorded."""
        self.on = False
        ours = [call for call in self._calls if call[0].co_filename.startswith(self._package)]
        out.write_text("".join(f"{self._name(*call)}\t{how(*call)}\n" for call in ours))

    def _name(self, code: CodeType, _: int) -> str:
        if code not in self._names:
            path = Path(code.co_filename).relative_to(self._package).with_suffix("")
            module = ".".join(part for part in path.parts if part != "__init__")
            self._names[code] = f"{module}\t{code.co_qualname}"
        return self._names[code]


def how(code: CodeType, at: int) -> str:
    """Tell a call from going on: the interpreter's RESUME says 0 at the start of a function."""
    return "resume" if code.co_code[at + 1] & 3 else "call"


def obey(recorder: Recorder) -> None:
    """Carry out the orders of standard input until it ends."""
    # As a file of its own: the gateway may do with sys.stdin what it likes.
    with os.fdopen(os.dup(0)) as orders:
        for order in orders:
            name, _, argument = order.strip().partition(" ")
            if name == "start":
                recorder.start()
            else:
                recorder.stop(Path(argument))
            os.write(3, b"done\n")
    os.kill(os.getpid(), signal.SIGINT)


def main() -> None:
    """Run the gateway of the tree that is named."""
    tree = Path(sys.argv[1])
    # Before everything else, so that no installed gateway is taken for that of the tree.
    sys.path[0] = str(tree)
    recorder = Recorder(tree / "gateway")
    threading.Thread(target=obey, args=[recorder], daemon=True).start()
    threading.setprofile(recorder.hook)
    sys.setprofile(recorder.hook)
    sys.argv = ["holdgate", *sys.argv[2:]]
    runpy.run_module("gateway", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
