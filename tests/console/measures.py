"""What is measured of a page in a browser: sizes, what is cut off, what overlaps, what moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page

MEASURE = """
({ least, field }) => {
  const layer = document.querySelector("dialog[open]") ?? document.querySelector("[popover]:popover-open") ?? document.body;
  const isSeen = (node) => {
    const box = node.getBoundingClientRect();
    return node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && box.width > 1 && box.height > 1
      && !node.closest(".visually-hidden, .skip, .w-head") && !node.closest("noscript");
  };
  const name = (node) => {
    const text = (node.getAttribute("aria-label") ?? node.textContent).trim().replace(/\\s+/g, " ").slice(0, 40);
    return `${node.tagName.toLowerCase()}.${node.getAttribute("class") ?? ""} "${text}"`;
  };
  const texts = [];
  const walker = document.createTreeWalker(layer, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || node.closest("title, option, select, textarea, datalist") || !isSeen(node)) continue;
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    texts.push({ node, text: walker.currentNode.data.trim(), boxes: [...range.getClientRects()] });
  }
  // What is left of its box can not be scrolled to.
  const isLost = ({ node, boxes }) => {
    for (let above = node; above; above = above.parentElement) {
      if (above.scrollLeft > 0) return false;
      const left = getComputedStyle(above).overflowX === "visible" ? -Infinity : above.getBoundingClientRect().left;
      if (boxes.some((box) => box.left < left - 1)) return true;
    }
    return boxes.some((box) => box.left < -1);
  };
  const lost = texts.filter((one) => !one.node.closest("svg") && isLost(one)).map(({ node }) => name(node));
  const squeezed = [...layer.querySelectorAll("*")]
    .filter((node) => !node.closest("svg, .visually-hidden, .skip, .w-head, select") && node.checkVisibility() && node.getBoundingClientRect().width < 2)
    .filter((node) => [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim()))
    .map(name);
  // Names in lists may be: all of them is a press away.
  const shortened = texts.map(({ node }) => node.closest("dd, button, h1, h2, h3, p, label, figcaption *"))
    .filter((node) => node && !node.closest(".w-row, .run, select") && getComputedStyle(node).textOverflow === "ellipsis" && node.scrollWidth > node.clientWidth + 1)
    .map(name);
  const sizeOf = (node) => parseFloat(getComputedStyle(node).fontSize) * (node.getScreenCTM?.()?.a ?? 1);
  const small = texts.filter(({ node }) => sizeOf(node) < 10.99).map(({ node }) => `${name(node)} ${sizeOf(node).toFixed(1)} px`);
  const boxOf = (node) => (node.matches("[type=checkbox], [type=radio]") && node.closest("label") ? node.closest("label") : node).getBoundingClientRect();
  // A link within a sentence, a cell or a row is as high as its line; of a row, all of it can be pressed.
  const isInline = (node) => node.matches("a") && getComputedStyle(node).display === "inline" && node.closest("p, dd, td, th, .w-row, .crumb, .items, .try-status");
  const targets = [...layer.querySelectorAll("button, a[href], input, select, textarea, summary, [role=button], [role=row][tabindex]")]
    .filter((node) => isSeen(node) && !isInline(node))
    .map((node) => [node, boxOf(node)])
    .filter(([, box]) => box.width < least - 0.5 || box.height < least - 0.5)
    .map(([node, box]) => `${name(node)} ${box.width.toFixed(0)}x${box.height.toFixed(0)}`);
  const fields = [...layer.querySelectorAll("input:not([type=checkbox], [type=radio], [type=range]), select, textarea")]
    .filter((node) => isSeen(node) && parseFloat(getComputedStyle(node).fontSize) < field)
    .map((node) => `${name(node)} ${getComputedStyle(node).fontSize}`);
  const clips = (node) => ["hidden", "clip"].includes(getComputedStyle(node).overflowY);
  const cut = texts.filter(({ node, boxes }) => {
    for (let above = node; above && above !== document.body; above = above.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(above).overflowY)) return false;
      if (!clips(above)) continue;
      const box = above.getBoundingClientRect();
      if (boxes.some((one) => one.height > 2 && one.top < box.bottom - 2 && one.bottom > box.top + 2 && (one.bottom > box.bottom + 4 || one.top < box.top - 4))) return true;
    }
    return false;
  }).map(({ node }) => name(node));
  const layerOf = (node) => { for (let above = node; above; above = above.parentElement) if (["fixed", "sticky"].includes(getComputedStyle(above).position)) return above; return null; };
  const shown = texts.map((one) => ({ ...one, layer: layerOf(one.node), boxes: one.boxes.filter((box) => box.width > 1) }));
  const clipped = (node, box) => {
    let { left, right, top, bottom } = box;
    for (let above = node; above && above !== document.body; above = above.parentElement) {
      if (getComputedStyle(above).overflowX === "visible") continue;
      const edge = above.getBoundingClientRect();
      left = Math.max(left, edge.left); right = Math.min(right, edge.right); top = Math.max(top, edge.top); bottom = Math.min(bottom, edge.bottom);
    }
    return { left, right, top, bottom };
  };
  for (const one of shown) one.boxes = one.boxes.map((box) => clipped(one.node, box)).filter((box) => box.right - box.left > 2 && box.bottom - box.top > 2);
  const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 5;
  const overlap = [];
  shown.forEach((a, i) => shown.slice(i + 1).forEach((b) => {
    if (a.layer !== b.layer || (a.node instanceof SVGElement && b.node instanceof SVGElement)) return;
    if (a.boxes.some((one) => b.boxes.some((other) => meets(one, other)))) overlap.push(`${name(a.node)} / ${name(b.node)}`);
  }));
  const root = document.documentElement;
  const edge = layer === document.body ? root : layer;
  const wide = [root, ...(edge === root ? [] : [edge])].filter((node) => node.scrollWidth > node.clientWidth).map((node) => `${node.tagName} ${node.scrollWidth} > ${node.clientWidth}`);
  if (wide.length) {
    const far = [...layer.querySelectorAll("*")].filter((node) => isSeen(node) && node.getBoundingClientRect().right > edge.getBoundingClientRect().right + 1);
    wide.push(...far.slice(0, 4).map(name));
  }
  const isSpoken = (node) => {
    for (let above = node; above; above = above.parentElement) {
      if (above.getAttribute("aria-live") === "off") return false;
      if (above.matches("[aria-live], [role=status], [role=alert], [role=log]")) return true;
    }
    return false;
  };
  const counts = "[role=timer], [data-until], [data-due], [data-since], [data-age], [data-wait]";
  const silent = [...document.querySelectorAll(counts)].filter((node) => isSpoken(node) || (node.matches("[role=timer]") && node.getAttribute("aria-live") !== "off")).map(name);
  return { small, targets, fields, cut, overlap, wide, silent, lost, squeezed, shortened };
}
"""
# What tells how things are, on each page; each of them must be there.
FIGURES = {
    "live": (
        ".population .figure",
        ".notes li",
        ".chips b",
        ".live-list .w-row:not([hidden]) .state",
        ".try-status .state",
        "a.item .count",
    ),
    "exchange": (
        ".head .pill",
        ".figures dd",
        "svg.timeline",
        "svg.machine",
        ".turn-table td",
        ".story li",
    ),
    "session": (
        ".head .pill",
        ".beside-list .mark",
        ".tab-list [aria-selected=true] b",
        ".live-list .w-row:not([hidden]) .state",
    ),
    "sessions": (".head .small", ".session-list .w-row:not([hidden]) .state"),
    "tools": (".tools td",),
    "jobs": (
        ".bars",
        ".chips b",
        ".jobs-list .w-row:not([hidden]) .c-state",
        ".list-count",
        ".detail .state",
        ".detail .due",
        ".times td",
        ".detail .run",
    ),
    "job": (".detail .state", ".detail .due", ".times td", ".detail .run"),
    "health": (".table.tight td", ".health-facts dd", ".plot", ".table:not(.tight) td"),
    "chat": (".said-foot .state", ".this-answer .pill", ".this-answer .step"),
}
FIND_BRIGHT = """
(selectors) => selectors.flatMap((selector) => {
  const isGrey = (node) => {
    for (let above = node; above; above = above.parentElement) if (getComputedStyle(above).filter.includes("saturate")) return true;
    return false;
  };
  const nodes = [...document.querySelectorAll(`main ${selector}, .rail ${selector}`)].filter((node) => node.checkVisibility());
  if (!nodes.length) return [`none of ${selector}`];
  return nodes.filter((node) => !isGrey(node)).map((node) => `${selector}: ${node.textContent.slice(0, 40)}`);
})
"""
MOVING = "() => document.getAnimations().filter((one) => one.playState === 'running').length"


@dataclass(frozen=True)
class Sizes:
    """How large things must be: what is pressed, and the text of fields."""

    least: int
    field: int


POINTER = Sizes(24, 11)
TOUCH = Sizes(40, 16)


async def measure(page: Page, sizes: Sizes) -> list[str]:
    """Return what is too small, cut off or shortened, too wide, one over the other, or spoken each second."""
    found: dict[str, list[str]] = await page.evaluate(
        MEASURE, {"least": sizes.least, "field": sizes.field}
    )
    return [f"{kind}: {one}" for kind, ones in found.items() for one in dict.fromkeys(ones)]


async def find_bright(page: Page, name: str) -> list[str]:
    """Return the figures of a page that are not grey, and those that are not there."""
    found: list[str] = await page.evaluate(FIND_BRIGHT, list(FIGURES[name]))
    return found


async def count_animations(page: Page) -> int:
    """Return how many animations run."""
    number: int = await page.evaluate(MOVING)
    return number


async def set_text_size(page: Page, percent: int) -> None:
    """Set the text size of the browser, as people do in its settings."""
    sizes: dict[str, Any] = {"standard": 16 * percent // 100, "fixed": 13 * percent // 100}
    session = await page.context.new_cdp_session(page)
    await session.send("Page.setFontSizes", {"fontSizes": sizes})
