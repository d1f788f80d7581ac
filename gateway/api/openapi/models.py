"""The model endpoints, described."""

from __future__ import annotations

from gateway.api.openapi.text import (
    Answer,
    Area,
    Errors,
    Json,
    Operation,
    Parameter,
    in_events,
    in_json,
    items,
    number,
    text,
    thing,
    truth,
)

MODEL = {
    **text("A public name, see GET /v1/models; may be left out where there is only one."),
    "type": ["string", "null"],
    "minLength": 1,
}
UPSTREAM: Errors = {
    404: "No model is called so.",
    429: "A limit, most often the upstream's.",
    502: "The upstream cannot be reached, or its answer broke off.",
    504: "The upstream was silent for too long.",
}
SESSION = Parameter(
    "x-session-id",
    text(maxLength=256),
    "Which session it belongs to; there are other ways to say so.",
    "header",
)
OPENAI_MODEL: Json = thing(
    {"id": text(), "object": {"const": "model"}, "created": number(), "owned_by": text()}
)
ANTHROPIC_MODEL: Json = thing(
    {"type": {"const": "model"}, "id": text(), "display_name": text(), "created_at": text()}
)
ANTHROPIC = Parameter(
    "anthropic-version", text(), "If it is sent, models are shown in Anthropic's shape.", "header"
)
MODELS: Json = {
    "anyOf": [
        thing({"object": {"const": "list"}, "data": items(OPENAI_MODEL)}),
        thing(
            {
                "data": items(ANTHROPIC_MODEL),
                "has_more": {"const": False},
                "first_id": text(),
                "last_id": text(),
            },
            optional=("first_id", "last_id"),
        ),
    ]
}


def _request(**members: Json) -> Json:
    """Describe a request of a dialect; what is not named here is passed on as it is."""
    return {
        "type": "object",
        "properties": {"model": MODEL, "stream": truth(), **members},
    }


def _dialect(path: str, name: str, summary: str, body: Json, error: str = "Error") -> Operation:
    answer = Answer(
        "The model's answer: one object, or a stream of events if `stream` is true.",
        {
            **in_json({"type": "object"}),
            **in_events("Frames of the dialect; an error ends it early."),
        },
    )
    return Operation(
        method="post",
        path=path,
        name=name,
        summary=summary,
        parameters=(SESSION,),
        body=body,
        answers=(answer,),
        errors=UPSTREAM,
        error=error,
    )


AREA = Area(
    "models",
    "Models, in the dialects of OpenAI and Anthropic. Members that are not described here are "
    "those of the dialect, and are passed on.",
    (
        _dialect(
            "/v1/chat/completions",
            "chatCompletions",
            "Ask a model, as OpenAI Chat Completions.",
            _request(messages=items({"type": "object"})),
        ),
        _dialect(
            "/v1/responses",
            "responses",
            "Ask a model, as OpenAI Responses.",
            _request(input={"type": ["string", "array"]}),
        ),
        _dialect(
            "/v1/messages",
            "messages",
            "Ask a model, as Anthropic Messages.",
            _request(messages=items({"type": "object"}), max_tokens=number()),
            "MessagesError",
        ),
        Operation(
            method="post",
            path="/v1/messages/count_tokens",
            name="countTokens",
            summary="Count the tokens of a Messages request, or estimate them.",
            body=_request(messages=items({"type": "object"})),
            answers=(
                Answer(
                    "The number.",
                    in_json(
                        {
                            "type": "object",
                            "properties": {"input_tokens": number()},
                            "required": ["input_tokens"],
                        }
                    ),
                ),
            ),
            errors=UPSTREAM,
            error="MessagesError",
        ),
        Operation(
            method="get",
            path="/v1/models",
            name="listModels",
            summary="List the names that can be asked for.",
            parameters=(ANTHROPIC,),
            answers=(Answer("The models.", in_json(MODELS)),),
        ),
        Operation(
            method="get",
            path="/v1/models/{id}",
            name="showModel",
            summary="Show one of them.",
            parameters=(Parameter("id", MODEL, "Its name.", "path"), ANTHROPIC),
            answers=(Answer("It.", in_json({"anyOf": [OPENAI_MODEL, ANTHROPIC_MODEL]})),),
            errors={404: "No model is called so."},
        ),
    ),
)
