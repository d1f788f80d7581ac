"""A browser as the gateway sees it: a cookie jar, an Origin, and no key."""

from __future__ import annotations

import json
from typing import Any

from tests.gateway.client import Answer, Client
from tests.gateway.wire import request
from tests.run import GatewayProcess, Running
from tests.sessions.talk import JSON

LOGIN, LOGOUT, ME = "/api/console/login", "/api/console/logout", "/api/console/me"
EMPTY = (204, 304)


class Browser:
    """One browser that has a page of a gateway open; it keeps the cookies it is given."""

    def __init__(self, gate: Running | GatewayProcess, scheme: str = "http") -> None:
        self._gate = gate
        self.host = f"127.0.0.1:{gate.port}"
        self.origin = f"{scheme}://{self.host}"
        self.cookies: dict[str, str] = {}

    @property
    def cookie(self) -> str:
        """The header with all cookies."""
        return "cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    async def get(self, path: str, *headers: str) -> Answer:
        """Ask for something, as a page of the gateway does."""
        return await self.send("GET", path, *headers)

    async def post(self, path: str, body: Any = None, *headers: str) -> Answer:
        """Send something, as a page of the gateway does."""
        return await self.send("POST", path, f"origin: {self.origin}", *headers, body=body)

    async def log_in(self, key: str, *headers: str) -> Answer:
        """Sign in with a key."""
        return await self.post(LOGIN, {"key": key}, *headers)

    async def log_out(self) -> Answer:
        """Sign out."""
        return await self.post(LOGOUT)

    async def send(
        self, method: str, path: str, *headers: str, body: Any = None, host: str = ""
    ) -> Answer:
        """Send any request with the cookies, and keep those of its answer."""
        kind = () if body is None else (JSON,)
        given = (self.cookie,) if self.cookies else ()
        content = b"" if body is None else json.dumps(body).encode()
        lines = (*kind, *given, *headers)
        written = request(method, path, *lines, body=content, host=host or self.host)
        answer = await _fetch(await self._gate.connect(), written, method == "HEAD")
        self._keep(answer.headers.get("set-cookie", ""))
        return answer

    def _keep(self, header: str) -> None:
        name, _, value = header.partition(";")[0].partition("=")
        if "Max-Age=0" in header:
            self.cookies.pop(name, None)
        elif name:
            self.cookies[name] = value


async def _fetch(client: Client, written: bytes, is_head: bool) -> Answer:
    await client.send(written)
    head = await client.head()
    answer = await client.answer(bodyless=is_head or head.status in EMPTY)
    assert not client.spare
    client.leave()
    return answer
