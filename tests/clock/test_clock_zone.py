"""The host's time zone, in every form in which TZ may name one."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest

from gateway.clock.zone import zone_of

WINTER, SUMMER = datetime(2026, 1, 15), datetime(2026, 7, 15)


@pytest.mark.parametrize(
    "said, name, winter, summer",
    [
        ("CST-8", "Etc/GMT-8", 8, 8),
        ("UTC0", "UTC", 0, 0),
        ("<+03>-3", "Etc/GMT-3", 3, 3),
        ("<-03>3", "Etc/GMT+3", -3, -3),
        ("IST-5:30", "Asia/Kolkata", 5.5, 5.5),
        ("EST5EDT", "EST5EDT", -5, -4),
        ("EST5EDT,M3.2.0,M11.1.0", "America/New_York", -5, -4),
        ("EST5EDT4,M3.2.0/2,M11.1.0/02:00:00", "America/New_York", -5, -4),
        ("GMT0BST,M3.5.0/1,M10.5.0", "Europe/London", 0, 1),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Berlin", 1, 2),
        ("<-0330>3:30<-0230>,M3.2.0,M11.1.0", "America/St_Johns", -3.5, -2.5),
        ("Asia/Shanghai", "Asia/Shanghai", 8, 8),
        (":Asia/Shanghai", "Asia/Shanghai", 8, 8),
    ],
)
def test_a_legal_tz_gives_the_local_time(
    said: str, name: str, winter: float, summer: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", said)
    zone = zone_of("")
    assert zone.name == name
    assert zone.tz.utcoffset(WINTER) == timedelta(hours=winter)
    assert zone.tz.utcoffset(SUMMER) == timedelta(hours=summer)


@pytest.mark.parametrize(
    "said", ["Nowhere/City", "CET-1CEST", "XXX-20", "Asia", "../etc/passwd", "/nowhere", "AA5", "?"]
)
def test_an_unknown_tz_is_utc_and_one_line_says_so(
    said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TZ", said)
    with caplog.at_level(logging.WARNING):
        assert zone_of("").name == "UTC"
    assert [record.getMessage() for record in caplog.records] == [
        f"the time zone TZ={said!r} is not known: local times are told in UTC; set clock.timezone"
    ]


def test_the_configured_zone_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CST-8")
    assert zone_of("Europe/Paris").name == "Europe/Paris"
