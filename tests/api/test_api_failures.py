"""What is told of requests that a fault of ours ends before they become exchanges."""

from __future__ import annotations

import pytest

from gateway.api.admission import IncomingRequest
from gateway.api.relay import tell_failure
from gateway.errors import BadRequest, HoldgateError, Unavailable
from gateway.exchange.observer import RequestAnswered, RequestRefused
from gateway.wire.http_server.request_body import ClientLeft
from gateway.wire.http_server.response import ClientResponse, Message
from tests.exchange.playbook import Scene, Stage

INCOMING = IncomingRequest("req_1", "mine", {}, (), method="POST", path="/v1/messages")


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def _send(message: Message) -> None:
    return None


@pytest.mark.parametrize(
    "error, kind, says",
    [
        (BadRequest("No."), RequestRefused, BadRequest),
        (ClientLeft(), RequestAnswered, None),
        (ZeroDivisionError(), RequestRefused, Unavailable),
    ],
)
def test_every_failure_is_told_once(
    error: Exception, kind: type[object], says: type[HoldgateError] | None
) -> None:
    stage, answer = Stage(Scene(), hears_all=True), ClientResponse(_receive, _send)
    told = tell_failure(error, INCOMING, "anthropic-messages", stage.live, answer)
    assert type(told) is (type(None) if says is None else says)
    (heard,) = stage.audience.happenings
    assert isinstance(heard, kind)


def test_after_the_start_the_exchange_tells_it() -> None:
    stage, answer = Stage(Scene(), hears_all=True), ClientResponse(_receive, _send)
    answer.started = True
    for error in (ZeroDivisionError(), Unavailable("The store is down.")):
        tell_failure(error, INCOMING, "", stage.live, answer)
    assert stage.audience.happenings == []
