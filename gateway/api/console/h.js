// Makes elements. Text is only ever text: there is no way to pass markup through here.
const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(
  "svg g path rect circle line text tspan title defs pattern polygon polyline clipPath".split(" "),
);

/** An element: h("p", { class: "muted", onclick: run }, "text", node, [nodes], null). */
export function h(tag, given = {}, ...children) {
  const node = SHAPES.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttribute(node, name, value === true ? "" : value);
  }
  addChildren(node, children);
  return node;
}

/** Sets or removes an attribute, and touches the page only if it differs. */
export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  // Addresses of the console only: a text from outside never becomes a foreign or script address.
  if (name === "href" && !/^[/#](?!\/)/.test(text)) return;
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

/** Writes a text, and touches the page only if it differs. */
export function setText(node, text) {
  const value = String(text);
  if (node.textContent !== value) node.textContent = value;
}

/** Puts these children in place of what is there. What had the focus has it again, if it is still there. */
export function fill(node, ...children) {
  const active = document.activeElement;
  const had = active !== node && node.contains(active) ? active : null;
  node.replaceChildren();
  addChildren(node, children);
  if (had) [...node.querySelectorAll(had.tagName)].find((one) => nameOf(one) === nameOf(had))?.focus({ preventScroll: true });
  return node;
}

const nameOf = (node) => node.getAttribute("aria-label") ?? node.textContent;

function addChildren(node, children) {
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
}

const styles = new Map();

/** Loads a style sheet of the console, once. */
export function loadStyle(name) {
  if (!styles.has(name)) styles.set(name, addStyle(name).catch((error) => (styles.delete(name), Promise.reject(error))));
  return styles.get(name);
}

const addStyle = (name) =>
  new Promise((resolve, reject) => {
    const refuse = () => (link.remove(), reject(new Error(`${name}.css`)));
    const link = h("link", { rel: "stylesheet", href: new URL(`${name}.css`, import.meta.url).pathname, onload: resolve, onerror: refuse });
    document.head.append(link);
  });

const ICONS = {
  live: "M3 10h3l2-6 4 12 2-6h3",
  chat: "M3 4h14v9H9l-4 4v-4H3z",
  sessions: "M4 5h12M4 10h12M4 15h8",
  tools: "M12.5 3.5a4 4 0 0 0-4 5.5L3 14.5 5.5 17 11 11.5a4 4 0 0 0 5.5-4.2l-2.3 2.2-2.6-.6-.6-2.6z",
  jobs: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 6v4l3 2",
  health: "M3 16V9M8 16V4M13 16v-5M17 16V7",
  more: "M4 10h.01M10 10h.01M16 10h.01",
  run: "M6 4l10 6-10 6z",
  open: "M8 5l5 5-5 5",
  back: "M12 5l-5 5 5 5",
  close: "M5 5l10 10M15 5L5 15",
  bell: "M5 14V9a5 5 0 0 1 10 0v5l1.5 1.5h-13zM8.5 17.5h3",
  loop: "M4 10a6 6 0 0 1 10.5-4L16 7.5M16 4v3.5h-3.5M16 10a6 6 0 0 1-10.5 4L4 12.5M4 16v-3.5h3.5",
  mail: "M3 5h14v10H3zM3 6l7 5 7-5",
  edit: "M4 16l1-4 8-8 3 3-8 8zM11.5 5.5l3 3",
  plus: "M10 4v12M4 10h12",
};

/** A line drawing of 18 px, in the colour of its text. */
export function icon(name) {
  const line = { fill: "none", stroke: "currentColor", "stroke-linecap": "round", "stroke-linejoin": "round" };
  return h(
    "svg",
    { viewBox: "0 0 20 20", width: 18, height: 18, class: "icon", "aria-hidden": "true", ...line },
    h("path", { d: ICONS[name] }),
  );
}
