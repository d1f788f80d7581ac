"""Decides whether exchanges are traced: they are if the operator has set up OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from urllib.parse import urlsplit

from gateway.config import Config, UpstreamSection
from gateway.config.presets import PRESETS
from gateway.exchange.ports import Tracer
from gateway.wire.http_client.upstream import Upstream

API = "opentelemetry.trace"
# As the semantic conventions name them, where the preset has another name.
PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure-deployments": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
}
LOOPBACK = "127.0.0.1"


def find_tracer(config: Config, upstreams: Mapping[str, Upstream]) -> Tracer | None:
    """Return who traces exchanges, if anybody is to see the traces."""
    # Whoever sets up an SDK imports the API. If nobody did, the gateway does not import it either.
    if API not in sys.modules:
        return None
    make: Callable[..., Tracer | None] = import_module("gateway.tracing").make_tracer
    return make(upstreams, {section.id: name_provider(section) for section in config.upstreams})


def name_provider(section: UpstreamSection) -> str:
    """Return who answers there: by the preset, else by the host, else as the operator calls it."""
    hosts = {urlsplit(p.values.get("base_url", "")).hostname: name for name, p in PRESETS.items()}
    host = urlsplit(section.base_url).hostname
    known = section.preset or ("" if host == LOOPBACK else hosts.get(host, ""))
    return PROVIDERS.get(known, known) or section.id
