"""Gateways to ask, and clients that are there; what is missing fails, and says how to get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .node import NotReady, program, provide
from .processes import Running, running
from .reading import Form

BEATING = {"HOLDGATE_SERVER__KEEPALIVE_MS": "50"}
TIMED = {"HOLDGATE_CLOCK__ENABLED": "true", "HOLDGATE_CLOCK__NTP__ENABLED": "false"}


@pytest.fixture(scope="session", autouse=True)
def no_proxy() -> Iterator[None]:
    """Keep the clients on this machine, whatever its environment says of proxies."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway as anybody starts it: no configuration, the demo model."""
    home = tmp_path_factory.mktemp("gateway")
    with running("gateway", "serve", "--port", "0", home=home, settings={}) as started:
        yield started


@pytest.fixture(scope="session")
def beating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same, with twenty heartbeats a second."""
    home = tmp_path_factory.mktemp("beating")
    with running("gateway", "serve", "--port", "0", home=home, settings=BEATING) as started:
        yield started


@pytest.fixture(scope="session")
def going_on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same, with three turns to every answer."""
    home = tmp_path_factory.mktemp("going_on")
    with running("tests.clients.going_on", home=home, settings=BEATING) as started:
        yield started


@pytest.fixture(scope="session")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The same, with the clock, and with heartbeats while it is asked."""
    home = tmp_path_factory.mktemp("timed")
    settings = {**BEATING, **TIMED}
    with running("gateway", "serve", "--port", "0", home=home, settings=settings) as started:
        yield started


@pytest.fixture(scope="session")
def node() -> None:
    """Install the Node clients."""
    fail_unless(provide)


@pytest.fixture(scope="session")
def curl() -> None:
    """Look for curl."""
    fail_unless(lambda: program("curl", "your system's package of that name"))


@pytest.fixture
def form(request: pytest.FixtureRequest) -> Form:
    """One way to use a client, with everything it needs."""
    chosen: Form = request.param
    for need in chosen.needs:
        request.getfixturevalue(need)
    return chosen


def fail_unless(ready: Callable[[], object]) -> None:
    """Fail with the one sentence that says what is missing."""
    sentence = ""
    try:
        ready()
    except NotReady as missing:
        sentence = str(missing)
    if sentence:
        pytest.fail(sentence, pytrace=False)
