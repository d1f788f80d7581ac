"""Traces for OpenTelemetry: a span for each exchange, and below it its turns and server tools.

Only this module imports OpenTelemetry, and only its API: the operator brings the SDK.
`gateway/app/tracing.py` decides whether this module is imported at all.

An exchange has at most one turn or one tool under way, so one open span is remembered beside that
of the exchange: whatever ends the exchange also ends it. Names and attributes follow the semantic
conventions for generative AI and HTTP. No text of a conversation is among them, and none of an
error, since an upstream may quote the conversation in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, ProxyTracer, Span, SpanKind, StatusCode
from opentelemetry.trace import Tracer as SpanFactory
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.errors import Headers, HoldgateError, UpstreamAnswered
from gateway.exchange.events import HoldEnded, ReminderDue, RouteFailed
from gateway.exchange.machine import State
from gateway.exchange.model import Route
from gateway.exchange.observer import (
    ExchangeEnded,
    ExchangeFailed,
    FirstFrame,
    Happening,
    HeldUntil,
    StopMessageFired,
    ToolReturned,
    ToolStarted,
    TurnEnded,
    Wants,
)
from gateway.exchange.ports import Request
from gateway.reminders.holds import DUE, LEFT
from gateway.timestamps import iso
from gateway.version import __version__
from gateway.wire.http_client.upstream import Endpoint, Upstream

Attributes = dict[str, str | bool | int | tuple[str, ...]]

SCOPE = "holdgate"
JOB_SPAN = "run_job"
CANCELLED, REFUSED, TOOL_ERROR = "cancelled", "refused", "tool_error"
LONGEST_NAME = 100
PORTS = {"http": 80, "https": 443}
CHAT = "chat"
# What is passed through has names of its own in the conventions; all else is a chat.
OPERATIONS = {"/v1/embeddings": "embeddings", "/v1/completions": "text_completion"}
PROPAGATOR = TraceContextTextMapPropagator()


def make_tracer(
    upstreams: Mapping[str, Upstream], providers: Mapping[str, str]
) -> OtelTracer | None:
    """Return who traces exchanges, if the operator has set up an SDK that is switched on."""
    factory = trace.get_tracer(SCOPE, __version__)
    # The proxy stands for a provider that nobody has set.
    if isinstance(factory, ProxyTracer | NoOpTracer):
        return None
    return OtelTracer(factory, upstreams, providers)


class OtelTracer:
    """Begins the span of each exchange, as a part of its client's trace."""

    def __init__(
        self,
        factory: SpanFactory,
        upstreams: Mapping[str, Upstream],
        providers: Mapping[str, str],
    ) -> None:
        self._factory = factory
        self._upstreams = upstreams
        self._providers = providers

    def open_exchange(self, request: Request) -> OtelTrace:
        """Begin the span of an exchange; a run of a job begins a trace of its own."""
        source = request.source
        carrier = {name.decode(): value.decode() for name, value in source.trace_context}
        # What the process itself traces is no parent: the context begins empty.
        parent = PROPAGATOR.extract(carrier)
        name, kind = JOB_SPAN, SpanKind.INTERNAL
        attributes = _describe_exchange(request)
        if source.path:
            name, kind = f"POST {source.path}", SpanKind.SERVER
            attributes |= {
                "http.request.method": "POST",
                "http.route": source.path,
                "url.path": source.path,
            }
        span = self._factory.start_span(name, parent, kind, attributes)
        return OtelTrace(self, span, request)

    def open_turn(self, parent: Span, route: Route, operation: str, common: Attributes) -> Span:
        """Begin the span of a request to a route."""
        endpoint = self._upstreams[route.upstream].endpoint
        attributes: Attributes = {
            **common,
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": self._providers.get(route.upstream, route.upstream),
            "gen_ai.request.model": route.model[:LONGEST_NAME],
            "holdgate.upstream": route.upstream,
            **_describe_address(endpoint),
        }
        name = f"{operation} {route.model[:LONGEST_NAME]}"
        return self._open(name, parent, SpanKind.CLIENT, attributes)

    def open_tool(self, parent: Span, started: ToolStarted) -> Span:
        """Begin the span of a server tool."""
        call = started.call
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
        }
        return self._open(f"execute_tool {call.name}", parent, SpanKind.INTERNAL, attributes)

    def _open(self, name: str, parent: Span, kind: SpanKind, attributes: Attributes) -> Span:
        return self._factory.start_span(name, trace.set_span_in_context(parent), kind, attributes)


