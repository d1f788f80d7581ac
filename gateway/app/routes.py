"""What can be asked for, and who answers it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.routing import BaseRoute

from gateway.api.admission import INSTANCE, ModelEndpoint
from gateway.api.chat import PATH as CHAT
from gateway.api.chat import ChatEndpoint
from gateway.api.console_exchanges import ConsoleExchangesArea
from gateway.api.console_feed import ConsoleFeedArea
from gateway.api.console_files import ConsoleFilesArea, load_files
from gateway.api.console_metrics import ConsoleMetricsArea
from gateway.api.console_sign_in import SignInArea
from gateway.api.count_tokens import TokenCounter
from gateway.api.delivery import DeliveryArea
from gateway.api.event_stream import FeedTimes
from gateway.api.jobs import JobsArea
from gateway.api.models import ModelsArea
from gateway.api.openapi import OpenApi
from gateway.api.operations import Operations
from gateway.api.pass_through import PassThrough
from gateway.api.relay import Relay, RelayServices
from gateway.api.reminders import RemindersArea
from gateway.api.session_deliveries import SessionDeliveriesArea
from gateway.api.session_removal import SessionRemoval
from gateway.api.sessions import SessionsArea
from gateway.api.usage import UsageArea
from gateway.app.request_services import RequestServices
from gateway.app.wiring import MESSAGES, find_pass_through
from gateway.console.health import HealthReader, LimitSources
from gateway.console.instances import InstanceLister
from gateway.console.session_list import SessionLister
from gateway.console.tools import ToolLister, ToolSettings
from gateway.dialects import DIALECTS
from gateway.wire.http_server.request_body import BodyLimits

# What the API takes is read at once, so it has to be small.
API_BYTES = 256 * 1024


def relays_of(services: RequestServices) -> Mapping[str, ModelEndpoint]:
    """Return those whose answers stream, by their paths."""
    relayed = _relay_services(services)
    relays = {f"/v1{dialect.path}": Relay(dialect, relayed) for dialect in DIALECTS.values()}
    return {**relays, **_pass_through(services, relayed), CHAT: _chat(services)}


def routes_of(services: RequestServices) -> list[BaseRoute]:
    """Return all other routes."""
    parts, config, keys = services.parts, services.config, services.keys
    base, limits = parts.base, _body_limits(services, API_BYTES)
    times = FeedTimes(config.server.keepalive_ms / 1000, config.limits.slow_reader_ms / 1000)
    kept = (parts.states, parts.reminders, parts.conversations, services.jobs, parts.deliveries)
    errands = None if parts.instances is None else parts.instances.errands
    areas = (
        operations_of(services),
        ModelsArea(services.models, keys, base.started_at),
        OpenApi(),
        _counting(services),
        _chat(services),
        JobsArea(services.jobs, keys, limits),
        SignInArea(keys, parts.login_failures, base.clock, base.zone.name, config.demo, limits),
        ConsoleFilesArea(load_files()),
        UsageArea(parts.usage, keys, base.clock.now_ms, parts.limits.find_budget),
        ConsoleMetricsArea(base.history, health_of(services), _tools_of(services), keys),
        ConsoleExchangesArea(parts.console.board, keys, errands),
        ConsoleFeedArea(parts.console, keys, times),
        # Names of sessions may hold anything, so what is about parts of one comes first.
        RemindersArea(parts.reminders, base.clock, keys, base.zone, limits),
        DeliveryArea(parts.feed, parts.due_notifier, parts.inbox, keys, limits, times),
        SessionDeliveriesArea(parts.deliveries, parts.reminders, base.clock, keys),
        SessionsArea(
            *kept,
            keys,
            SessionRemoval(*kept, base.exchanges, parts.locks, base.holds),
            lister_of(services),
        ),
    )
    return [route for area in areas for route in area.routes()]


def health_of(services: RequestServices) -> HealthReader:
    """Return who knows how the gateway is."""
    parts, base = services.parts, services.parts.base
    streams = {
        "console": parts.console.subscribers,
        "events": parts.feed.subscribers,
        "inbox": parts.inbox.subscribers,
    }
    return HealthReader(
        base.exchanges,
        base.history,
        parts.store_probe,
        base.clock,
        lambda: services.jobs.scheduler.status(),
        parts.webhooks,
        LimitSources(base.holds, streams),
        base.started_at,
        parts.store.instance,
        InstanceLister(parts.rows.operators, INSTANCE),
    )


def _tools_of(services: RequestServices) -> ToolLister:
    settings = ToolSettings(
        services.config.clock.enabled,
        services.offer.to_clients,
        services.parts.tool_services.settings.standard_tools,
    )
    history = services.parts.base.history
    return ToolLister(settings, services.models, services.agents.known, history)


def lister_of(services: RequestServices) -> SessionLister:
    """Return who lists sessions."""
    parts, base = services.parts, services.parts.base
    # Taken once: what began at one time is to stand at one place in all lists.
    began_ms = base.clock.now_ms() - base.exchanges.services.now() * 1000
    return SessionLister(
        parts.states,
        parts.reminders,
        parts.rows.conversations,
        services.jobs,
        parts.deliveries,
        base.exchanges,
        lambda begun: round(began_ms + begun * 1000),
    )


def _pass_through(services: RequestServices, relayed: RelayServices) -> Mapping[str, ModelEndpoint]:
    found = find_pass_through(services.config, services.exchange_services.upstreams)
    return {f"/v1{path}": PassThrough(f"/v1{path}", at, relayed) for path, at in found.items()}


def _body_limits(services: RequestServices, most: int | None = None) -> BodyLimits:
    limits = services.config.limits
    size = limits.body_bytes if most is None else min(limits.body_bytes, most)
    return BodyLimits(size, limits.json_depth)


def _chat(services: RequestServices) -> ChatEndpoint:
    locks, limits = services.parts.locks, _body_limits(services)
    return ChatEndpoint(services.agents, locks, services.keys, limits)


def operations_of(services: RequestServices) -> Operations:
    """Return what an operator looks at."""
    parts, base = services.parts, services.parts.base
    operators = parts.rows.operators
    return Operations(
        exchanges=base.exchanges,
        models=services.models,
        keys=services.keys,
        metrics=base.metrics,
        trouble=parts.trouble,
        started_at=base.started_at,
        wall=time.time,
        clock=parts.clock_status,
        agents=tuple(services.agents.known),
        needs_store=parts.store.entries is not None and parts.store.entries.refuses,
        instance=base.show_instance,
        store_kind=parts.store_probe.kind,
        instances=None if operators is None else InstanceLister(operators, INSTANCE),
    )


def _relay_services(services: RequestServices) -> RelayServices:
    return RelayServices(
        services.parts.base.exchanges,
        services.preparer,
        services.keys,
        services.offer if services.offer.to_clients else None,
        services.parts.answers,
        _body_limits(services),
    )


def _counting(services: RequestServices) -> TokenCounter:
    dialect, relayed = DIALECTS[MESSAGES], _relay_services(services)
    return TokenCounter(dialect, relayed, relayed.make_reader(dialect), services.counters)
