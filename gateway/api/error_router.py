"""All routes under one roof; errors of the ordinary ones are answered here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router
from starlette.types import Lifespan

from gateway.api.admission import (
    CLIENT_LEFT,
    INTERNAL_ERROR,
    Tell,
    dialect_of,
    incoming_of,
    refuse,
    tell_nobody,
)
from gateway.api.jobs import ADMIN_PATHS, PATHS, write_job_error
from gateway.errors import Headers, HoldgateError, MethodNotAllowed, NotFound, Unavailable
from gateway.exchange.observer import RequestAnswered, RequestRefused
from gateway.wire.http_server.response import Message, Receive, Send

log = logging.getLogger("holdgate.web")
JOB_PATHS = tuple(f"{path}/" for path in (*PATHS, *ADMIN_PATHS))
"""Below these, errors have a form of their own, whatever is asked for."""

CONSOLE_PATH = "/api/console/"
NOT_KEPT: Headers = ((b"cache-control", b"no-store"),)
"""What browsers are told of all that the console asks for, errors too."""


class ErrorRouter:
    """Starlette's router, with our errors instead of its own."""

    def __init__(
        self,
        routes: Sequence[BaseRoute],
        lifespan: Lifespan[Any],
        tell: Tell = tell_nobody,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._router = Router(routes, redirect_slashes=False, lifespan=lifespan)
        self._tell = tell
        self._now = now

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Find the endpoint and run it."""
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        # The router raises instead of answering by itself when it knows its application.
        scope["app"] = self
        incoming, begun, status = incoming_of(scope), self._now(), CLIENT_LEFT

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._router(scope, receive, send_and_note)
            seconds = self._now() - begun
            self._tell(
                RequestAnswered(
                    incoming.describe(), incoming.method, incoming.path, status, seconds
                )
            )
            return
        except HoldgateError as raised:
            error = raised
        except HTTPException as raised:
            error = _translate_error(raised, scope)
        except Exception as raised:
            # The outer loop of a request.
            log.exception("request %s failed", incoming.request_id, exc_info=raised)
            error = Unavailable(INTERNAL_ERROR)
        path = scope["path"]
        self._tell(RequestRefused(incoming.describe(), incoming.method, path, error))
        is_about_jobs = path.startswith(JOB_PATHS)
        write = write_job_error if is_about_jobs else dialect_of(incoming, path).error_body
        headers = NOT_KEPT if path.startswith(CONSOLE_PATH) else ()
        await refuse(error, receive, send, headers, write)


def _translate_error(error: HTTPException, scope: MutableMapping[str, Any]) -> HoldgateError:
    if error.status_code == 405:
        says = f"{scope['method']} is not allowed on {scope['path'][:200]}."
        allowed = (error.headers or {}).get("Allow", "GET")
        if "GET" in allowed:
            # The library names HEAD beside GET, in any order; of jobs it was never named.
            allowed = "GET" if scope["path"].startswith(JOB_PATHS) else "GET, HEAD"
        return MethodNotAllowed(says, allowed)
    return NotFound(f"There is nothing at {scope['path'][:200]}.")
