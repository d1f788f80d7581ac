"""The stores: one small document for each kind, owner and session, and rows."""

from gateway.stores.documents import (
    Conflict,
    Corrupt,
    DocumentKey,
    Documents,
    InUse,
    Listed,
    Newer,
    SealedDocument,
    Shape,
    Stored,
    StoreUnavailable,
    TooLarge,
    amend,
    fetch,
    update,
)
from gateway.stores.memory import Memory
from gateway.stores.rows import Rows
from gateway.stores.urls import open_documents, open_rows

__all__ = [
    "Conflict",
    "Corrupt",
    "DocumentKey",
    "Documents",
    "InUse",
    "Listed",
    "Memory",
    "Newer",
    "Rows",
    "SealedDocument",
    "Shape",
    "StoreUnavailable",
    "Stored",
    "TooLarge",
    "amend",
    "fetch",
    "open_documents",
    "open_rows",
    "update",
]
