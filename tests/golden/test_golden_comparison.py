"""The records themselves: what they take for equal, and what they tell when it is not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.golden import record
from tests.golden.placeholders import Placeholders

ONE, OTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(record, "RECORDS", tmp_path)
    monkeypatch.delenv(record.ANEW, raising=False)
    return tmp_path


def test_equal_ids_have_equal_names() -> None:
    said = Placeholders().put(f"job_{ONE} run_{OTHER} job_{ONE}")
    assert said == "job_<id 1> run_<id 2> job_<id 1>"


def test_only_times_of_the_machine_are_replaced() -> None:
    story, machine = "1900000000000", str(round(time.time() * 1000))
    assert Placeholders().put(f"{story} {machine}") == f"{story} <time>"


def test_a_record_that_differs_fails_and_tells_where(records: Path) -> None:
    records.joinpath("x.txt").write_text("## log\nsame\n" + "y" * 300 + "old\n")
    with pytest.raises(AssertionError) as failure:
        record.compare("x", "## log\nsame\n" + "y" * 300 + "new\n")
    told = str(failure.value).splitlines()
    assert told[0] == "x.txt is not what it was:"
    assert told[1:] == ["## log", f"- …{'y' * 90}old", f"+ …{'y' * 90}new"]


def test_a_record_that_is_missing_fails(records: Path) -> None:
    with pytest.raises(AssertionError, match="There is no record x"):
        record.compare("x", "")


def test_a_record_is_made_anew(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(record.ANEW, "1")
    record.compare("x", "new\n")
    assert records.joinpath("x.txt").read_text() == "new\n"
