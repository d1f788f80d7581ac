"""The front door: every request passes here, whatever its route.

Any web page can post to a loopback port, so a foreign Origin or an unknown Host is refused before
anything else is looked at. What passes gets its id. Whose request it is, only its key says.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from itertools import chain, count
from typing import Any, Protocol

import msgspec

from gateway.console.sign_in import COOKIE, KeySignIn
from gateway.dialects import DIALECTS, Dialect
from gateway.errors import (
    BadRequest,
    Forbidden,
    Headers,
    HoldgateError,
    Unauthorized,
    UpgradeRequired,
)
from gateway.exchange.model import ExchangeInfo
from gateway.exchange.observer import RequestAnswered, RequestRefused
from gateway.exchange.ports import error_headers
from gateway.logs import bind_ids
from gateway.wire.http_server.request_cycle import offers_websocket
from gateway.wire.http_server.response import ClientResponse, Message, Receive, Send

App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

Tell = Callable[[RequestRefused | RequestAnswered], None]
"""Hears of requests that do not become exchanges."""

KEY = "holdgate"
# What servers log where nobody was left to answer.
CLIENT_LEFT = 499
INTERNAL_ERROR = "Something went wrong inside the gateway; its log says what."
_SANE_ID = re.compile(rb"[A-Za-z0-9._-]{1,128}").fullmatch
# Made once: randomness is asked of the system, and a request has better things to wait for.
INSTANCE = secrets.token_hex(8)
"""Names this process; its exchange ids carry it."""
_numbers = count(1)
VERSION = b"anthropic-version"
# An address in brackets or a name, then a port; nothing else may stand beside them.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/?#@\s\\]*))(?::[0-9]{0,5})?")
MESSAGES = "/v1/messages"
# Names the owner where the usual headers carry the client's key for an upstream.
GATEWAY_KEY = b"x-holdgate-key"
CLIENT_KEYS = (b"authorization", b"x-api-key")
# Beside its token, Codex says which of its account's workspaces is meant.
ACCOUNT = b"chatgpt-account-id"
CORS_ORIGIN = b"access-control-allow-origin"
CORS_METHODS = b"GET, POST, PUT, DELETE, HEAD"
CORS_EXPOSED = (
    b"x-request-id, request-id, x-holdgate-exchange, x-holdgate-upstream, x-holdgate-session, "
    b"x-holdgate-directive, x-holdgate-event-id, retry-after, retry-after-ms, x-should-retry, "
    b"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    b"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, "
    b"x-holdgate-instance, x-holdgate-state"
)


def tell_nobody(happening: RequestRefused | RequestAnswered) -> None:
    """Let it go unheard."""


class IncomingRequest(msgspec.Struct, gc=False):
    """What every endpoint may want to know of a request."""

    exchange_id: str
    """Ours alone, and never used again."""
    request_id: str
    headers: dict[bytes, bytes]
    listed: Sequence[tuple[bytes, bytes]]
    """The headers as they came: one may come twice."""
    query: bytes = b""
    """The parameters of the URL."""
    answer_headers: Headers = ()
    """What every answer to it carries: its ids, and who may read it across origins."""
    method: str = ""
    path: str = ""
    owner: str = ""
    """Whose request it is, once its key was looked up."""
    session: str | None = None
    model: str = ""

    def describe(self, dialect: str = "") -> ExchangeInfo:
        """Say which request it is, as far as that is known."""
        return ExchangeInfo(
            self.exchange_id, self.request_id, self.owner, self.session, self.model, dialect
        )


def incoming_of(scope: Mapping[str, Any]) -> IncomingRequest:
    """Return what admission noted of this request."""
    found: IncomingRequest = scope[KEY]
    return found


def new_exchange_id() -> str:
    """Return an id that no other exchange of any process has."""
    return f"req_{INSTANCE}{next(_numbers):08x}"


def request_id(headers: Mapping[bytes, bytes], exchange_id: str) -> str:
    """Return the client's request id if it is sane, else ours."""
    given = headers.get(b"x-request-id")
    return given.decode() if given is not None and _SANE_ID(given) else exchange_id


@dataclass(frozen=True, slots=True)
class Admission:
    """Which Hosts and Origins are let in; `any_host` when keys protect the gateway."""

    hosts: frozenset[str] = frozenset()
    any_host: bool = False
    origins: frozenset[str] = frozenset()
    header_bytes: int = 64 * 1024

    def check_host(self, host: str) -> None:
        """Refuse a Host that is not ours: a page of another site may have sent us here."""
        name = _host_name(host)
        if name in self.hosts or (not self.hosts and (self.any_host or _is_loopback(name))):
            return
        raise Forbidden(f"Host '{name[:100]}' is not accepted; add it to server.hosts.")

    def check_origin(self, origin: str, host: str) -> bool:
        """Refuse a foreign Origin; tell whether a listed one must be named in the answer."""
        if origin in self.origins or "*" in self.origins:
            return True
        if origin in (f"http://{host}", f"https://{host}"):
            return False
        raise Forbidden(f"Origin '{origin[:100]}' is not accepted; add it to server.cors_origins.")


