"""What all tests share: the event loop of production, and examples that are the same each time."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_configure() -> None:
    """Let the processes of tests be interrupted, also where a shell or nohup ignores that.

    A child inherits what is ignored, but not what is handled: with a handler that does nothing this
    process goes on ignoring the signal, and every process it starts has the default again.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of production; the tests of sockets and timers override it with both loops."""
    return ("asyncio", {"use_uvloop": True})
