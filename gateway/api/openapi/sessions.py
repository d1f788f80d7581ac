"""Agents and sessions, reminders and deliveries, described."""

from __future__ import annotations

from gateway.api.openapi.schemas import BOOKMARK
from gateway.api.openapi.text import (
    Answer,
    Area,
    Json,
    Operation,
    Parameter,
    in_events,
    in_json,
    items,
    moment,
    number,
    or_null,
    ref,
    text,
    thing,
    wish,
)
from gateway.stores.documents import LATEST

HERE = "/api/sessions/{id}"
ID = Parameter("id", text(minLength=1, maxLength=256), "Which session; any text.", "path")
NO_SESSION = {404: "Nothing is kept of such a session, or it is somebody else's."}
MESSAGE: Json = wish(
    {
        "message": text("For the agent.", minLength=1),
        "agentId": text("Who is to answer.", minLength=1),
        "sessionId": text("Which conversation; without it, one called as the agent."),
        "userId": text("Whose it is; only an admin's key may say so."),
    },
    "message",
    "agentId",
)
LISTED: Json = thing(
    {
        "sessions": items(
            thing({"sessionId": text(), "agentId": or_null(text()), "updatedAt": moment()})
        ),
        "next": or_null(text("The `after` of the next page.")),
    }
)
AGENT: Json = thing({"id": text(), "name": text(), "model": text(), "tools": items(text())})

CHAT_EVENTS = (
    "start",
    "thinking",
    "text",
    "tool_start",
    "tool_end",
    "tool_error",
    "hold",
    "end",
    "complete",
    "error",
)
CHAT_DATA: Json = {
    "type": "object",
    "properties": {
        "sessionId": text(),
        "delta": text("Of `thinking` and `text`."),
        "name": text("Of a tool."),
        "input": {"type": ["object", "string"], "description": "Of `tool_start`."},
        "durationMs": number("Of `tool_end`."),
        "error": text("Of `tool_error`."),
        "until": number("Of `hold`: UTC milliseconds."),
        "reason": text("Of `complete`."),
        "toolCount": number("Of `complete`."),
        "turns": number("Of `complete`."),
        "bookmark": BOOKMARK,
        "message": text("Of `error`."),
        "code": {"type": ["string", "number", "null"], "description": "Of `error`."},
    },
    "required": ["sessionId"],
    "additionalProperties": False,
}

AGENTS = Area(
    "agents",
    "Agents, whose conversations live in the gateway.",
    (
        Operation(
            method="get",
            path="/api/agents",
            name="listAgents",
            summary="List the agents.",
            answers=(Answer("Them.", in_json(thing({"agents": items(AGENT)}))),),
        ),
        Operation(
            method="post",
            path="/api/chat",
            name="chat",
            summary="Say something to an agent.",
            body=MESSAGE,
            answers=(
                Answer(
                    "Its answer.",
                    in_events(
                        "First `start`, then whatever comes, `end`, and then exactly one of "
                        "`complete` and `error`.",
                        CHAT_EVENTS,
                        CHAT_DATA,
                    ),
                ),
            ),
            errors={
                404: "No agent has this id; the sentence names those there are.",
                429: "The session is busy.",
            },
        ),
    ),
)

SESSIONS = Area(
    "sessions",
    "What is kept of sessions. Each owner sees only their own.",
    (
        Operation(
            method="get",
            path="/api/sessions",
            name="listSessions",
            summary="List sessions, the one used last first.",
            parameters=(
                Parameter("limit", number(minimum=1), "How many; 50 if not said, 500 at most."),
                Parameter("after", text(), "The `next` of the page before."),
            ),
            answers=(Answer("A page of them.", in_json(LISTED)),),
        ),
        Operation(
            method="get",
            path=HERE,
            name="showSession",
            summary="Show what was said, what is to come, and what is in force.",
            parameters=(ID, Parameter("agentId", text(), "Which of its conversations.")),
            answers=(Answer("All of it.", in_json(ref("Session"))),),
            errors=NO_SESSION,
        ),
        Operation(
            method="delete",
            path=HERE,
            name="forgetSession",
            summary="Forget a session with its conversations, reminders, jobs and deliveries.",
            parameters=(ID,),
            answers=(
                Answer("Gone.", in_json(thing({"sessionId": text(), "deleted": {"const": True}}))),
            ),
            errors=NO_SESSION,
        ),
    ),
)

