"""What upstreams of a dialect do differently, as data.

A profile is chosen by name in the configuration. It is used when a request is translated, and on
what the gateway itself writes in the same dialect: an agent's history, follow-ups, its own tools.
What a client wrote in the same dialect passes as it is. What a profile leaves out is named like any
other loss.
"""

from __future__ import annotations

import msgspec

from gateway.dialects.translate.effort import EFFORTS

Forms = tuple[tuple[str, str], ...]

# Who knows `max_completion_tokens`, and refuses `max_tokens` for its newer models.
OPENAI_HOSTS = ("api.openai.com",)
OPENAI_DOMAINS = (
    ".api.openai.com",
    ".openai.azure.com",
    ".cognitiveservices.azure.com",
    ".services.ai.azure.com",
)

# The first fragment that is part of the model's name decides. New models are not listed: they are
# taken to be like the newest, which think, and take no word on sampling.
THOUGHTLESS = (
    "claude-2",
    "claude-instant",
    "claude-3-5",
    "claude-3-haiku",
    "claude-3-opus",
    "claude-3-sonnet",
)
BUDGETED = (
    "claude-3-7",
    "claude-opus-4-0",
    "claude-opus-4-1",
    "claude-opus-4-2",
    "claude-opus-4-5",
    "claude-sonnet-4-0",
    "claude-sonnet-4-2",
    "claude-sonnet-4-5",
    "claude-haiku-4-5",
)
SAMPLED = (*THOUGHTLESS, *BUDGETED, "claude-opus-4-6", "claude-sonnet-4-6")
THINKING_FORMS: Forms = (
    *((name, "") for name in THOUGHTLESS),
    *((name, "budget") for name in BUDGETED),
    ("claude-", "adaptive"),
    ("", "budget"),
)
SAMPLING_FORMS: Forms = (
    *((name, "sampling") for name in SAMPLED),
    ("claude-", ""),
    ("", "sampling"),
)
EFFORT_FORMS: Forms = (
    ("gpt-3", ""),
    ("gpt-4", ""),
    ("chatgpt-", ""),
    ("", "reasoning_effort"),
)


class Profile(msgspec.Struct, frozen=True, gc=False):
    """The quirks of an upstream; without any, it speaks the dialect as most servers do."""

    name: str = ""
    text_only: bool = False
    """Chat: content is a string, never a list of parts."""
    empty: str | None = None
    """Chat: the content of a turn that only calls tools."""
    max_tokens: str = "max_tokens"
    """Chat: the member that limits the answer; only OpenAI has another name for it."""
    reasoning: str = ""
    """Chat: the member of an assistant's message that takes its reasoning back, if any does."""
    reasoning_filler: str = ""
    """Chat: what stands there in a turn that calls tools and whose reasoning is not known."""
    call_signature: str = ""
    """Chat: what signs a turn's calls where their signatures are wanted back and not known."""
    effort: Forms = EFFORT_FORMS
    """Chat, responses: how the effort is told, by model: a member's name, or nothing."""
    efforts: tuple[str, ...] = EFFORTS
    """Chat, responses: the words for it that are understood."""
    thinking: Forms = THINKING_FORMS
    """Messages: how the effort is told, by model: `budget`, `adaptive`, or nothing."""
    sampling: Forms = SAMPLING_FORMS
    """Messages: whether a temperature is taken, by model: `sampling`, or nothing."""
    schemas: bool = True
    """Whether an answer can be made to follow a JSON schema."""
    choices: frozenset[str] = frozenset({"auto", "none", "required", "tool"})
    """Chat: which kinds of tool choice are obeyed."""
    leaves_out: frozenset[str] = frozenset({"metadata"})
    """Chat: members that are refused; OpenAI refuses metadata of what it does not store."""
    always_reports: bool = False
    """Chat: usage comes at the end of every stream, and cannot be asked for."""

    @property
    def is_particular(self) -> bool:
        """Whether what the gateway writes in a dialect has to be written otherwise for it."""
        return self.changes_turns or "strict" in self.leaves_out

    @property
    def changes_turns(self) -> bool:
        """Whether that is so for turns that call tools."""
        return self.empty is not None or bool(self.reasoning_filler or self.call_signature)


NONE = Profile()

PROFILES = {
    profile.name: profile
    for profile in (
        NONE,
        Profile(name="openai", max_tokens="max_completion_tokens"),
        Profile(name="anthropic"),
        Profile(
            name="glm",
            text_only=True,
            empty="",
            reasoning="reasoning_content",
            effort=(("", "thinking"),),
            thinking=(("", "budget"),),
            schemas=False,
            choices=frozenset({"auto"}),
            leaves_out=frozenset({"metadata", "parallel_tool_calls", "strict", "user"}),
            always_reports=True,
        ),
        Profile(
            name="deepseek",
            text_only=True,
            reasoning="reasoning_content",
            # While it thinks, it refuses a history in which a turn with calls lacks reasoning.
            reasoning_filler=" ",
            effort=(("", "thinking"),),
            thinking=(("", "budget"),),
            schemas=False,
            leaves_out=frozenset({"metadata", "parallel_tool_calls", "strict", "user"}),
        ),
        # The value that Google documents for calls whose signature is not known.
        Profile(name="gemini", call_signature="skip_thought_signature_validator"),
        Profile(
            name="mistral",
            # It refuses members it does not know, among them those that ask for usage.
            effort=(("", ""),),
            leaves_out=frozenset({"metadata", "user"}),
            always_reports=True,
        ),
        Profile(
            name="openrouter",
            reasoning="reasoning",
            effort=(("", "reasoning"),),
            leaves_out=frozenset(),
        ),
        Profile(
            name="vllm",
            reasoning="reasoning",
            effort=(("", "reasoning_effort"),),
            efforts=("low", "medium", "high"),
            leaves_out=frozenset({"metadata", "strict"}),
        ),
        Profile(
            name="plain",
            text_only=True,
            empty="",
            effort=(("", ""),),
            thinking=(("", ""),),
            schemas=False,
            leaves_out=frozenset({"metadata", "parallel_tool_calls", "strict", "user"}),
        ),
    )
}


def profile_for(name: str, host: str) -> Profile:
    """Return the profile that is named; where none is, OpenAI's own hosts are known."""
    host = host.lower()
    if not name and (host in OPENAI_HOSTS or host.endswith(OPENAI_DOMAINS)):
        return PROFILES["openai"]
    return PROFILES[name]


def form_for(forms: Forms, model: str) -> str:
    """Return how a model is told something; empty if it cannot be."""
    name = model.lower()
    return next((form for fragment, form in forms if fragment in name), "")
