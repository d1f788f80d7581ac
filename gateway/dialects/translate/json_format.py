"""Answers in JSON: where an upstream cannot be made to, the model is asked to in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.dialects.translate.json_node import JsonNode, untranslatable

Format = Mapping[str, Any]

MEMBERS = ("name", "description", "schema", "strict")


def read_format(node: JsonNode) -> Format:
    """Read a JSON schema and what is said about it."""
    found = {name: node.members[name] for name in MEMBERS if node.members.get(name) is not None}
    if not isinstance(found.get("schema"), dict):
        raise node.invalid_member("schema", "an object")
    return found


def read_answer_format(asked: JsonNode, inner: str = "") -> Format | None:
    """Read which format is asked for; Chat Completions put the schema one level deeper."""
    kind = asked.text("type")
    if kind == "json_schema":
        return read_format(asked.inner(inner) if inner else asked)
    if kind not in ("", "text", "json_object"):
        raise untranslatable(f"A format `{kind}`", asked.path)
    # Nothing is said about it: any JSON object will do.
    return {} if kind == "json_object" else None


def describe_format(asked: Format) -> str:
    """Ask for a format."""
    if not asked:
        return "Answer with one JSON object and nothing else."
    schema = msgspec.json.encode(asked["schema"]).decode()
    return f"Answer with JSON that follows this JSON schema, and nothing else:\n{schema}"
