"""Turns: streams, whole answers, routes that fail, answers that break off."""

from __future__ import annotations

from .playbook import Scene, play


async def test_plain_stream() -> None:
    stage = await play(
        """
        >> client asks
        << opens a
        >> a opens
        >> a sends "Hi"
        << client sees text "Hi"
        >> a sends " there"
        << client sees text " there"
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    )
    assert stage.audience.kinds == [
        "RouteTried",
        "FirstFrame",
        "StateChanged",
        "TurnEnded",
        "UpstreamClosed",
        "StateChanged",
        "RequestExtended",
        "StateChanged",
        "ExchangeEnded",
    ]


async def test_whole_answer() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a answers "Hi"
        << a is released
        << client sees 200, text "Hi", finish stop
        << exchange is done
        """,
        Scene(stream=False),
    )


async def test_failover_before_the_first_frame() -> None:
    stage = await play(
        """
        >> client asks
        << opens a
        >> a fails with 503
        << opens b
        >> b opens
        >> b breaks off
        << b is closed
        << opens c
        >> c sends "Hi"
        << client sees text "Hi"
        >> c stops
        << c is released
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(routes="abc"),
    )
    assert stage.audience.kinds[:5] == [
        "RouteTried",
        "RouteFailed",
        "StateChanged",
        "RouteTried",
        "UpstreamClosed",
    ]


async def test_all_routes_fail() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a can not be reached
        << opens b
        >> b fails with 500
        << client sees 500, error upstream_500
        << exchange is failed: upstream_error
        """,
        Scene(routes="ab"),
    )


async def test_a_bad_request_is_bad_everywhere() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a fails with 400
        << client sees 400, error upstream_400
        << exchange is failed: upstream_error
        """,
        Scene(routes="ab"),
    )


async def test_error_after_bytes() -> None:
    """Another route can not answer any more: the client has read some of this one."""
    stage = await play(
        """
        >> client asks
        << opens a
        >> a sends "Hi"
        << client sees text "Hi"
        >> a breaks off
        << a is closed
        << client sees error upstream_broke, the end
        << exchange is failed: upstream_broke
        """,
        Scene(routes="ab"),
    )
    assert stage.audience.kinds[-5:] == [
        "UpstreamClosed",
        "TurnBroke",
        "StateChanged",
        "ExchangeFailed",
        "ExchangeEnded",
    ]


async def test_a_whole_answer_breaks_off() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a opens
        >> a breaks off
        << a is closed
        << client sees 502, error upstream_broke
        << exchange is failed: upstream_broke
        """,
        Scene(stream=False),
    )


async def test_a_slow_reader_is_waited_for() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> client stops reading
        >> a sends "Hi"
        << client sees text "Hi"
        << client is waited for
        >> a sends " there"
        >> client reads on
        << client sees text " there"
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """
    )


async def test_heartbeats_until_the_first_frame() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a opens
        >> client is silent for long
        << client sees a heartbeat
        >> a breaks off
        << a is closed
        << client sees error upstream_broke, the end
        << exchange is failed: upstream_broke
        """
    )


async def test_notes_tell_what_happens() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a sends "Hi"
        << client sees text "Hi"
        >> a stops
        << a is released
        << client sees holdgate {"state": "closing", "turn": 1}
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(notes=True),
    )
