"""Pictures with at most 256 colours: a page of the console then takes a third of the bytes."""

from __future__ import annotations

import base64
import struct
import zlib
from collections import Counter

from playwright.async_api import Page

MOST = 256
ALIKE = 0xFFF8FCF8
"""What is left of two colours that nobody tells apart."""
# A browser reads its own pictures; four bytes a pixel.
READ_PIXELS = """async (source) => {
  const image = new Image();
  image.src = source;
  await image.decode();
  const { width, height } = image;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(image, 0, 0);
  const bytes = context.getImageData(0, 0, width, height).data;
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768)
    text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  return [width, height, btoa(text)];
}"""


async def shrink_png(png: bytes, blank: Page) -> bytes:
    """Write a picture again with a palette, by the help of an empty page."""
    source = "data:image/png;base64," + base64.b64encode(png).decode()
    width, height, pixels = await blank.evaluate(READ_PIXELS, source)
    return write_png(width, height, base64.b64decode(pixels))


def write_png(width: int, height: int, pixels: bytes) -> bytes:
    """Write pixels, four bytes each, as a PNG with a palette; how transparent they are is left out."""
    colours = struct.unpack(f"<{width * height}I", pixels)
    places = place_colours(Counter(colours))
    palette = sorted(set(places.values()))
    index = {colour: palette.index(place) for colour, place in places.items()}
    indexes = bytes(map(index.__getitem__, colours))
    rows = (indexes[at : at + width] for at in range(0, len(indexes), width))
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            write_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            write_chunk(b"PLTE", b"".join(bytes(split_colour(one)) for one in palette)),
            write_chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows), 9)),
            write_chunk(b"IEND", b""),
        )
    )


def place_colours(counts: Counter[int]) -> dict[int, int]:
    """Say for each colour which one of a palette stands for it.

    A colour is taken into the palette if it is frequent or unlike all others: a red figure of a few
    pixels must stay red.
    """
    groups: dict[int, int] = {}
    for colour, _ in counts.most_common():
        groups.setdefault(colour & ALIKE, colour)
    weights = Counter[int]()
    for colour, count in counts.items():
        weights[groups[colour & ALIKE]] += count
    (first, _), *_ = weights.most_common(1)
    nearest = dict.fromkeys(weights, first)
    apart = {colour: measure_distance(colour, first) for colour in weights}
    for _ in range(min(MOST, len(weights)) - 1):
        taken = max(apart, key=lambda colour: apart[colour] * weights[colour] ** 0.5)
        for colour, before in apart.items():
            distance = measure_distance(colour, taken) if before else 0
            if distance < before:
                nearest[colour], apart[colour] = taken, distance
    return {colour: nearest[groups[colour & ALIKE]] for colour in counts}


def split_colour(colour: int) -> tuple[int, int, int]:
    """Return red, green and blue."""
    return colour & 255, colour >> 8 & 255, colour >> 16 & 255


def measure_distance(one: int, other: int) -> int:
    """Say how unlike two colours look."""
    red, green, blue = split_colour(one)
    r, g, b = split_colour(other)
    return int(2 * (r - red) ** 2 + 4 * (g - green) ** 2 + 3 * (b - blue) ** 2)


def write_chunk(kind: bytes, data: bytes) -> bytes:
    """Write one chunk of a PNG: its length, kind, data and checksum."""
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
