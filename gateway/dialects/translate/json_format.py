"""Answers in JSON: where an upstream cannot be made to, the model is asked to in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.dialects.translate.json_node import JsonNode

Format = Mapping[str, Any]

NAME = "answer"
ANY_OBJECT: Format = {}
MEMBERS = ("name", "description", "schema", "strict")


def read_format(node: JsonNode) -> Format:
    """Read a JSON schema and what is said about it."""
    found = {name: node.members[name] for name in MEMBERS if node.members.get(name) is not None}
    if not isinstance(found.get("schema"), dict):
        raise node.invalid_member("schema", "an object")
    return found


def name_format(asked: Format) -> Format:
    """Return a format with the name that two of the dialects ask for."""
    return {"name": NAME, **asked}


def describe_format(asked: Format) -> str:
    """Ask for a format."""
    if not asked:
        return "Answer with one JSON object and nothing else."
    schema = msgspec.json.encode(asked["schema"]).decode()
    return f"Answer with JSON that follows this JSON schema, and nothing else:\n{schema}"
