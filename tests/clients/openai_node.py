"""openai-node: `create` and the `stream()` helper."""

from __future__ import annotations

from .node import locked_version
from .node_chat import reading
from .reading import Client, Form

NAME = "openai-node"
SCRIPT = "openai_node.mjs"

CLIENT = Client(
    NAME,
    lambda: locked_version("openai"),
    (
        Form(NAME, "create()", reading(SCRIPT, "create"), needs=("node",), reads_whole=True),
        Form(NAME, "stream()", reading(SCRIPT, "stream"), needs=("node",)),
    ),
)