class ModelEndpoint(Protocol):
    """A model endpoint, and the language it is spoken to in."""

    @property
    def dialect(self) -> Dialect:
        """In which it answers, errors too."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""


class AdmissionMiddleware:
    """Checks Host, Origin and headers of every request, gives it its id, and lets it in.

    Model requests go straight to their relay; all others through the router.
    """

    def __init__(
        self,
        app: App,
        admission: Admission,
        models: Mapping[str, ModelEndpoint],
        tell: Tell = tell_nobody,
    ) -> None:
        self._app = app
        self._admission = admission
        self._models = models
        self._tell = tell
        self._known_host: bytes | None = None
        self.name_instance: Callable[[], str] | None = None
        """Says which process answers, where several share a store."""

    def replace_routes(
        self, app: App, models: Mapping[str, ModelEndpoint], admission: Admission
    ) -> None:
        """Have requests answered by these from now on, and let in by this."""
        self._app = app
        self._models = models
        self._admission = admission
        self._known_host = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        exchange_id = new_exchange_id()
        named, query = request_id(headers, exchange_id), scope["query_string"]
        bind_ids(exchange_id, named)
        path, name, method, listed = (
            scope["path"],
            named.encode(),
            scope["method"],
            scope["headers"],
        )
        incoming = IncomingRequest(exchange_id, named, headers, listed, query, (), method, path)
        own_name = name if named is exchange_id else exchange_id.encode()
        incoming.answer_headers = ((b"x-request-id", name), (b"x-holdgate-exchange", own_name))
        if VERSION in headers or path.startswith(MESSAGES):
            # Where their clients look for it.
            incoming.answer_headers += ((b"request-id", name),)
        if self.name_instance is not None:
            incoming.answer_headers += ((b"x-holdgate-instance", self.name_instance().encode()),)
        scope[KEY] = incoming
        relay = self._models.get(path)
        try:
            self._admit(incoming)
        except HoldgateError as error:
            dialect = relay.dialect if relay is not None else dialect_of(incoming, path)
            self._tell(RequestRefused(incoming.describe(), incoming.method, path, error))
            headers_too = incoming.answer_headers + _closing(error)
            await refuse(error, receive, send, headers_too, dialect.error_body)
            return
        if scope["method"] == "OPTIONS":
            preflight = _preflight(incoming, relay is not None)
            self._tell(RequestAnswered(incoming.describe(), incoming.method, path, 204, 0.0))
            await ClientResponse(receive, send, incoming.answer_headers).whole(204, preflight, b"")
        elif relay is not None:
            # A frame passes every call between the server and the relay, so there are few.
            answering = relay(scope, receive, send)
            # What came with the request is the relay's: a held answer may be one of thousands.
            del scope, headers, incoming
            await answering
        else:
            await self._app(scope, receive, _with_headers(send, incoming.answer_headers))

    def _admit(self, incoming: IncomingRequest) -> None:
        headers, listed = incoming.headers, incoming.listed
        host = headers.get(b"host")
        if host is None or (len(headers) != len(listed) and _hosts(listed) != 1):
            raise BadRequest("Send exactly one Host header.")
        if sum(map(len, chain.from_iterable(listed))) > self._admission.header_bytes:
            raise BadRequest(f"The headers are larger than {self._admission.header_bytes} bytes.")
        if b"transfer-encoding" in headers:
            _check_coding(listed)
        # Nearly every request names the same Host; an accepted one need not be parsed again.
        if host != self._known_host:
            self._admission.check_host(host.decode("latin-1"))
            self._known_host = host
        origin = headers.get(b"origin")
        if origin is not None and self._admission.check_origin(
            origin.decode("latin-1"), host.decode("latin-1")
        ):
            incoming.answer_headers += _cors(origin)
        if b"upgrade" in headers and offers_websocket(listed):
            raise UpgradeRequired("WebSocket is not supported; send the request over HTTP.")


def _closing(error: HoldgateError) -> Headers:
    """Return the headers that end a connection on which no request can be trusted."""
    if isinstance(error, UpgradeRequired):
        # HTTP wants the protocol named that is to be spoken.
        return ((b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade, close"))
    return ((b"connection", b"close"),) if isinstance(error, BadRequest) else ()


def _check_coding(listed: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse a body in codings beside `chunked`: it would be read as if it had none."""
    codings = [value.strip().lower() for name, value in listed if name == b"transfer-encoding"]
    if codings != [b"chunked"]:
        raise BadRequest("The only Transfer-Encoding accepted is `chunked`.")


def _hosts(listed: Sequence[tuple[bytes, bytes]]) -> int:
    return sum(name == b"host" for name, _ in listed)


def dialect_of(incoming: IncomingRequest, path: str) -> Dialect:
    """Return how errors are told where no model is asked: as most clients read them.

    Clients of Messages say their version on every request.
    """
    is_messages = VERSION in incoming.headers or path.startswith(MESSAGES)
    return DIALECTS["anthropic-messages" if is_messages else "openai-chat"]


