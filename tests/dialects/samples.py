"""One request of each dialect in which nearly all that it can say is said."""

from typing import Any

from tests.dialects.translation import CHAT, MESSAGES, PICTURE, PICTURE_URL, RESPONSES

Json = dict[str, Any]

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
GRAMMAR = {"syntax": "lark", "definition": "start: /.+/"}
UNKNOWN = {"x_unknown": {"z": 1, "a": [1.5, None, "ż"]}}
PDF = "data:application/pdf;base64,JVBERi0="

CHAT_SAMPLE: Json = {
    "x_first": True,
    "model": "m",
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": [{"type": "text", "text": "Be wise."}]},
        {
            "role": "user",
            "name": "Ann",
            "content": [
                {"type": "text", "text": "<**clock:clear**> Look:"},
                {"type": "image_url", "image_url": {"url": PICTURE_URL, "detail": "low"}},
                {"type": "image_url", "image_url": "https://x.test/a.png"},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "custom", "custom": {"name": "c", "input": "*"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}]},
        {"role": "tool", "tool_call_id": "a", "content": "[tool error] one"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "So."}, {"type": "refusal", "refusal": "No."}],
            "refusal": None,
            "function_call": {"name": "g", "arguments": "{broken"},
        },
        {"role": "function", "name": "g", "content": "three"},
        {"role": "system", "content": "Hurry."},
        {"role": "user", "content": "Well?"},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
        },
        {
            "type": "custom",
            "custom": {"name": "c", "format": {"type": "grammar", "grammar": GRAMMAR}},
        },
    ],
    "functions": [{"name": "g", "parameters": SCHEMA}],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "auto",
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    },
    "function_call": {"name": "g"},
    "parallel_tool_calls": False,
    "n": 1,
    "modalities": ["text"],
    "max_completion_tokens": 2000,
    "temperature": 0.5,
    "top_p": 1,
    "stop": ["END"],
    "stream": True,
    "stream_options": {"include_usage": True},
    "reasoning_effort": "high",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
    },
    "user": "u",
    "metadata": {"session_id": "s"},
    **UNKNOWN,
}

RESPONSES_SAMPLE: Json = {
    "x_first": True,
    "model": "m",
    "instructions": "Be kind.",
    "input": [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be wise."}]},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "<**clock:clear**> Look:"},
                {"type": "input_image", "image_url": PICTURE_URL, "detail": "low"},
                {"type": "input_file", "file_data": PDF, "filename": "a.pdf"},
                {"type": "input_file", "file_id": "file-1"},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "content": None,
            "encrypted_content": "holdgate:signature:abc",
        },
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "So.", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{broken"},
        {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "*"},
        {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "s", "output": "a.py"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "two"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [{"type": "input_text", "text": "one"}],
        },
        {"type": "web_search_call", "id": "ws_1"},
        {"role": "system", "content": "Hurry."},
        {"role": "user", "content": "Well?"},
    ],
    "tools": [
        {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "c", "format": {"type": "grammar", **GRAMMAR}},
        {"type": "web_search"},
        {"type": "namespace", "name": "n", "tools": []},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
    },
    "parallel_tool_calls": True,
    "max_output_tokens": 2000,
    "temperature": 0.5,
    "top_p": 1,
    "stream": True,
    "store": False,
    "background": False,
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "text": {
        "format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True},
        "verbosity": "low",
    },
    "user": "u",
    "metadata": {"k": "v"},
    "client_metadata": {"session_id": "s"},
    **UNKNOWN,
}

MESSAGES_SAMPLE: Json = {
    "x_first": True,
    "model": "m",
    "max_tokens": 2000,
    "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<**clock:clear**> Look:"},
                PICTURE,
                {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}},
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {
                        "type": "base64",
                        "media_type": "application/pdf",
                        "data": "JVBERi0=",
                    },
                },
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "text", "text": "w"}]},
                },
                {
                    "type": "search_result",
                    "title": "T",
                    "source": "S",
                    "content": [{"type": "text", "text": "C"}],
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "So."},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"a": "b"}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "b",
                    "content": [{"type": "text", "text": "two"}, PICTURE],
                    "is_error": True,
                },
                {"type": "text", "text": "Well?"},
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
            ],
        },
        {"role": "system", "content": "Hurry."},
        {"role": "assistant", "content": "So: "},
    ],
    "tools": [
        {"name": "f", "description": "d", "input_schema": SCHEMA, "strict": True},
        {"type": "custom", "name": "g", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "temperature": 0.5,
    "top_p": 1,
    "top_k": 5,
    "stop_sequences": ["END"],
    "stream": True,
    "thinking": {"type": "enabled", "budget_tokens": 1500},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": '{"session_id":"s"}'},
    "context_management": {"edits": []},
    **UNKNOWN,
}

SAMPLES = {CHAT: CHAT_SAMPLE, RESPONSES: RESPONSES_SAMPLE, MESSAGES: MESSAGES_SAMPLE}
