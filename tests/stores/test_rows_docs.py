"""What docs/stores.md says of rows, where the code can tell."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from gateway.stores import StoreUnavailable
from gateway.stores.disk import ROWS_FILE
from gateway.stores.sqlite.database import MemoryDatabase, migrate
from gateway.stores.sqlite.schema import MIGRATIONS

from .row_backends import RowBackend, job, same

PAGE = Path(__file__).parents[2].joinpath("docs/stores.md").read_text()


def tables(connection: sqlite3.Connection) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in found if not name.startswith("sqlite_")}


def test_all_tables_of_rows_are_named() -> None:
    section = PAGE.partition("**Rows**")[2].partition("##")[0]
    named = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    database = MemoryDatabase()
    assert named == tables(database.connection()) - {"documents", "corrupt_documents"}
    database.close()


def test_the_schema_has_the_number_that_is_said() -> None:
    assert f"is its number, now {len(MIGRATIONS)}:" in PAGE
    assert re.findall(r"^\| (\d) \| .+ \|$", PAGE, re.MULTILINE) == ["1", "2", "3", "4", "5"]


def test_the_refusal_of_a_newer_schema() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(StoreUnavailable) as refusal:
        migrate(connection, MIGRATIONS)
    connection.close()
    assert f"\n{refusal.value.message}\n" in PAGE


def test_the_name_of_the_file() -> None:
    assert f"  {ROWS_FILE}  " in PAGE


@pytest.mark.parametrize("name", ["embedded", "sqlite"])
async def test_the_look_and_the_backup(tmp_path: Path, name: str) -> None:
    """A backup that SQLite makes while the store is in use is whole, and serves as the store."""
    [look] = re.findall(r"`(SELECT json_extract.+?)`", PAGE)
    backend, restored = RowBackend(name, tmp_path), RowBackend(name, tmp_path / "restored")
    restored.path.parent.mkdir(parents=True)
    async with backend.opened() as rows:
        await rows.jobs.add(job("j", name="Tea"), same, 9)
        source, copy = sqlite3.connect(backend.path), sqlite3.connect(restored.path)
        assert source.execute(look).fetchall() == [("Tea",)]
        source.backup(copy)
        source.close()
        copy.close()
    async with restored.opened() as rows:
        assert await rows.jobs.listing(None) == [job("j", name="Tea")]
