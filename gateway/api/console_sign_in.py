"""Signing in to the console: a browser sends its key once, and then a cookie with each request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.api.admission import INSTANCE, IncomingRequest, Keys, Owner, incoming_of
from gateway.api.requests import answer_json, read_members, receive_small_body
from gateway.api.route import ApiRoute, Reply, bind_all
from gateway.clock.protocol import Clock
from gateway.console.sign_in import LoginFailures, check_site, write_cookie
from gateway.errors import Unauthorized
from gateway.version import __version__
from gateway.wire.http_server.request_body import BodyLimits

PATH = "/api/console"
NO_STORE = {"cache-control": "no-store"}


class Login(msgspec.Struct, frozen=True):
    """A key of the gateway."""

    key: Annotated[str, Meta(min_length=1)]


class ConsoleVisitor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who looks at the console, and at which gateway."""

    owner: str
    admin: bool
    signed_in: Annotated[bool, Meta(description="Whether the cookie says who it is.")]
    needs_key: Annotated[bool, Meta(description="Whether the gateway has keys.")]
    now: Annotated[int, Meta(description="The gateway's time, in milliseconds of UTC.")]
    version: str
    zone: Annotated[str, Meta(description="The gateway's time zone.")]
    demo: Annotated[bool, Meta(description="Whether there is the demo model.")]
    instance: Annotated[
        str, Meta(description="The process that answers; ids of exchanges have it.")
    ]


@dataclass(frozen=True, slots=True)
class SignInArea:
    """The routes about who is signed in."""

    keys: Keys
    failures: LoginFailures
    clock: Clock
    zone: str
    demo: bool
    limits: BodyLimits

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def show_visitor(self, request: WebRequest) -> ConsoleVisitor | Response:
        """Say whose key or sign-in it is."""
        incoming = incoming_of(request.scope)
        owner = self.keys.owner(incoming)
        incoming.owner = owner.name
        visitor = self._show(owner, bool(self.keys) and self.keys.is_signed_in(incoming))
        return answer_json(visitor, headers=NO_STORE)

    async def log_in(self, request: WebRequest) -> ConsoleVisitor | Response:
        """Sign a browser in with a key: the answer has a cookie that stands for the key."""
        incoming = incoming_of(request.scope)
        check_site(incoming.method, incoming.headers)
        body = await receive_small_body(request, self.limits)
        given = read_members(body, self.limits.depth, Login, "a login")
        owner, token = self._try_key(given.key.strip())
        incoming.owner = owner.name
        headers = {**NO_STORE, "set-cookie": _write_cookie(incoming, token)} if token else NO_STORE
        return answer_json(self._show(owner, bool(token)), headers=headers)

    async def log_out(self, request: WebRequest) -> Response:
        """Sign a browser out: it forgets the cookie."""
        incoming = incoming_of(request.scope)
        check_site(incoming.method, incoming.headers)
        return Response(None, 204, {**NO_STORE, "set-cookie": _write_cookie(incoming, "")})

    def _try_key(self, key: str) -> tuple[Owner, str]:
        self.failures.check(self.clock.steady_ms())
        try:
            return self.keys.sign_in(key.encode())
        except Unauthorized:
            self.failures.add(self.clock.steady_ms())
            raise

    def _show(self, owner: Owner, signed_in: bool) -> ConsoleVisitor:
        return ConsoleVisitor(
            owner=owner.name,
            admin=owner.admin,
            signed_in=signed_in,
            needs_key=bool(self.keys),
            now=self.clock.now_ms(),
            version=__version__,
            zone=self.zone,
            demo=self.demo,
            instance=INSTANCE,
        )


def _write_cookie(incoming: IncomingRequest, token: str) -> str:
    is_secure = incoming.headers[b"origin"].startswith(b"https:")
    return write_cookie(incoming.headers[b"host"], token, is_secure)


ROUTES = (
    ApiRoute("get", f"{PATH}/me", "consoleVisitor", SignInArea.show_visitor),
    ApiRoute(
        "post",
        f"{PATH}/login",
        "consoleLogin",
        SignInArea.log_in,
        body=Login,
        errors={
            401: "The key is not known.",
            429: "There were ten wrong keys within a minute; `retry-after` says how long to wait.",
        },
        access="open",
    ),
    ApiRoute(
        "post",
        f"{PATH}/logout",
        "consoleLogout",
        SignInArea.log_out,
        access="open",
        replies=(Reply("The browser is signed out.", status=204),),
    ),
)
