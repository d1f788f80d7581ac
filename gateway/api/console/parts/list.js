// One windowed list: thousands of rows, some dozens of elements. It scrolls with the page.
//
// Rows are reused and a cell is written only when its content changed. While a person points at the
// list, touches it or has the focus in it, rows keep their places; what came meanwhile waits behind "4 new".
import { h, setAttribute, setText } from "../h.js";
import { sayCount } from "../words.js";

const NARROW = matchMedia("(max-width: 47.5em)");
const SPARE = 3;
const TAP = 500;

/** A list.
 *
 * columns: { name, title, num, text(row) } for a text, or { name, title, make() → node, key(row) → string,
 * write(node, row) } for anything else; `write` runs only when `key` changed.
 * key(row): the row's identity. href(row): its address (then the row opens it). open(row): instead of href.
 * height, narrowHeight: of a row, wide and on phones. label: the table's name. spare: rows above and below
 * those in sight. A column with `write` and without `make` writes into the cell itself.
 */
export class List {
  #given;
  #rows = [];
  #shown = [];
  #slots = [];
  #active = null;
  #pointed = false;
  #touched = 0;
  #held = false;
  #waiting = false;

  constructor(given) {
    this.#given = { height: 40, narrowHeight: 84, spare: SPARE, ...given };
    const titles = given.columns.map((one) => h("span", { role: "columnheader", class: cellClass(one) }, one.title));
    this.#fresh = h("button", { type: "button", class: "fresh", hidden: true, onclick: (event) => this.#bring(event) });
    this.#space = h("div", { class: "w-space dims", role: "rowgroup" });
    this.node = h(
      "div",
      { class: `list-table ${given.class ?? ""}` },
      this.#fresh,
      (this.#grid = h(
        "div",
        { role: "grid", "aria-label": given.label, "aria-rowcount": 0 },
        h("div", { class: "w-head", role: "rowgroup" }, h("div", { role: "row", class: "w-line" }, titles)),
        this.#space,
      )),
    );
    this.#listen();
  }

  #fresh;
  #space;
  #grid;

  /** Shows these rows in this order. `force` moves them although a person points at the list. */
  show(rows, { force = false } = {}) {
    this.#rows = rows;
    if (force || this.#shown.length === 0 || !this.isStill()) this.#shown = rows;
    else if (!this.#held) this.#refresh();
    this.#keepActive();
    this.#tellFresh();
    this.#soon();
  }

  /** Holds all rows as they are (Pause), or lets them go on. */
  hold(held) {
    this.#held = held;
    if (!held) this.release();
  }

  isStill() {
    return this.#held || this.#pointed || this.node.contains(document.activeElement);
  }

  /** Brings what waited. */
  release() {
    this.#shown = this.#rows;
    this.#tellFresh();
    this.#soon();
  }

  // Pressed by a key, the button vanishes with the focus on it: a row has it then.
  #bring(event) {
    this.release();
    if (event.detail === 0) this.step(0);
  }

  /** The row that j and k have reached, or null. */
  activeRow() {
    return this.#shown.find((row) => this.#given.key(row) === this.#active) ?? null;
  }

  /** The row in which an element stands, as it is now. */
  rowOf(node) {
    return this.#slots.find((slot) => slot.node.contains(node))?.row ?? null;
  }

  /** Moves the focus by some rows; the page binds j, k and the arrows to it. */
  step(by) {
    const at = this.#shown.findIndex((row) => this.#given.key(row) === this.#active);
    const next = Math.max(0, Math.min(this.#shown.length - 1, at === -1 ? 0 : at + by));
    if (!this.#shown.length) return;
    this.#active = this.#given.key(this.#shown[next]);
    this.#scrollTo(next);
    this.draw();
    this.#slots.find((slot) => slot.key === this.#active)?.node.focus({ preventScroll: true });
  }

  /** Stops listening; call it in `leave`. */
  close() {
    this.#stop.abort();
  }

  #stop = new AbortController();

  #listen() {
    const { signal } = this.#stop;
    const soon = () => this.#soon();
    addEventListener("scroll", soon, { passive: true, signal });
    addEventListener("resize", soon, { signal });
    // The whole list, so that the button "4 new" does not vanish under the pointer.
    this.node.addEventListener("pointerenter", (event) => (this.#pointed = event.pointerType === "mouse"), { signal });
    this.node.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.#letGo(), { signal });
    this.node.addEventListener("touchstart", () => this.#touch(), { passive: true, signal });
    for (const end of ["touchend", "touchcancel"]) this.node.addEventListener(end, () => this.#endTouch(), { signal });
    this.node.addEventListener("focusout", () => setTimeout(() => this.isStill() || this.release()), { signal });
    this.#space.addEventListener("focusin", (event) => this.#noteFocus(event.target), { signal });
    this.#space.addEventListener("click", (event) => this.#click(event), { signal });
    this.#space.addEventListener(
      "keydown",
      (event) => event.key === "Enter" && event.target.role === "row" && this.#click(event),
      { signal },
    );
  }

  #noteFocus(node) {
    const slot = this.#slots.find((one) => one.node === node);
    if (slot?.key) this.#active = slot.key;
  }

  #touch() {
    clearTimeout(this.#touched);
    this.#pointed = true;
  }

  // The click comes after the finger has left: its row is still there.
  #endTouch() {
    clearTimeout(this.#touched);
    this.#touched = setTimeout(() => this.#letGo(), TAP);
  }

  #letGo() {
    this.#pointed = false;
    if (!this.isStill()) this.release();
  }

  #click(event) {
    const slot = this.#slots.find((one) => one.node.contains(event.target));
    if (!slot || event.target.closest("a, button, input, select, label")) return;
    if (String(getSelection())) return;
    this.#active = slot.key;
    if (this.#given.open) this.#given.open(slot.row);
    else slot.node.querySelector("a")?.click();
  }

  // Rows that are still there are shown as they are now; places and number stay.
  #refresh() {
    const now = new Map(this.#rows.map((row) => [this.#given.key(row), row]));
    this.#shown = this.#shown.map((row) => now.get(this.#given.key(row)) ?? row);
  }

  // A row that is gone leaves its place to the next, which has the focus then.
  #keepActive() {
    if (this.#active === null || this.activeRow()) return;
    const at = this.#slots.find((slot) => slot.key === this.#active);
    const next = this.#shown[Math.min(this.#shown.length - 1, at ? at.top / at.tall : 0)];
    this.#active = next ? this.#given.key(next) : null;
  }

  #tellFresh() {
    const shown = this.#shown === this.#rows ? null : new Set(this.#shown.map(this.#given.key));
    const n = shown ? this.#rows.filter((row) => !shown.has(this.#given.key(row))).length : 0;
    this.#fresh.hidden = n === 0;
    if (n) setText(this.#fresh, sayCount("frame.fresh", n));
  }

  #soon() {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => this.draw());
  }

  // Larger text makes higher rows.
  #rowHeight() {
    const text = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
    return Math.round(text * (NARROW.matches ? this.#given.narrowHeight : this.#given.height));
  }

  #scrollTo(index) {
    const tall = this.#rowHeight();
    const top = this.#space.getBoundingClientRect().top + index * tall;
    if (top < 48) scrollBy(0, top - 48);
    else if (top + tall > innerHeight - 72) scrollBy(0, top + tall - innerHeight + 72);
  }

  draw() {
    this.#waiting = false;
    const tall = this.#rowHeight();
    const above = -this.#space.getBoundingClientRect().top;
    const { spare } = this.#given;
    const from = Math.max(0, Math.floor(above / tall) - spare);
    // A list below the fold has its first rows, too: who tabs or swipes there finds them.
    const to = Math.min(this.#shown.length, Math.max(0, Math.ceil((above + innerHeight) / tall)) + spare);
    const count = Math.max(0, to - from);
    this.#space.style.height = `${this.#shown.length * tall}px`;
    setAttribute(this.#grid, "aria-rowcount", this.#shown.length + 1);
    while (this.#slots.length < count) this.#slots.push(this.#makeSlot());
    const had = this.#slots.some((slot) => slot.node === document.activeElement);
    this.#slots.forEach((slot, i) => this.#place(slot, i < count ? from + i : -1, tall));
    if (had && this.#active !== null) this.#slots.find((slot) => slot.key === this.#active)?.node.focus({ preventScroll: true });
  }

  #makeSlot() {
    const cells = this.#given.columns.map((column) =>
      h("span", { role: "gridcell", class: cellClass(column) }, column.make?.()),
    );
    const node = h("div", { class: "w-row w-line", role: "row", tabindex: -1 }, cells);
    this.#space.append(node);
    return { node, cells, seen: [], key: null, row: null, top: -1, tall: 0 };
  }

  #place(slot, index, tall) {
    slot.node.hidden = index < 0;
    if (index < 0) return void (slot.key = null);
    const row = this.#shown[index];
    slot.row = row;
    slot.key = this.#given.key(row);
    if (slot.tall !== tall) slot.node.style.height = `${(slot.tall = tall)}px`;
    if (slot.top !== index * tall) {
      slot.top = index * tall;
      slot.node.style.transform = `translateY(${slot.top}px)`;
      slot.node.setAttribute("aria-rowindex", index + 2);
    }
    const first = this.#active === null ? index === 0 : slot.key === this.#active;
    setAttribute(slot.node, "tabindex", first ? 0 : -1);
    setAttribute(slot.node, "aria-selected", this.#given.selected ? String(this.#given.selected(row)) : null);
    this.#given.columns.forEach((column, c) => writeCell(slot, c, column, row));
  }
}

function writeCell(slot, c, column, row) {
  const seen = column.text ? column.text(row) : column.key(row);
  if (slot.seen[c] === seen) return;
  slot.seen[c] = seen;
  if (column.text) slot.cells[c].textContent = seen;
  else column.write(column.make ? slot.cells[c].firstChild : slot.cells[c], row);
}

const cellClass = (column) => `c-${column.name}${column.num ? " num" : ""}`;