async def refuse(
    error: HoldgateError,
    receive: Receive,
    send: Send,
    headers: Headers,
    write: Callable[[HoldgateError], bytes],
) -> None:
    """Answer with an error."""
    body = write(error)
    await ClientResponse(receive, send, headers).whole(error.status, error_headers(error), body)


def _host_name(host: str) -> str:
    parts = _HOST.fullmatch(host)
    if parts is None:
        raise BadRequest("The Host header must be a host name or address, with or without a port.")
    return (parts[1] or parts[2] or "").lower()


def _is_loopback(name: str) -> bool:
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _cors(origin: bytes) -> Headers:
    return (
        (CORS_ORIGIN, origin),
        (b"access-control-expose-headers", CORS_EXPOSED),
        (b"vary", b"origin"),
    )


def _preflight(incoming: IncomingRequest, is_model: bool) -> Headers:
    asked = incoming.headers.get(b"access-control-request-headers", b"")
    allowed: Headers = ((b"access-control-allow-headers", asked),) if asked else ()
    if not any(name == CORS_ORIGIN for name, _ in incoming.answer_headers):
        # Of the others only the router knows the methods, and it is not asked.
        return ((b"allow", b"POST"),) if is_model else ()
    return (
        (b"access-control-allow-methods", CORS_METHODS),
        (b"access-control-max-age", b"600"),
        *allowed,
    )


def _with_headers(send: Send, headers: Headers) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return sending


@dataclass(frozen=True, slots=True)
class Owner:
    """The user a key belongs to."""

    name: str
    admin: bool = False


LOCAL = Owner("local", admin=True)


class Keys:
    """Gateway keys, known by their hashes. Without any, everybody is the local owner.

    With `sign_in`, browsers that signed in are known by their cookie.
    """

    def __init__(self, owners: Mapping[str, Owner], sign_in: KeySignIn | None = None) -> None:
        self._owners = {digest: (digest, owner) for digest, owner in owners.items()}
        self._sign_in = sign_in

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner(self, incoming: IncomingRequest) -> Owner:
        """Return the owner of the request's key or sign-in, or raise `Unauthorized`."""
        if not self._owners:
            return LOCAL
        if key := _key(incoming.headers):
            return self._find_owner(key)[1]
        if COOKIE in incoming.headers and (digest := self._find_signed_in(incoming)):
            return self._owners[digest][1]
        raise Unauthorized(
            "No key: send `Authorization: Bearer <key>` or `x-api-key: <key>` of this gateway."
        )

    def _find_owner(self, key: bytes) -> tuple[str, Owner]:
        """Return the hash of a key and whose it is, or raise `Unauthorized`."""
        digest = hashlib.sha256(key).hexdigest()
        known, owner = self._owners.get(digest, ("", LOCAL))
        if not hmac.compare_digest(known, digest):
            raise Unauthorized("This key is not known to the gateway.")
        return digest, owner

    def _find_signed_in(self, incoming: IncomingRequest) -> str | None:
        if self._sign_in is None:
            return None
        return self._sign_in.find_digest(incoming.method, incoming.headers)

    def is_signed_in(self, incoming: IncomingRequest) -> bool:
        """Whether it is a sign-in that says whose request it is; a key in a header wins."""
        return not _key(incoming.headers) and bool(self._find_signed_in(incoming))

    def sign_in(self, key: bytes) -> tuple[Owner, str]:
        """Return the owner of a key and a token that stands for it, or raise `Unauthorized`.

        Without keys nobody needs to sign in, and the token is empty.
        """
        if not self._owners:
            return LOCAL, ""
        digest, owner = self._find_owner(key)
        return owner, self._sign_in.write_token(digest) if self._sign_in else ""

    def client_key(self, headers: Mapping[bytes, bytes]) -> Headers:
        """Return the headers with the client's own key for an upstream.

        Nothing if they name the owner here: a key of the gateway goes nowhere.
        """
        if self._owners and not headers.get(GATEWAY_KEY, b"").strip():
            return ()
        found = [(name, headers[name]) for name in CLIENT_KEYS if headers.get(name)]
        if not found or any(self._is_own(value) for _, value in found):
            return ()
        account = headers.get(ACCOUNT)
        return (*found, (ACCOUNT, account)) if account else tuple(found)

    def _is_own(self, value: bytes) -> bool:
        """Whether the value of a header is a key of the gateway."""
        return hashlib.sha256(value.split(b" ")[-1].strip()).hexdigest() in self._owners

    def admin(self, incoming: IncomingRequest) -> Owner:
        """Return the owner if the key is an admin's, or raise `Forbidden`."""
        owner = self.owner(incoming)
        if not owner.admin:
            raise Forbidden("This request needs the key of an admin.")
        return owner


def _key(headers: Mapping[bytes, bytes]) -> bytes:
    if own := headers.get(GATEWAY_KEY, b"").strip():
        return own
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() == b"bearer" and token.strip():
        return token.strip()
    return headers.get(b"x-api-key", b"").strip()
