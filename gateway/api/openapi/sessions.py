"""Agents and sessions, reminders and deliveries, described."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.api.chat import AgentList, ChatMessageBody
from gateway.api.delivery import LONGEST_WAIT_MS, Acknowledged, Acknowledgement, InboxPage
from gateway.api.openapi.operation import Area, EventStream, Operation, Parameter, Reply
from gateway.api.reminders import (
    ReminderBody,
    ReminderRemoved,
    RemindersCleared,
    RemindersSet,
    SessionReminders,
)
from gateway.api.sessions import BookmarkView, SessionDetails, SessionForgotten, SessionList
from gateway.outbox.feed import KINDS
from gateway.outbox.text import EventView
from gateway.reminders.view import ClockReading
from gateway.stores.documents import LATEST

NOT_EMPTY = Annotated[str, Meta(min_length=1)]
PLACE = Annotated[int, Meta(ge=0, le=LATEST)]
HERE = "/api/sessions/{id}"
ID = Parameter(
    "id", Annotated[str, Meta(min_length=1, max_length=256)], "Which session; any text.", "path"
)
NO_SESSION = {404: "Nothing is kept of such a session, or it is somebody else's."}


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


class ChatEvent(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """The data of an event of a chat; which members it has depends on the event."""

    session_id: str
    delta: Annotated[str, Meta(description="Of `thinking` and `text`.")] | UnsetType = UNSET
    name: Annotated[str, Meta(description="Of a tool.")] | UnsetType = UNSET
    input: Annotated[dict[str, Any] | str, Meta(description="Of `tool_start`.")] | UnsetType = UNSET
    duration_ms: Annotated[int, Meta(description="Of `tool_end`.")] | UnsetType = UNSET
    error: Annotated[str, Meta(description="Of `tool_error`.")] | UnsetType = UNSET
    until: Annotated[int, Meta(description="Of `hold`: UTC milliseconds.")] | UnsetType = UNSET
    reason: Annotated[str, Meta(description="Of `complete`.")] | UnsetType = UNSET
    tool_count: Annotated[int, Meta(description="Of `complete`.")] | UnsetType = UNSET
    turns: Annotated[int, Meta(description="Of `complete`.")] | UnsetType = UNSET
    bookmark: BookmarkView | UnsetType = UNSET
    message: Annotated[str, Meta(description="Of `error`.")] | UnsetType = UNSET
    code: Annotated[str | float | None, Meta(description="Of `error`.")] | UnsetType = UNSET


AGENTS = Area(
    "agents",
    "Agents, whose conversations live in the gateway.",
    (
        Operation(
            "get", "/api/agents", "listAgents", "List the agents.", (Reply("Them.", AgentList),)
        ),
        Operation(
            "post",
            "/api/chat",
            "chat",
            "Say something to an agent.",
            (
                Reply(
                    "Its answer.",
                    events=EventStream(
                        "First `start`, then whatever comes, `end`, and then exactly one of "
                        "`complete` and `error`.",
                        CHAT_EVENTS,
                        ChatEvent,
                    ),
                ),
            ),
            body=ChatMessageBody,
            required=("message", "agentId"),
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
            "get",
            "/api/sessions",
            "listSessions",
            "List sessions, the one used last first.",
            (Reply("A page of them.", SessionList),),
            (
                Parameter(
                    "limit", Annotated[int, Meta(ge=1)], "How many; 50 if not said, 500 at most."
                ),
                Parameter("after", str, "The `next` of the page before."),
            ),
        ),
        Operation(
            "get",
            HERE,
            "showSession",
            "Show what was said, what is to come, and what is in force.",
            (Reply("All of it.", SessionDetails),),
            (ID, Parameter("agentId", str, "Which of its conversations.")),
            errors=NO_SESSION,
        ),
        Operation(
            "delete",
            HERE,
            "forgetSession",
            "Forget a session with its conversations, reminders, jobs and deliveries.",
            (Reply("Gone.", SessionForgotten),),
            (ID,),
            errors=NO_SESSION,
        ),
    ),
)

REMINDERS = Area(
    "reminders",
    "The clock, and reminders by hand. A session that was never used has none.",
    (
        Operation(
            "get",
            "/api/clock",
            "tellTime",
            "Tell the time, as the model's tool does.",
            (Reply("It.", ClockReading),),
        ),
        Operation(
            "get",
            HERE + "/reminders",
            "listReminders",
            "List reminders, and what became of others within a day.",
            (Reply("Them.", SessionReminders),),
            (ID,),
        ),
        Operation(
            "post",
            HERE + "/reminders",
            "setReminder",
            "Set a reminder.",
            (Reply("It is set.", RemindersSet, status=201),),
            (ID,),
            ReminderBody,
            ("dueAt", "task"),
        ),
        Operation(
            "delete",
            HERE + "/reminders",
            "clearReminders",
            "Remove all reminders.",
            (Reply("How many.", RemindersCleared),),
            (ID,),
        ),
        Operation(
            "delete",
            HERE + "/reminders/{taskId}",
            "cancelReminder",
            "Remove one reminder.",
            (Reply("It is gone.", ReminderRemoved),),
            (ID, Parameter("taskId", NOT_EMPTY, "Which.", "path")),
            errors={404: "The session has no such reminder."},
        ),
    ),
)

DELIVERIES = Area(
    "deliveries",
    "What reaches a client that is not asking right now. A session that was never used has none.",
    (
        Operation(
            "get",
            HERE + "/events",
            "subscribe",
            "Hear what happens in a session, as it happens.",
            (
                Reply(
                    "Events, until one of both leaves.",
                    events=EventStream("What its data has depends on the event.", KINDS, EventView),
                ),
            ),
            (
                ID,
                Parameter("after", PLACE, "The id of the last event that was got."),
                Parameter("Last-Event-ID", PLACE, "The same; it counts.", "header"),
            ),
            errors={429: "The owner has too many subscriptions."},
        ),
        Operation(
            "get",
            HERE + "/inbox",
            "lookIntoInbox",
            "Show what waits for a session, or wait for it. Looking is not taking.",
            (Reply("What waits.", InboxPage), Reply("Nothing.", status=204)),
            (
                ID,
                Parameter(
                    "wait_ms",
                    Annotated[int, Meta(ge=0, le=LONGEST_WAIT_MS)],
                    "How long to wait; else 0.",
                ),
                Parameter("after", str, "The `cursor` of an earlier answer."),
            ),
            errors={429: "The owner has too many requests that wait."},
        ),
        Operation(
            "post",
            HERE + "/inbox/ack",
            "acknowledge",
            "Say what was got, so that no request of the session brings it as well.",
            (Reply("Those that were still waiting.", Acknowledged),),
            (ID,),
            Acknowledgement,
        ),
    ),
)
