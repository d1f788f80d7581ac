// A model's text: paragraphs and code fences, nothing else.
import { h, setText } from "../h.js";

const FENCE = /^ {0,3}(```+|~~~+)/;

/** Writes a text into a node; blocks that did not change are left alone, so a growing text is cheap. */
export function writeProse(node, text) {
  const blocks = splitBlocks(text);
  while (node.childElementCount > blocks.length) node.lastChild.remove();
  blocks.forEach(({ code, lines }, i) => {
    const old = node.children[i];
    const tag = code ? "PRE" : "P";
    const block = old?.tagName === tag ? old : code ? h("pre", { tabindex: 0 }, h("code")) : h("p");
    if (!old) node.append(block);
    else if (old !== block) old.replaceWith(block);
    setText(code ? block.firstChild : block, lines.join("\n"));
  });
}

/** The blocks of a text: { code, lines }. A fence that is not closed yet goes to the end. */
export function splitBlocks(text) {
  const blocks = [];
  let fence = "";
  let open = null;
  for (const line of text.split("\n")) {
    const mark = FENCE.exec(line)?.[1] ?? "";
    if (fence) {
      if (mark.startsWith(fence) && line.trim() === mark) ((fence = ""), (open = null));
      else open.lines.push(line);
    } else if (mark) {
      fence = mark;
      blocks.push((open = { code: true, lines: [] }));
    } else if (line.trim() === "") open = null;
    else if (open) open.lines.push(line);
    else blocks.push((open = { code: false, lines: [line] }));
  }
  return blocks;
}
