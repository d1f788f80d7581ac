"""What messages are made of: reading their parts, pictures and documents."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping

import msgspec

from gateway.dialects.canonical import File, Image, Message, Part, Refusal, Result, Text
from gateway.dialects.translate.history import drop_empty
from gateway.dialects.translate.json_node import JsonNode, Losses, untranslatable

PartReaders = Mapping[str, Callable[[JsonNode, Losses], Part | None]]
UnknownPart = Callable[[JsonNode, Losses], tuple[Part, ...]]
Roles = Mapping[str, tuple[str, PartReaders, UnknownPart]]

ERROR_MARK = "[tool error] "
PDF = "application/pdf"
UNNAMED = "document"


def read_parts(
    node: JsonNode, name: str, table: PartReaders, otherwise: UnknownPart, losses: Losses
) -> tuple[Part, ...]:
    """Read content that is a text or a list of parts.

    `otherwise` judges parts that are not in the table, or of which a reader there makes nothing.
    """
    content = node.content(name)
    if isinstance(content, str):
        return (Text(content),)
    parts: list[Part] = []
    for item in content:
        read = table.get(item.text("type"))
        part = read(item, losses) if read is not None else None
        parts += otherwise(item, losses) if part is None else (part,)
    return tuple(parts)


def read_message(node: JsonNode, roles: Roles, expected: str, losses: Losses) -> Message:
    """Read a message by its role; texts that are empty mean something only of a user."""
    if (role := node.text("role")) not in roles:
        raise node.invalid_member("role", expected)
    speaker, table, otherwise = roles[role]
    parts = read_parts(node, "content", table, otherwise, losses)
    return Message(speaker, parts if speaker == "user" else drop_empty(parts))


def read_result(node: JsonNode, name: str, table: PartReaders, losses: Losses) -> tuple[Part, ...]:
    """Read what a tool returned; what is neither text nor parts is data, told as JSON."""
    content = node.members.get(name)
    if content is None or isinstance(content, str) or _are_parts(content):
        return read_parts(node, name, table, note, losses)
    return (Text(msgspec.json.encode(content).decode()),)


def _are_parts(content: object) -> bool:
    return isinstance(content, list) and all(
        isinstance(item, dict) and isinstance(item.get("type"), str) for item in content
    )


def refuse(part: JsonNode, losses: Losses) -> tuple[Part, ...]:
    """Refuse what a user gave: an answer that does not know of it would be wrong."""
    raise untranslatable(f"A part of type `{part.text('type')}`", part.path)


def leave_out(part: JsonNode, losses: Losses) -> tuple[Part, ...]:
    """Leave out what a model made: another one has no use for it."""
    losses.add(part.text("type"))
    return ()


def read_text(part: JsonNode, losses: Losses) -> Text:
    """Read a part that is a text: it is the same in all dialects."""
    losses.note_unknown(part, frozenset({"type", "text"}), part.text("type"))
    return Text(part.text("text"))


def read_refusal(part: JsonNode, losses: Losses) -> Refusal:
    """Read a part in which the model refuses to answer."""
    return Refusal(part.text("refusal"))


def note(part: JsonNode, losses: Losses) -> tuple[Part, ...]:
    """Say where it stood that something a tool returned is missing."""
    return (note_left_out(part.text("type"), losses),)


def note_left_out(kind: str, losses: Losses) -> Text:
    """Return the words that stand for something a tool returned."""
    losses.add(f"tool result {kind}")
    return Text(f"[{kind}: left out]")


def image_at(url: str, detail: str = "") -> Image:
    """Return the picture at an address, which may be the picture itself."""
    media_type, data = _split_data_url(url)
    # Where nothing else is said the detail is left to the model.
    detail = "" if detail == "auto" else detail
    return Image("" if data else url, media_type, data, detail)


def image_url(image: Image) -> str:
    """Return the address of a picture, which may be the picture itself."""
    return _data_url(image.media_type, image.data) if image.data else image.url


def file_of(name: str, data: str) -> File:
    """Return the document that a data URL, or bare base64, is."""
    media_type, inside = _split_data_url(data)
    return File(name=name, media_type=media_type, data=inside or data)


def file_url(file: File) -> str:
    """Return a document's bytes as a data URL."""
    return _data_url(file.media_type or PDF, file.data)


def file_text(file: File) -> str:
    """Return what a document of plain text says, headed by its name; empty if it is none."""
    text = file.text or _decode_text(file)
    return f"{file.name}\n\n{text}" if file.name and text else text


def readable_file(file: File) -> File:
    """Return a document of plain text as text, any other as it is."""
    text = _decode_text(file)
    return File(name=file.name, text=text) if text else file


def keep_result_parts(parts: tuple[Part, ...]) -> tuple[Text | Image | File, ...]:
    """Return the parts that a tool can return."""
    return tuple(part for part in parts if isinstance(part, Text | Image | File))


def result_of(call_id: str, parts: tuple[Part, ...]) -> Result:
    """Return what a tool returned; an error is known by its mark."""
    found = keep_result_parts(parts)
    match found:
        case (Text(text), *rest) if text.startswith(ERROR_MARK):
            return Result(call_id, (Text(text.removeprefix(ERROR_MARK)), *rest), is_error=True)
    return Result(call_id, found)


def _split_data_url(url: str) -> tuple[str, str]:
    """Return the type and the base64 of a data URL; nothing of any other address."""
    head, mark, data = url.partition(";base64,")
    if not mark or not head.startswith("data:"):
        return "", ""
    return head.removeprefix("data:").partition(";")[0], data


def _data_url(media_type: str, data: str) -> str:
    return f"data:{media_type};base64,{data}"


def _decode_text(file: File) -> str:
    if not file.media_type.startswith("text/"):
        return ""
    try:
        return b64decode(file.data).decode()
    except (NotBase64, UnicodeDecodeError):
        return ""
