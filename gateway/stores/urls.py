"""Opens the store of a URL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from gateway.stores.documents import Documents, OnQuarantine, Shape, StoreUnavailable
from gateway.stores.files import Files, open_files
from gateway.stores.memory import Memory
from gateway.stores.rows import Rows
from gateway.stores.shared import SharedSettings
from gateway.stores.sqlite.documents import Sqlite, open_sqlite
from gateway.stores.sqlite.rows import (
    RowServices,
    open_embedded_rows,
    open_memory_rows,
    open_shared_rows,
)

Note = Callable[..., None]

SQLITE = "sqlite:///"
NO_DRIVER = "The package {} is not installed; run: pip install 'holdgate[postgres]'."


def system_ms() -> int:
    """Return the host's time in milliseconds."""
    return time.time_ns() // 1_000_000


def tell_nobody(name: str, reason: str) -> None:
    """Do nothing about a document that was set aside."""


async def open_documents(
    url: str,
    session_dir: Path,
    shapes: Iterable[Shape[Any]],
    *,
    now_ms: Callable[[], int] = system_ms,
    on_quarantine: OnQuarantine = tell_nobody,
) -> Documents:
    """Open the store of a URL: empty for files below `session_dir`, `sqlite:///path`, `memory:`."""
    if not url:
        return await open_files(session_dir, shapes, now_ms, on_quarantine)
    if url == "memory:":
        return Memory(now_ms, on_quarantine)
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        return await open_sqlite(sqlite_path(url), now_ms, on_quarantine)
    scheme = url.partition(":")[0]
    raise StoreUnavailable(f'No store is known for "{scheme}:"; use sqlite:///path or memory:.')


async def open_rows(
    url: str,
    session_dir: Path,
    documents: Documents,
    *,
    now_ms: Callable[[], int] = system_ms,
    lease_ms: Callable[[], int] = system_ms,
    on_quarantine: OnQuarantine = tell_nobody,
) -> Rows:
    """Open the rows of a URL, beside its documents; they are closed before the documents are.

    `lease_ms` is the host's time, by which leases end.
    """
    services = RowServices(now_ms, lease_ms, on_quarantine)
    if isinstance(documents, Sqlite):
        return open_shared_rows(documents, services)
    if isinstance(documents, Files):
        return await open_embedded_rows(session_dir, documents.lock, services)
    if isinstance(documents, Memory):
        return open_memory_rows(services)
    raise StoreUnavailable(f'No store of rows is known for "{url.partition(":")[0]}:".')


class SharedStore(Protocol):
    """The store of a `postgresql://` URL."""

    @property
    def documents(self) -> Documents:
        """Its documents."""

    @property
    def rows(self) -> Rows:
        """Its rows."""

    async def aclose(self) -> None:
        """Finish pending writes, and release all resources."""


async def update_schema(settings: SharedSettings, note: Note) -> tuple[int, int]:
    """Bring the schema of a shared store up to date; return its version before and after."""
    migrated: tuple[int, int] = await _find_driver("migrate_store")(settings, note)
    return migrated


async def check_shared(settings: SharedSettings) -> None:
    """Raise `StoreUnavailable` if a shared store cannot be reached."""
    await _find_driver("check_store")(settings)


def _find_driver(name: str) -> Any:
    """Return a function of the shared store; its driver is an extra, so only now imported."""
    try:
        return getattr(import_module("gateway.stores.postgres.store"), name)
    except ModuleNotFoundError as error:
        raise StoreUnavailable(NO_DRIVER.format(error.name)) from error


async def open_shared(
    settings: SharedSettings,
    now_ms: Callable[[], int],
    on_quarantine: OnQuarantine,
    note: Note,
    process: str,
) -> SharedStore:
    """Open a store that many instances share."""
    opener = _find_driver("open_postgres")
    opened: SharedStore = await opener(settings, now_ms, on_quarantine, note, process)
    return opened


def sqlite_path(url: str) -> Path:
    """Return the file a `sqlite:///path` URL names: an absolute path, or one that begins with ~."""
    path = unquote(url.removeprefix(SQLITE))
    return Path(path).expanduser() if path.startswith("~") else Path("/", path.lstrip("/"))
