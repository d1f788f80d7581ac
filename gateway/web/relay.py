"""The model endpoints: raw ASGI, one per dialect."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from gateway.answers import Answers
from gateway.core.directives import NOTHING, candidates, no_route
from gateway.core.model import Route
from gateway.dialects.base import Chained, Dialect
from gateway.dialects.identity import session_of
from gateway.driver import Driver, Request, error_headers
from gateway.errors import (
    Draining,
    Headers,
    HoldgateError,
    MethodNotAllowed,
    NoRoute,
    Unavailable,
)
from gateway.routing import Models, PublicModel
from gateway.sessions import Entry, Kind, Sessions, Visit
from gateway.timepiece import Errand, Timepiece, Timepieces
from gateway.upstream.headers import towards_upstream
from gateway.web.auth import Keys
from gateway.web.cycle import CYCLE
from gateway.web.incoming import ClientLeft, Incoming, incoming_of, plain_body, read_body
from gateway.web.stream import Answer, Receive, Send

log = logging.getLogger("holdgate.relay")
# Who is told the time right after the results of tools may answer nothing at all.
SHY = frozenset({"anthropic-messages"})
SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"
_is_plain = re.compile(r"[A-Za-z0-9._:-]+").fullmatch


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """What a client may send."""

    body_bytes: int
    json_depth: int


class Relay:
    """Answers the model requests of one dialect."""

    def __init__(
        self,
        dialect: Dialect,
        driver: Driver,
        models: Models,
        keys: Keys,
        sessions: Sessions,
        timepieces: Timepieces | None,
        answers: Answers,
        limits: RelayLimits,
        draining: Callable[[], bool],
    ) -> None:
        self.dialect = dialect
        self._driver = driver
        self._models = models
        self._keys = keys
        self._sessions = sessions
        self._timepieces = timepieces
        self._answers = answers
        self._chain = dialect if isinstance(dialect, Chained) else None
        self._limits = limits
        self._draining = draining

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; whatever goes wrong is said in the client's dialect."""
        note = incoming_of(scope)
        direct = scope.get("extensions", {}).get(CYCLE)
        answer = Answer(receive, send, note.answer_headers, direct)
        try:
            if scope["method"] != "POST":
                raise MethodNotAllowed(f"Send a POST to {scope['path']}.", "POST")
            owner = self._keys.owner(note.headers)
            self._refuse_while_draining()
            body = direct.body_at_once() if direct is not None else None
            if body is None:
                body = await read_body(note.headers, receive, self._limits.body_bytes)
                self._refuse_while_draining()
            else:
                body = plain_body(note.headers, body, self._limits.body_bytes)
            request = await self._read(note, owner.name, body, answer)
            await self._driver.run(request, answer)
        except HoldgateError as error:
            await self._say(error, answer)
        except ClientLeft:
            return
        except Exception as error:
            # The outer loop of a request: a bug of ours must not look like a finished answer.
            log.exception("request %s failed", note.request_id, exc_info=error)
            if not answer.ended:
                await self._say(Unavailable("Something went wrong inside the gateway."), answer)

    async def _read(self, note: Incoming, owner: str, body: bytes, answer: Answer) -> Request:
        headers, listed = note.headers, note.listed
        prefers_stream = b"text/event-stream" in headers.get(b"accept", b"")
        asked = self.dialect.read(body, self._limits.json_depth, prefers_stream)
        if self._chain is not None and (previous := self._chain.previous_id(asked.body)):
            real = await self._answers.upstream_id(owner, previous)
            if real != previous:
                going_on = self._chain.going_on_from(asked.body, real)
                asked = msgspec.structs.replace(asked, body=going_on)
        name = session_of(listed, asked.identity)
        visit = Visit(owner, name, asked, self.dialect, note.chain)
        entry = await self._sessions.enter(visit, self._driver.services.upstreams.keys())
        if name is not None or entry.told:
            answer.also(_told(name, entry.told))
        model = self._models.find(asked.model)
        routes = self._routes(model, entry)
        return Request(
            id=note.request_id,
            owner=owner,
            asked=entry.asked,
            dialect=self.dialect,
            routes=routes,
            headers=towards_upstream(listed),
            notes=headers.get(b"x-holdgate-notes") == b"1",
            session=entry.session,
            answers=self._answers if self._chain is not None else None,
            time=self._time(visit, entry, headers, routes[0]) if model.clock else None,
        )

    def _time(
        self, visit: Visit, entry: Entry, headers: Mapping[bytes, bytes], route: Route
    ) -> Timepiece | None:
        """Give the exchange its clock, unless it is not to have one."""
        if self._timepieces is None or entry.kind is Kind.AUXILIARY:
            return None
        self._timepieces.arrive(visit.owner, visit.name)
        if entry.kind is not Kind.PLAIN or headers.get(b"x-holdgate-clock") == b"off":
            return None
        may_hold = headers.get(b"x-holdgate-hold") != b"off"
        errand = Errand(
            owner=visit.owner,
            session=visit.name,
            chain=visit.chain,
            asked=entry.asked,
            dialect=self.dialect,
            may_hold=may_hold,
            tags_results=self._driver.services.ways.spoken(route.upstream) not in SHY,
        )
        return self._timepieces.give(errand)

    def _refuse_while_draining(self) -> None:
        if self._draining():
            raise Draining("The gateway is shutting down; try again shortly.", retry_after=1)

    def _routes(self, model: PublicModel, entry: Entry) -> tuple[Route, ...]:
        """Return whom to ask: where the model leads, as far as the session's directives go."""
        public = model.routes
        if entry.forced is None and entry.routing == NOTHING:
            return public
        # What a session prefers may be gone from the configuration since, or was never offered.
        routes = tuple(
            route
            for route in candidates(public, entry.routing, entry.forced)
            if route in public or self._models.offers(route)
        )
        if not routes and entry.forced is not None:
            raise NoRoute(f"No upstream offers {entry.forced}; GET /v1/models lists what there is.")
        if not routes:
            raise NoRoute(no_route(entry.asked.model, entry.routing))
        return routes

    async def _say(self, error: HoldgateError, answer: Answer) -> None:
        if answer.started:
            await answer.end(self.dialect.error_frame(error))
            return
        # What is left of a refused body must not be read as the next request.
        headers = (*error_headers(error), (b"connection", b"close"))
        await answer.whole(error.status, headers, self.dialect.error_body(error))


def _told(session: str | None, directives: str) -> Headers:
    headers: Headers = ()
    if session is not None:
        # An id is any text; a header takes only some of it as it is.
        shown = session if _is_plain(session) else quote(session, safe=SAFE)
        headers += ((b"x-holdgate-session", shown.encode()),)
    if directives:
        headers += ((b"x-holdgate-directive", directives.encode("ascii", "replace")),)
    return headers
