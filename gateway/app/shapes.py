"""The kinds of documents that the gateway keeps."""

from __future__ import annotations

from typing import Any

from gateway.exchange.answer_ids import SHAPE as ANSWERS
from gateway.reminders.reminder_documents import SHAPE as REMINDERS
from gateway.sessions.call_signatures import SHAPE as SIGNATURES
from gateway.sessions.session_request import SHAPE as SESSIONS
from gateway.stores.documents import Shape

SHAPES: tuple[Shape[Any], ...] = (SESSIONS, SIGNATURES, REMINDERS, ANSWERS)
