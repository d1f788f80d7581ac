"""What all tests share: the event loop of production, a time limit, and examples that stay the same."""

import functools
import os
import signal
from collections.abc import Awaitable, Callable, Generator
from inspect import iscoroutinefunction

import anyio
import pytest
from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("few", derandomize=True, deadline=None, max_examples=20)
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


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Limit an async test inside its loop, shortly before pytest-timeout does it from outside.

    uvloop swallows what the handler of pytest-timeout raises, and a test that is left in the middle
    would keep the fixtures that run after it in the same task.
    """
    if iscoroutinefunction(pyfuncitem.obj):
        marker = pyfuncitem.get_closest_marker("timeout")
        config = pyfuncitem.config
        limit = marker.args[0] if marker else config.option.timeout or config.getini("timeout")
        pyfuncitem.obj = limit_time(pyfuncitem.obj, 0.9 * float(limit))
    return (yield)


def limit_time(
    test: Callable[..., Awaitable[None]], seconds: float
) -> Callable[..., Awaitable[None]]:
    """Return a test that fails if it takes longer; the error shows what it waited for."""

    @functools.wraps(test)
    async def run(**arguments: object) -> None:
        waiting = None
        with anyio.move_on_after(seconds) as scope:
            try:
                await test(**arguments)
            except anyio.get_cancelled_exc_class() as error:
                waiting = error
                raise
        if scope.cancel_called:
            raise TimeoutError(f"The test took longer than {seconds:g} s.") from waiting

    return run


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop of production; the tests of sockets and timers override it with both loops."""
    return ("asyncio", {"use_uvloop": True})
