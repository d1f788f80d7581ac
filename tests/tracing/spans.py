"""Spans of a gateway, as an SDK exports them: the words the tests here are written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from gateway.tracing import OtelTracer
from tests.run import Running
from tests.wire.fake import Request

TRACE = "0af7651916cd43dd8448eb211c80319c"
CLIENTS_SPAN = "b7ad6b7169203331"
PARENT = f"traceparent: 00-{TRACE}-{CLIENTS_SPAN}-01"
Happened = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended."""

    name: str
    kind: str
    trace: str
    id: str
    parent: str
    """The id of its parent; empty if it begins a trace."""
    attributes: Mapping[str, Any]
    events: list[Happened]
    status: str

    @property
    def header(self) -> bytes:
        """How an upstream hears of it, without the flags."""
        return f"00-{self.trace}-{self.id}".encode()


class SpanLog:
    """Has a gateway traced, and keeps the spans that ended, in the order of their ends."""

    def __init__(self, gate: Running, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        gateway = gate.gateway
        upstreams = gateway.exchanges.services.upstreams
        gateway.exchanges.tracer = OtelTracer(provider.get_tracer("holdgate"), upstreams, {})
        self._gate = gate

    async def read(self) -> list[Span]:
        """Wait until nothing is under way, and return all spans."""
        await self._gate.quiet()
        return self.ended

    @property
    def ended(self) -> list[Span]:
        """The spans that have ended so far."""
        return [_read(span) for span in self._exporter.get_finished_spans()]

    @property
    def exported(self) -> str:
        """All that left the process."""
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


def _read(span: ReadableSpan) -> Span:
    own = span.get_span_context()
    assert own is not None
    return Span(
        span.name,
        span.kind.name,
        f"{own.trace_id:032x}",
        f"{own.span_id:016x}",
        "" if span.parent is None else f"{span.parent.span_id:016x}",
        dict(span.attributes or {}),
        [(event.name, dict(event.attributes or {})) for event in span.events],
        span.status.status_code.name,
    )


def outline(spans: list[Span]) -> list[tuple[str, str, str]]:
    """Say of each span its name, its kind, and the name of its parent."""
    names = {span.id: span.name for span in spans}
    return [(span.name, span.kind, names.get(span.parent, "")) for span in spans]


def trace_parents(requests: list[Request]) -> list[bytes]:
    """Read which spans upstreams were told of, without the flags."""
    return [request.headers[b"traceparent"].rpartition(b"-")[0] for request in requests]
