// The frame around every page: rail, tabs, foot, and the line that says when figures are not live.
import { fill, h, icon, setAttribute, setText } from "./h.js";
import { openDialog } from "./parts/dialog.js";
import { href } from "./router.js";
import { applyTheme, readSetting, writeSetting } from "./settings.js";
import { moving, showClock, showNumber, stopTime, zones } from "./times.js";
import { currentLanguage, LANGUAGES, say } from "./words.js";

const RAIL = ["live", "chat", "sessions", "tools", "jobs", "health"];
const TABS = ["live", "chat", "jobs", "sessions"];
// Pages that belong to a place of the rail.
const PLACE = { exchange: "live", session: "sessions", job: "jobs" };

export class Frame {
  #app;
  #links = [];
  #counts = {};
  #dots = [];
  #banner = h("div", { class: "banner", role: "status", hidden: true });
  #asOf = 0;
  #status = "";
  #place = "";
  #rail = null;
  #more = null;

  /** app: { me, keys, setLanguage(name), redraw(), signOut() }. */
  constructor(app) {
    this.#app = app;
    this.main = h("main", { id: "main", tabindex: -1 });
    this.node = h(
      "div",
      { class: "app" },
      h("a", { class: "skip", href: "#main", onclick: () => this.main.focus() }, say("frame.skip")),
      (this.#rail = this.#makeRail()),
      h("div", { class: "column" }, this.#banner, this.main),
      this.#makeTabs(),
    );
  }

  #makeRail() {
    const items = RAIL.map((name) => this.#link(name, "item", h("span", { class: "count dims" })));
    return h(
      "nav",
      { class: "rail", "aria-label": "Holdgate" },
      makeBrand(),
      items,
      h("div", { class: "foot" }, this.#makeFoot()),
    );
  }

  #makeTabs() {
    this.#more = h("button", { type: "button", onclick: () => this.#showMore() }, icon("more"), say("frame.more"));
    return h(
      "nav",
      { class: "tabs", "aria-label": say("frame.places") },
      TABS.map((name) => this.#link(name, "")),
      this.#more,
    );
  }

  #link(name, kind, count = null) {
    if (count) this.#counts[name] = count;
    const node = h("a", { class: kind || null, href: href(name) }, icon(name), say(`frame.${name}`), count);
    this.#links.push([name, node]);
    return node;
  }

  #makeFoot() {
    const { me } = this.#app;
    const dot = h("span", { class: "connection" }, h("span", { class: "live-dot" }), h("span", {}, ""));
    this.#dots.push(dot);
    if (this.#status) this.#writeDot(dot);
    const owner = [me.owner, me.admin ? say("frame.admin") : ""].filter(Boolean).join(" · ");
    const process = me.instance ? h("span", { class: "faint cut process", title: me.instance }, me.instance) : null;
    return [
      h("span", { class: "foot-line" }, dot, process),
      h(
        "span",
        { class: "owner" },
        owner,
        me.signed_in
          ? h("button", { type: "button", class: "link", onclick: () => this.#app.signOut() }, say("frame.sign_out"))
          : null,
      ),
      this.#makeSelect(
        "zone",
        zones().map(([choice, name]) => [choice, `${say(`frame.zone_${choice}`)}: ${name}`]),
        () => this.#app.redraw(),
      ),
      this.#makeSelect(
        "theme",
        ["system", "light", "dark"].map((name) => [name, say(`frame.theme_${name}`)]),
        applyTheme,
      ),
      h("div", { class: "foot-line" }, this.#makeLanguage(), this.#makeHelp()),
    ];
  }

  #makeLanguage() {
    const other = currentLanguage() === "en" ? "zh" : "en";
    const lang = other === "zh" ? "zh-CN" : "en";
    return h(
      "button",
      { type: "button", class: "link", lang, onclick: () => this.#app.setLanguage(other) },
      LANGUAGES[other],
    );
  }

  #makeHelp() {
    return h(
      "button",
      { type: "button", class: "link", onclick: () => this.#app.keys.showHelp() },
      h("kbd", {}, "?"),
      " ",
      say("frame.keys_short"),
    );
  }

  #makeSelect(name, choices, changed) {
    const options = choices.map(([value, text]) => h("option", { value, selected: value === readSetting(name) }, text));
    const change = () => {
      writeSetting(name, select.value);
      changed();
    };
    const select = h(
      "select",
      { class: "plain-select", "aria-label": say(`frame.${name}`), onchange: change },
      options,
    );
    return select;
  }

  #showMore() {
    const places = ["tools", "health"].map((name) =>
      h(
        "a",
        { class: "item", href: href(name), "aria-current": name === this.#place ? "page" : null },
        icon(name),
        say(`frame.${name}`),
      ),
    );
    const body = h("div", { class: "more" }, places, h("div", { class: "foot" }, this.#makeFoot()));
    body.addEventListener("click", (event) => event.target.closest("a") && body.closest("dialog").close());
    openDialog({ title: say("frame.more"), body });
  }

  /** Marks where we are. */
  setPage(page) {
    const place = PLACE[page] ?? page;
    for (const [name, node] of this.#links) setAttribute(node, "aria-current", name === place ? "page" : null);
    setAttribute(this.#more, "aria-current", TABS.includes(place) ? null : "true");
    this.#place = place;
    document.title = `${say(`frame.${place}`)} · Holdgate`;
  }

  /** Numbers in the rail: answers under way, jobs that fail. */
  setCounts(summary) {
    const live = Object.values(summary.live).reduce((sum, n) => sum + n, 0);
    const failing = summary.needs.filter((one) => one.kind === "job_failing" || one.kind === "job_disabled").length;
    setText(this.#counts.live, live ? showNumber(live) : "");
    setText(this.#counts.jobs, failing ? showNumber(failing) : "");
    setAttribute(this.#counts.jobs, "class", failing ? "count dims bad" : "count dims");
  }

  /** Shows the connection; `at` is the server's time of the last thing heard. */
  setStatus({ name, stale = false, retryAt = 0, why = "" }, at) {
    if (at) this.#asOf = at;
    stopTime(stale ? this.#asOf : 0);
    this.#status = name;
    this.#dots = this.#dots.filter((dot, i) => i === 0 || dot.isConnected);
    for (const dot of this.#dots) this.#writeDot(dot);
    for (const node of [this.main, this.#rail]) setAttribute(node, "data-stale", stale);
    this.#writeBanner(name, retryAt, stale, why);
  }

  /** Whether the figures are those of an earlier time. */
  isStale() {
    return this.main.hasAttribute("data-stale");
  }

  #writeDot(dot) {
    setAttribute(dot.firstChild, "class", `live-dot is-${this.#status}`);
    setText(dot.lastChild, say(`frame.is_${this.#status}`));
  }

  #writeBanner(name, retryAt, stale, why) {
    this.#banner.hidden = name === "live" || name === "connecting";
    if (this.#banner.hidden) return;
    const again = retryAt > Date.now() ? moving("wait", retryAt, "frame.again_in") : null;
    const age =
      stale && this.#asOf ? h("span", { class: "muted" }, say("frame.as_of", { time: showClock(this.#asOf) })) : null;
    fill(this.#banner, h("b", {}, say(`frame.is_${name}`)), again, age, why || say(`frame.why_${name}`));
  }
}

/** The sign and the name, which lead to Live. */
export function makeBrand() {
  const post = (x) => h("rect", { x, y: 2, width: 4, height: 18, rx: 1.4, fill: "currentColor" });
  const mark = h(
    "svg",
    { viewBox: "0 0 22 22", width: 22, height: 22, "aria-hidden": "true" },
    post(3),
    post(15),
    h("circle", { cx: 11, cy: 11, r: 2.3, class: "f-holding" }),
  );
  return h("a", { class: "brand", href: href("live") }, mark, "Holdgate");
}
