"""Models over HTTP: the public names, and how requests to models are described."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request as WebRequest
from starlette.routing import BaseRoute

from gateway.api.admission import VERSION, Keys, incoming_of
from gateway.api.relay import Relay
from gateway.api.requests import find_owner
from gateway.api.route import ApiRoute, Errors, EventStream, Parameter, Reply, bind_all
from gateway.errors import NotFound
from gateway.routing import Models, PublicModel
from gateway.timestamps import iso_second

NO_MODEL = "No model has this name; GET /v1/models lists the names."
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


class OpenAiModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, in OpenAI's shape."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class OpenAiModelList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models, in OpenAI's shape."""

    object: Literal["list"]
    data: list[OpenAiModel]


class AnthropicModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model, in Anthropic's shape."""

    type: Literal["model"]
    id: str
    display_name: str
    created_at: str


class AnthropicModelList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The models, in Anthropic's shape."""

    data: list[AnthropicModel]
    has_more: Literal[False]
    first_id: str | None
    last_id: str | None


@dataclass(frozen=True, slots=True)
class ModelsArea:
    """The routes that show the public models."""

    models: Models
    keys: Keys
    started_at: float

    def routes(self) -> list[BaseRoute]:
        """Return the routes of this area."""
        return bind_all(ROUTES, self)

    async def list_models(self, request: WebRequest) -> OpenAiModelList | AnthropicModelList:
        """List the public names."""
        listed = self.models.of(find_owner(self.keys, request)).listed
        if not _is_anthropic(request):
            return OpenAiModelList("list", [self._as_openai(one) for one in listed])
        found = [self._as_anthropic(one) for one in listed]
        first, last = (found[0].id, found[-1].id) if found else (None, None)
        return AnthropicModelList(found, False, first, last)

    async def show_model(self, request: WebRequest) -> OpenAiModel | AnthropicModel:
        """Show one public name."""
        owner, name = find_owner(self.keys, request), request.path_params["id"]
        if not name:
            raise NotFound("The model's name is missing; write GET /v1/models/{id}.")
        model = self.models.of(owner).find(name)
        return self._as_anthropic(model) if _is_anthropic(request) else self._as_openai(model)

    def _as_anthropic(self, model: PublicModel) -> AnthropicModel:
        created = f"{iso_second(int(self.started_at))}Z"
        return AnthropicModel("model", model.name, model.name, created)

    def _as_openai(self, model: PublicModel) -> OpenAiModel:
        return OpenAiModel(model.name, "model", int(self.started_at), model.routes[0].upstream)


def _is_anthropic(request: WebRequest) -> bool:
    """Whether the client speaks Messages: the SDKs say their version on every request."""
    return VERSION in incoming_of(request.scope).headers


ID = Parameter("id", ModelName, "The model's name.", "path")
SHAPE = Parameter("anthropic-version", str, "If sent, the answer has Anthropic's shape.", "header")
SESSION = Parameter(
    "x-session-id",
    Annotated[str, Meta(max_length=256)],
    "The session it belongs to; there are other ways to name it.",
    "header",
)
UPSTREAM_ERRORS: Errors = {
    404: NO_MODEL,
    429: "A limit is reached, most often the upstream's.",
    502: "The upstream cannot be reached, or its answer broke off.",
    504: "The upstream was silent for too long.",
}
ANSWER = Reply(
    "The model's answer: one object, or a stream of events if `stream` is true.",
    dict[str, Any],
    EventStream("Frames of the dialect; an error ends it early."),
)


def _describe_relay(
    path: str, name: str, dialect: str, body: type[ModelBody], error: str = "Error"
) -> ApiRoute:
    return ApiRoute(
        "post",
        path,
        name,
        Relay.__call__,
        (SESSION,),
        body,
        errors=UPSTREAM_ERRORS,
        error=error,
        replies=(ANSWER,),
        summary=f"Ask a model, as {dialect}.",
    )


RELAYS = (
    _describe_relay(
        "/v1/chat/completions", "chatCompletions", "OpenAI Chat Completions", ChatCompletionsBody
    ),
    _describe_relay("/v1/responses", "responses", "OpenAI Responses", ResponsesBody),
    _describe_relay(
        "/v1/messages", "messages", "Anthropic Messages", MessagesBody, "MessagesError"
    ),
)
ROUTES = (
    ApiRoute("get", "/v1/models", "listModels", ModelsArea.list_models, (SHAPE,)),
    ApiRoute(
        "get",
        "/v1/models/{id:anything}",
        "showModel",
        ModelsArea.show_model,
        (ID, SHAPE),
        errors={404: NO_MODEL},
    ),
)
