"""Tables stand straight, whatever is in them."""

from __future__ import annotations

import pytest

from gateway.cli.tables import clip, table, width


def test_columns_are_as_wide_as_what_stands_in_them() -> None:
    assert table(("A", "LONG"), [("one", "1"), ("日程助手", "2")]).splitlines() == [
        "A         LONG",
        "one       1",
        "日程助手  2",
    ]


@pytest.mark.parametrize(
    ("text", "columns"), [("", 0), ("abc", 3), ("日程", 4), ("e\u0301", 1), ("ｆ", 2), ("…", 1)]
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("ab cd", 4, "ab…"), ("日程助手", 6, "日程…")],
)
def test_clipped(text: str, most: int, shown: str) -> None:
    assert clip(text, most) == shown
    assert width(shown) <= most
