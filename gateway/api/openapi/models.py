"""The model endpoints, described."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from gateway.api.openapi.operation import Area, Errors, EventStream, Operation, Parameter, Reply
from gateway.api.operations import AnthropicModel, AnthropicModelList, OpenAiModel, OpenAiModelList

ModelName = Annotated[
    str,
    Meta(
        min_length=1,
        description="A public name, see GET /v1/models; may be left out where there is only one.",
    ),
]
Objects = list[dict[str, Any]]


class ModelBody(msgspec.Struct):
    """A request of a dialect; what is not named here is passed on as it is."""

    model: ModelName | UnsetType | None = UNSET
    stream: bool | UnsetType = UNSET


class ChatCompletionsBody(ModelBody):
    """A request to a model, as OpenAI Chat Completions; other members are passed on."""

    messages: Objects | UnsetType = UNSET


class ResponsesBody(ModelBody):
    """A request to a model, as OpenAI Responses; other members are passed on."""

    input: str | list[Any] | UnsetType = UNSET


class TokenCountBody(ModelBody):
    """A request to a model, as Anthropic Messages; other members are passed on."""

    messages: Objects | UnsetType = UNSET


class MessagesBody(TokenCountBody):
    """A request to a model, as Anthropic Messages; other members are passed on."""

    max_tokens: int | UnsetType = UNSET


class TokenCount(msgspec.Struct):
    """How many tokens a request has, counted or estimated."""

    input_tokens: int


UPSTREAM: Errors = {
    404: "No model is called so.",
    429: "A limit, most often the upstream's.",
    502: "The upstream cannot be reached, or its answer broke off.",
    504: "The upstream was silent for too long.",
}
SESSION = Parameter(
    "x-session-id",
    Annotated[str, Meta(max_length=256)],
    "Which session it belongs to; there are other ways to say so.",
    "header",
)
ANTHROPIC = Parameter(
    "anthropic-version", str, "If it is sent, models are shown in Anthropic's shape.", "header"
)
ANSWER = Reply(
    "The model's answer: one object, or a stream of events if `stream` is true.",
    dict[str, Any],
    EventStream("Frames of the dialect; an error ends it early."),
)

AREA = Area(
    "models",
    "Models, in the dialects of OpenAI and Anthropic. Members that are not described here are "
    "those of the dialect, and are passed on.",
    (
        Operation(
            "post",
            "/v1/chat/completions",
            "chatCompletions",
            "Ask a model, as OpenAI Chat Completions.",
            (ANSWER,),
            (SESSION,),
            ChatCompletionsBody,
            errors=UPSTREAM,
        ),
        Operation(
            "post",
            "/v1/responses",
            "responses",
            "Ask a model, as OpenAI Responses.",
            (ANSWER,),
            (SESSION,),
            ResponsesBody,
            errors=UPSTREAM,
        ),
        Operation(
            "post",
            "/v1/messages",
            "messages",
            "Ask a model, as Anthropic Messages.",
            (ANSWER,),
            (SESSION,),
            MessagesBody,
            errors=UPSTREAM,
            error="MessagesError",
        ),
        Operation(
            "post",
            "/v1/messages/count_tokens",
            "countTokens",
            "Count the tokens of a Messages request, or estimate them.",
            (Reply("The number.", TokenCount),),
            body=TokenCountBody,
            errors=UPSTREAM,
            error="MessagesError",
        ),
        Operation(
            "get",
            "/v1/models",
            "listModels",
            "List the names that can be asked for.",
            (Reply("The models.", (OpenAiModelList, AnthropicModelList)),),
            (ANTHROPIC,),
        ),
        Operation(
            "get",
            "/v1/models/{id}",
            "showModel",
            "Show one of them.",
            (Reply("It.", (OpenAiModel, AnthropicModel)),),
            (Parameter("id", ModelName, "Its name.", "path"), ANTHROPIC),
            errors={404: "No model is called so."},
        ),
    ),
)