class OtelTrace:
    """The spans of one exchange."""

    __slots__ = ("_common", "_is_held", "_open", "_operation", "_shows_status", "_span", "_tracer")

    def __init__(self, tracer: OtelTracer, span: Span, request: Request) -> None:
        self._tracer = tracer
        self._span = span
        # The request is not kept: in a long wait, what is large in it is let go of.
        self._common = _describe_conversation(request)
        self._operation = OPERATIONS.get(request.source.path, CHAT)
        # An agent's client has its status before the exchange begins.
        self._shows_status = bool(request.source.path) and not request.is_composed
        self._open: Span | None = None
        self._is_held = False

    def open_turn(self, route: Route) -> Headers:
        """Begin the span of a turn; return the headers that name it to the upstream."""
        # The same upstream may be asked again at once, without what it refused.
        self._close({"error.type": REFUSED}, StatusCode.ERROR)
        span = self._tracer.open_turn(self._span, route, self._operation, self._common)
        self._open = span
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
        return tuple([(name.encode(), value.encode()) for name, value in carrier.items()])

    @property
    def wants(self) -> Wants:
        """What ends a span, or is told in one."""
        return WANTS

    def observe(self, at: float, happening: Happening) -> None:
        """Note what happened in the span it belongs to."""
        HANDLERS[type(happening)](self, happening)

    def _note_first_frame(self, happening: FirstFrame) -> None:
        if self._open is not None:
            self._open.add_event("holdgate.first_frame")

    def _end_turn(self, ended: TurnEnded) -> None:
        turn = ended.turn
        attributes: Attributes = {"gen_ai.response.finish_reasons": (str(turn.stop),)}
        if turn.usage is not None:
            attributes["gen_ai.usage.input_tokens"] = turn.usage.input
            attributes["gen_ai.usage.output_tokens"] = turn.usage.output
            if turn.usage.cached:
                attributes["gen_ai.usage.cache_read.input_tokens"] = turn.usage.cached
        self._close(attributes)

    def _fail_turn(self, failed: RouteFailed | ExchangeFailed) -> None:
        """End the turn that failed; the end of the exchange says what became of the answer."""
        self._close(_describe_error(failed.error), StatusCode.ERROR)

    def _open_tool(self, started: ToolStarted) -> None:
        self._open = self._tracer.open_tool(self._span, started)

    def _end_tool(self, returned: ToolReturned) -> None:
        if returned.error:
            self._close({"error.type": TOOL_ERROR}, StatusCode.ERROR)
        else:
            self._close({})

    def _note_hold(self, held: HeldUntil) -> None:
        self._is_held = True
        self._span.add_event("holdgate.hold", {"holdgate.hold.until": iso(held.until_ms)})

    def _note_hold_end(self, ended: HoldEnded | ReminderDue) -> None:
        self._end_hold(ended.reason if isinstance(ended, HoldEnded) else DUE)

    def _end_hold(self, outcome: str) -> None:
        self._is_held = False
        self._span.add_event("holdgate.hold.ended", {"holdgate.hold.outcome": outcome})

    def _note_stop_message(self, fired: StopMessageFired) -> None:
        counts = {"holdgate.stop_message.n": fired.n, "holdgate.stop_message.of": fired.of}
        self._span.add_event("holdgate.stop_message", counts)

    def _end(self, ended: ExchangeEnded) -> None:
        """End all that is open, however the exchange ended."""
        self._close({"error.type": CANCELLED})
        if self._is_held:
            self._end_hold(LEFT)
        span, is_gone = self._span, ended.state is State.GONE
        attributes: Attributes = {
            "holdgate.state": str(ended.state),
            "holdgate.turns": ended.turns,
            "holdgate.upstream": ended.route.upstream,
        }
        if self._shows_status and not (is_gone and ended.first_seconds is None):
            attributes["http.response.status_code"] = ended.status
        # An answer may be complete although its last follow-up failed.
        if ended.state is State.FAILED:
            attributes["error.type"] = ended.code
            # What is the client's own fault is no error of a server.
            if not 400 <= ended.status < 500:
                span.set_status(StatusCode.ERROR)
        span.set_attributes(attributes)
        span.end()

    def _close(self, attributes: Attributes, status: StatusCode = StatusCode.UNSET) -> None:
        """End the turn or the tool under way, if there is one."""
        span, self._open = self._open, None
        if span is not None:
            span.set_attributes(attributes)
            span.set_status(status)
            span.end()


HANDLERS: Mapping[type[Happening], Callable[[OtelTrace, Any], None]] = {
    FirstFrame: OtelTrace._note_first_frame,
    TurnEnded: OtelTrace._end_turn,
    RouteFailed: OtelTrace._fail_turn,
    ExchangeFailed: OtelTrace._fail_turn,
    ToolStarted: OtelTrace._open_tool,
    ToolReturned: OtelTrace._end_tool,
    HeldUntil: OtelTrace._note_hold,
    HoldEnded: OtelTrace._note_hold_end,
    ReminderDue: OtelTrace._note_hold_end,
    StopMessageFired: OtelTrace._note_stop_message,
    ExchangeEnded: OtelTrace._end,
}
WANTS: Wants = frozenset(HANDLERS)


def _describe_conversation(request: Request) -> Attributes:
    """Return what the exchange and its turns have in common."""
    common: Attributes = {"gen_ai.request.stream": request.asked.stream}
    if request.session_id is not None:
        common["gen_ai.conversation.id"] = request.session_id
    return common


def _describe_exchange(request: Request) -> Attributes:
    return {
        **_describe_conversation(request),
        "gen_ai.request.model": request.asked.model[:LONGEST_NAME],
        "holdgate.exchange.id": request.exchange_id,
        "holdgate.request.id": request.id,
        "holdgate.owner": request.owner,
    }


def _describe_address(endpoint: Endpoint) -> Attributes:
    """Return where an upstream is: of its URL no more, since a key may be in it."""
    url = urlsplit(endpoint.url)
    return {"server.address": url.hostname or "", "server.port": url.port or PORTS[url.scheme]}


def _describe_error(error: HoldgateError) -> Attributes:
    if isinstance(error, UpstreamAnswered):
        return {"error.type": str(error.status), "http.response.status_code": error.status}
    return {"error.type": error.code}