REMINDER_WISH: Json = wish(
    {
        "dueAt": moment("With seconds and an offset."),
        "task": text("What to do then.", minLength=1),
        "tool": text("A tool that may help; a hint."),
        "arguments": {
            "type": ["object", "string"],
            "description": "Of that tool: an object, or a text.",
        },
    },
    "dueAt",
    "task",
)
TIME: Json = thing(
    {
        "ok": {"const": True},
        "action": {"const": "get"},
        "active": {"const": True},
        "nowMs": number(),
        "utc": moment(),
        "local": text(),
        "timezone": text(),
        "ntp": ref("Ntp"),
    }
)

REMINDERS = Area(
    "reminders",
    "The clock, and reminders by hand. A session that was never used has none.",
    (
        Operation(
            method="get",
            path="/api/clock",
            name="tellTime",
            summary="Tell the time, as the model's tool does.",
            answers=(Answer("It.", in_json(TIME)),),
        ),
        Operation(
            method="get",
            path=HERE + "/reminders",
            name="listReminders",
            summary="List reminders, and what became of others within a day.",
            parameters=(ID,),
            answers=(
                Answer(
                    "Them.",
                    in_json(
                        thing(
                            {
                                "sessionId": text(),
                                "items": items(ref("Reminder")),
                                "ended": items(ref("EndedReminder")),
                            }
                        )
                    ),
                ),
            ),
        ),
        Operation(
            method="post",
            path=HERE + "/reminders",
            name="setReminder",
            summary="Set a reminder.",
            parameters=(ID,),
            body=REMINDER_WISH,
            answers=(
                Answer(
                    "It is set.",
                    in_json(thing({"sessionId": text(), "scheduled": items(ref("Reminder"))})),
                    201,
                ),
            ),
        ),
        Operation(
            method="delete",
            path=HERE + "/reminders",
            name="clearReminders",
            summary="Remove all reminders.",
            parameters=(ID,),
            answers=(
                Answer(
                    "How many.", in_json(thing({"sessionId": text(), "removedCount": number()}))
                ),
            ),
        ),
        Operation(
            method="delete",
            path=HERE + "/reminders/{taskId}",
            name="cancelReminder",
            summary="Remove one reminder.",
            parameters=(ID, Parameter("taskId", text(minLength=1), "Which.", "path")),
            answers=(
                Answer("It is gone.", in_json(thing({"sessionId": text(), "removed": text()}))),
            ),
            errors={404: "The session has no such reminder."},
        ),
    ),
)

PLACE = number(minimum=0, maximum=LATEST)
FEED_EVENTS = ("reminder.due", "run.started", "run.finished", "delivery.acked")
FEED_DATA: Json = thing(
    {
        "id": number(),
        "event": text(enum=list(FEED_EVENTS)),
        "sessionId": text(),
        "at": moment(),
        "data": {"type": "object"},
    }
)
WAITING: Json = thing({"sessionId": text(), "items": items(ref("Delivery")), "cursor": text()})

DELIVERIES = Area(
    "deliveries",
    "What reaches a client that is not asking right now. A session that was never used has none.",
    (
        Operation(
            method="get",
            path=HERE + "/events",
            name="subscribe",
            summary="Hear what happens in a session, as it happens.",
            parameters=(
                ID,
                Parameter("after", PLACE, "The id of the last event that was got."),
                Parameter("Last-Event-ID", PLACE, "The same; it counts.", "header"),
            ),
            answers=(
                Answer(
                    "Events, until one of both leaves.",
                    in_events("What its data has depends on the event.", FEED_EVENTS, FEED_DATA),
                ),
            ),
            errors={429: "The owner has too many subscriptions."},
        ),
        Operation(
            method="get",
            path=HERE + "/inbox",
            name="lookIntoInbox",
            summary="Show what waits for a session, or wait for it. Looking is not taking.",
            parameters=(
                ID,
                Parameter(
                    "wait_ms",
                    number(minimum=0, maximum=120_000),
                    "How long to wait; else 0.",
                ),
                Parameter("after", text(), "The `cursor` of an earlier answer."),
            ),
            answers=(
                Answer("What waits.", in_json(WAITING)),
                Answer("Nothing.", status=204),
            ),
            errors={429: "The owner has too many requests that wait."},
        ),
        Operation(
            method="post",
            path=HERE + "/inbox/ack",
            name="acknowledge",
            summary="Say what was got, so that no request of the session brings it as well.",
            parameters=(ID,),
            body=thing({"ids": {**items(text()), "maxItems": 1000}}),
            answers=(
                Answer(
                    "Those that were still waiting.",
                    in_json(thing({"sessionId": text(), "acked": items(text())})),
                ),
            ),
        ),
    ),
)
