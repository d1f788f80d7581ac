"""The HTTP API, described for machines."""

from gateway.web.openapi.document import OpenApi, document

__all__ = ["OpenApi", "document"]
