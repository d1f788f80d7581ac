"""What we use of libraries beyond their documentation: these fail when a new version changes it."""

from inspect import iscoroutinefunction

from sse_starlette import EventSourceResponse
from uvicorn.server import ServerState


def test_uvicorn_keeps_its_connections_and_tasks_in_sets() -> None:
    state = ServerState()
    assert isinstance(state.connections, set)
    assert isinstance(state.tasks, set)
    assert state.total_requests == 0
    assert state.default_headers == []


def test_sse_starlette_listens_for_the_exit_in_the_method_that_we_replace() -> None:
    assert iscoroutinefunction(EventSourceResponse._listen_for_exit_signal_with_grace)
