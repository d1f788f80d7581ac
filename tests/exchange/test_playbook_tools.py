"""The gateway's own tools: run, told to the model, kept for later."""

from __future__ import annotations

from .playbook import Scene, play

DICE = Scene(dice=True)


async def test_a_tool_is_run_and_its_follow_up_spliced() -> None:
    stage = await play(
        """
        >> client asks
        << opens a
        >> a sends "I roll. "
        << client sees text "I roll. "
        >> a calls dice
        >> a stops
        << a is released
        << runs dice
        >> dice returns 4
        << opens a with assistant "I roll. " call dice, tool "4"
        >> a sends "A four."
        << client sees text "¶¶A four."
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        DICE,
    )
    kinds = stage.audience.kinds
    start = kinds.index("TurnEnded")
    assert kinds[start : start + 10] == [
        "TurnEnded",
        "UpstreamClosed",
        "StateChanged",
        "ToolStarted",
        "ToolReturned",
        "StateChanged",
        "RouteTried",
        "RequestExtended",
        "FirstFrame",
        "Spliced",
    ]


async def test_a_tool_in_a_whole_answer() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a answers with a call of dice
        << a is released
        << runs dice
        >> dice returns 4
        << opens a with assistant call dice, tool "4"
        >> a answers "A four."
        << a is released
        << client sees 200, text "A four.", finish stop
        << exchange is done
        """,
        Scene(dice=True, stream=False),
    )


async def test_client_tools_beside_ours() -> None:
    """The client sees its own call alone; what ours returned is kept for its next request."""
    stage = await play(
        """
        >> client asks
        << opens a
        >> a calls dice
        >> a calls door
        << client sees call door
        >> a stops
        << a is released
        << runs dice
        >> dice returns 4
        << client sees finish tool_calls, the end
        << exchange is done
        """,
        Scene(dice=True, door=True),
    )
    (kept,) = (await stage.states.show("local", "s")).kept
    assert [(result.call_id, result.text) for result in kept.results] == [("call_0", "4")]


async def test_what_ours_returned_can_not_be_kept() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a calls door
        << client sees call door
        >> a calls dice
        >> a stops
        << a is released
        << runs dice
        >> store goes down
        >> dice returns 4
        << log tool_results_not_stored
        << client sees finish tool_calls, the end
        << exchange is done
        """,
        Scene(dice=True, door=True),
    )


async def test_tools_without_end() -> None:
    await play(
        """
        >> client asks
        << opens a
        >> a calls dice
        >> a stops
        << a is released
        << runs dice
        >> dice returns 4
        << opens a with assistant call dice, tool "4"
        >> a calls dice
        >> a stops
        << a is released
        << client sees finish stop, the end
        << exchange is done
        """,
        Scene(dice=True, tool_turns=1),
    )


async def test_a_follow_up_is_lost() -> None:
    """The turn before it stands, but its reason named a call that nobody saw."""
    await play(
        """
        >> client asks
        << opens a
        >> a sends "I roll."
        << client sees text "I roll."
        >> a calls dice
        >> a stops
        << a is released
        << runs dice
        >> dice returns 4
        << opens a with assistant "I roll." call dice, tool "4"
        >> a fails with 503
        << opens b
        >> b fails with 503
        << client sees finish stop, the end
        << exchange is done: upstream_error
        """,
        Scene(dice=True, routes="ab"),
    )
