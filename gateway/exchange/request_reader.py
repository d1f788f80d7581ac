"""A model request, read: as one pure piece of work, which may be done in another process.

What comes back from there has to be small or of one piece: many small objects would take the
event loop's time again when they are unpickled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

import msgspec

from gateway.dialects.protocol import Chained, Dialect
from gateway.dialects.raw_json import raws_in
from gateway.errors import Headers
from gateway.exchange.model import Asked
from gateway.offload import Offload
from gateway.sessions.facts import read_facts
from gateway.sessions.identity import Identity, identify
from gateway.sessions.sentinels import Sentinels

Pairs = Iterable[tuple[bytes, bytes]]
Question = tuple[bytes, bool, Headers]
"""A body, whether a stream is preferred, and the headers."""


class ReadRequest(msgspec.Struct, frozen=True, gc=False):
    """What is known of a request before its session is looked at."""

    asked: Asked
    who: Identity
    previous: str = ""
    """The id of the answer it goes on from, if it names one."""


class ReadingRules(msgspec.Struct, frozen=True):
    """By what all requests are read."""

    depth: int
    default_model: str
    own_tools: frozenset[str]
    """The names of the gateway's tools, which a client may have declared as well."""
    sentinels: Sentinels


class ModelRequestReader:
    """Reads the requests of one dialect, large ones beside the loop."""

    def __init__(self, dialect: Dialect, offload: Offload, rules: ReadingRules) -> None:
        self._dialect = dialect
        self._chain = dialect if isinstance(dialect, Chained) else None
        self._offload = offload
        self._rules = rules

    async def read(
        self, body: bytes, prefers_stream: bool, headers: Pairs, owner: str
    ) -> ReadRequest:
        """Read a request, or raise `BadRequest` naming the field."""
        rules = self._rules
        if len(body) <= self._offload.above:
            asked = self._dialect.read(body, rules.depth, prefers_stream, rules.default_model)
            return _identified(asked, self._chain, headers)
        question = (body, prefers_stream, tuple(headers))
        work = partial(_read_large, self._dialect, self._chain, question, rules)
        found = await self._offload.send(owner, len(body), work)
        if found.asked.body:
            return found
        asked = msgspec.structs.replace(found.asked, body=body)
        return msgspec.structs.replace(found, asked=asked)


def _identified(asked: Asked, chain: Chained | None, headers: Pairs) -> ReadRequest:
    previous = chain.previous_id(asked.body) if chain is not None else ""
    return ReadRequest(asked, identify(headers, asked.identity), previous)


def _read_large(
    dialect: Dialect, chain: Chained | None, question: Question, rules: ReadingRules
) -> ReadRequest:
    """Read all that is asked of a request later; a body that is unchanged is not sent back."""
    body, prefers_stream, headers = question
    asked = dialect.read(body, rules.depth, prefers_stream, rules.default_model)
    found = _identified(asked, chain, headers)
    facts = read_facts(dialect, asked.body, found.who.session is not None, rules.sentinels)
    tools = relevant_tools(dialect, asked.tools, rules.own_tools)
    left = b"" if asked.body is body else asked.body
    asked = msgspec.structs.replace(asked, body=left, tools=tools, identity={}, facts=facts)
    return msgspec.structs.replace(found, asked=asked)


def relevant_tools(dialect: Dialect, tools: bytes, names: Collection[str]) -> bytes:
    """Return the tools of these names alone; if there are others only, something that is none."""
    items = raws_in(msgspec.Raw(tools)) if tools else None
    if not items:
        return tools
    kept: dict[str, msgspec.Raw] = {}
    for item in items:
        alone = b"[%b]" % bytes(item)
        kept |= {name: item for name in names if dialect.declares(alone, name)}
    return msgspec.json.encode(list(kept.values()) or ["another"])
