"""What is surely not there, and how long that is believed."""

import os
from pathlib import Path

from gateway.stores.documents import DocumentKey
from gateway.stores.files import MOST_ABSENT, AbsentKeys


class Watch:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def key(session: str, kind: str = "session") -> DocumentKey:
    return DocumentKey(kind, "local", session)


def test_it_is_believed_until_the_directory_changes(tmp_path: Path) -> None:
    watch = Watch()
    absent = AbsentKeys(tmp_path, watch)
    for kind in ("session", "clock"):
        (tmp_path / kind).mkdir()
        absent.add(key("a", kind))
    assert key("a") in absent
    assert key("b") not in absent
    os.utime(tmp_path / "session", ns=(1, 1))
    assert key("a") in absent
    watch.now += 0.1
    assert key("a") not in absent
    assert key("a", "clock") in absent


def test_one_that_is_written_is_not_believed_absent(tmp_path: Path) -> None:
    (tmp_path / "session").mkdir()
    absent = AbsentKeys(tmp_path, Watch())
    absent.add(key("a"))
    absent.drop(key("a"))
    absent.drop(key("b"))
    assert key("a") not in absent


def test_where_there_is_no_directory_nothing_is_known(tmp_path: Path) -> None:
    absent = AbsentKeys(tmp_path, Watch())
    absent.add(key("a"))
    assert key("a") not in absent


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    (tmp_path / "session").mkdir()
    absent = AbsentKeys(tmp_path, Watch())
    absent.add(key("0"))
    absent._keys["session"].update(key(str(number)) for number in range(MOST_ABSENT))
    assert key("1") in absent
    absent.add(key("a"))
    assert key("a") in absent
    assert key("1") not in absent
