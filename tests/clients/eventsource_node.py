"""eventsource: the browsers' `EventSource` for Node, which can be made to send a POST."""

from __future__ import annotations

from .node import locked_version
from .node_chat import reading
from .reading import Client, Form

NAME = "eventsource"

CLIENT = Client(
    NAME,
    lambda: locked_version(NAME),
    (Form(NAME, "fetch", reading("eventsource_node.mjs", "fetch"), needs=("node",)),),
    is_sdk=False,
)
