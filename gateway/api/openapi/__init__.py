"""The HTTP API, described for machines."""

from gateway.api.openapi.document import OpenApi, document

__all__ = ["OpenApi", "document"]
