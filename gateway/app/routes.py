"""What can be asked for, and who answers it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.routing import BaseRoute

from gateway.api.admission import ModelEndpoint
from gateway.api.chat import PATH as CHAT
from gateway.api.chat import ChatEndpoint
from gateway.api.count_tokens import TokenCounter
from gateway.api.delivery import DeliveryArea, FeedTimes
from gateway.api.jobs import JobsArea
from gateway.api.models import ModelsArea
from gateway.api.openapi import OpenApi
from gateway.api.operations import Operations
from gateway.api.pass_through import PassThrough
from gateway.api.relay import Relay, RelayServices
from gateway.api.reminders import RemindersArea
from gateway.api.session_removal import SessionRemoval
from gateway.api.sessions import SessionsArea
from gateway.app.services import GatewayServices
from gateway.app.wiring import MESSAGES, find_pass_through
from gateway.dialects import DIALECTS
from gateway.wire.http_server.request_body import BodyLimits

# What the API takes is read at once, so it has to be small.
API_BYTES = 256 * 1024


def relays_of(parts: GatewayServices) -> Mapping[str, ModelEndpoint]:
    """Return those whose answers stream, by their paths."""
    services = _relay_services(parts)
    relays = {f"/v1{dialect.path}": Relay(dialect, services) for dialect in DIALECTS.values()}
    return {**relays, **_pass_through(parts, services), CHAT: _chat(parts)}


def routes_of(parts: GatewayServices) -> list[BaseRoute]:
    """Return all other routes."""
    base, server = parts.base, parts.base.config.server
    keys, limits = base.keys, _body_limits(parts, API_BYTES)
    times = FeedTimes(server.keepalive_ms / 1000, base.config.limits.slow_reader_ms / 1000)
    kept = (parts.states, parts.reminders, parts.conversations, parts.jobs, parts.deliveries)
    areas = (
        _operations(parts),
        ModelsArea(base.models, keys, base.started_at),
        OpenApi(),
        _counting(parts),
        _chat(parts),
        JobsArea(parts.jobs, keys, limits),
        # Names of sessions may hold anything, so what is about parts of one comes first.
        RemindersArea(parts.reminders, base.clock, keys, base.zone, limits),
        DeliveryArea(parts.feed, parts.due_notifier, parts.inbox, keys, limits, times),
        SessionsArea(*kept, keys, SessionRemoval(*kept, base.exchanges, parts.locks, base.holds)),
    )
    return [route for area in areas for route in area.routes()]


def _pass_through(parts: GatewayServices, services: RelayServices) -> Mapping[str, ModelEndpoint]:
    upstreams = parts.base.exchanges.services.upstreams
    found = find_pass_through(parts.base.config, upstreams)
    return {f"/v1{path}": PassThrough(f"/v1{path}", at, services) for path, at in found.items()}


def _body_limits(parts: GatewayServices, most: int | None = None) -> BodyLimits:
    limits = parts.base.config.limits
    size = limits.body_bytes if most is None else min(limits.body_bytes, most)
    return BodyLimits(size, limits.json_depth)


def _chat(parts: GatewayServices) -> ChatEndpoint:
    base = parts.base
    return ChatEndpoint(parts.agents, parts.locks, base.keys, _body_limits(parts))


def _operations(parts: GatewayServices) -> Operations:
    base = parts.base
    return Operations(
        exchanges=base.exchanges,
        models=base.models,
        keys=base.keys,
        metrics=base.metrics,
        trouble=parts.trouble,
        started_at=base.started_at,
        wall=time.time,
        clock=parts.clock_status,
        agents=tuple(parts.agents.known),
    )


def _relay_services(parts: GatewayServices) -> RelayServices:
    base = parts.base
    return RelayServices(
        base.exchanges,
        parts.preparer,
        base.keys,
        parts.offer if parts.offer.to_clients else None,
        parts.answers,
        _body_limits(parts),
    )


def _counting(parts: GatewayServices) -> TokenCounter:
    dialect, services = DIALECTS[MESSAGES], _relay_services(parts)
    return TokenCounter(dialect, services, services.make_reader(dialect), parts.base.counters)
