"""Opens the store of a URL, to be copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gateway.stores.copying import CopyStore
from gateway.stores.disk import ROWS_FILE, ROWS_MARKER
from gateway.stores.documents import OnQuarantine, Shape, StoreUnavailable
from gateway.stores.files import open_files
from gateway.stores.files_copying import FilesCopy
from gateway.stores.shared import is_shared
from gateway.stores.sqlite.copying import SqliteCopy
from gateway.stores.sqlite.documents import open_sqlite
from gateway.stores.sqlite.engine import file_engine
from gateway.stores.urls import NO_DRIVER, SQLITE, sqlite_path, system_ms, tell_nobody

EMBEDDED = "embedded"
"""The store in a session directory: alone, the configured one; else with `:///path`."""
UNKNOWN = (
    'No store is known as "{}"; use embedded, embedded:///path/of/session_dir, sqlite:///path or '
    "postgresql://…"
)


@dataclass(frozen=True, slots=True)
class CopySettings:
    """What is known of both stores."""

    session_dir: Path
    schema: str
    """The schema in PostgreSQL."""
    shapes: Sequence[Shape[Any]]
    hooks: Mapping[str, Sequence[str]]
    """The names of the webhooks of each owner."""
    on_quarantine: OnQuarantine = tell_nobody


async def open_copy_store(url: str, settings: CopySettings, *, is_source: bool) -> CopyStore:
    """Open a store that no gateway uses; a source has to be there, a target may be new."""
    scheme, _, path = url.partition(":///")
    if scheme == EMBEDDED:
        root = Path("/", path.lstrip("/")) if path else settings.session_dir
        _check_source(root, is_source)
        return await _open_embedded(root, settings)
    if url.startswith(SQLITE) and len(url) > len(SQLITE):
        _check_source(sqlite_path(url), is_source)
        return await _open_sqlite(sqlite_path(url), settings)
    if is_shared(url):
        # Its driver is an extra.
        try:
            opener = import_module("gateway.stores.postgres.copying").open_postgres_copy
        except ModuleNotFoundError as error:
            raise StoreUnavailable(NO_DRIVER.format(error.name)) from error
        opened: CopyStore = await opener(url, settings.schema)
        return opened
    raise StoreUnavailable(UNKNOWN.format(url.partition(":")[0]))


def _check_source(path: Path, is_source: bool) -> None:
    if is_source and not path.exists():
        raise StoreUnavailable(f'There is nothing to copy: "{path}" does not exist.')


async def _open_embedded(root: Path, settings: CopySettings) -> FilesCopy:
    files = await open_files(root, settings.shapes, system_ms, settings.on_quarantine)
    engine = file_engine(root / ROWS_FILE, files.lock.hold, root / ROWS_MARKER)
    rows = SqliteCopy(engine, settings.hooks, engine.aclose)
    return FilesCopy(files, root, settings.shapes, rows)


async def _open_sqlite(path: Path, settings: CopySettings) -> SqliteCopy:
    documents = await open_sqlite(path, system_ms, settings.on_quarantine)
    return SqliteCopy(documents.engine, settings.hooks, documents.aclose)
