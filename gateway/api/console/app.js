// The console starts here: who am I, words, theme, frame, router, feed.
//
// How a page is written: pages/NAME.js exports `createPage(app)`, which returns
//   { topics(query), mount(main, query), update(change), leave() }
// - topics(query): the feed topics it watches (besides `summary`, which the frame watches). Optional.
// - mount(main, query): fills `main`. query is the URLSearchParams of the address. Draw at once from
//   `app.store`; until `app.store.has(topic)`, show `loading()` of parts/empty.js.
// - update(change): change.topics (a Set: rows of these changed), change.query (the new query, if the
//   address of the same page changed), change.tick (a second passed). Write only what changed.
// - leave(): ends its own requests and lists. The frame clears `main` and the page's keys.
// A change of language or zone leaves and mounts the page again.
//
// What a page uses:
//   app.me, app.store.rows(topic) (Map key → row), app.store.row(topic, key), app.store.has(topic)
//   app.keys.setPage([{ key, say, run }]), app.setEditing(true | false): no reload while true
//   h.js: h, fill, setText, setAttribute, icon          words.js: say, sayCount, sayOr
//   api.js: get, post, remove, stream, ApiError          router.js: href, go, setQuery
//   times.js: now, showTime, showDuration, moving(…) …   parts/: list, state, dialog, toast, menu, empty
//   parts/list.js: new List({ columns, key, … }); it sets the rows' heights, pages.css only the columns of
//   `.w-line` (on phones as a card); parts/rows.js has the columns of exchanges for any page
//   figures that must turn grey when they are not live carry the class `dims`
// Rules: text is only ever text; no style attributes; every word stands in both words files.
import { call, get, onSignedOut } from "./api.js";
import { Feed } from "./feed.js";
import { Frame } from "./frame.js";
import { Keys } from "./keys.js";
import { failure } from "./parts/empty.js";
import { toast, toastError } from "./parts/toast.js";
import { go, readAddress, startRouter } from "./router.js";
import { applyTheme, readLanguage, writeSetting } from "./settings.js";
import { Store } from "./store.js";
import { noteServerTime, noteServerZone, now, startTicking } from "./times.js";
import { loadWords, say } from "./words.js";

const PAGES = {
  live: () => import("./pages/live.js"),
  exchange: () => import("./pages/exchange.js"),
  chat: () => import("./pages/chat.js"),
  sessions: () => import("./pages/sessions.js"),
  session: () => import("./pages/session.js"),
  tools: () => import("./pages/tools.js"),
  jobs: () => import("./pages/jobs.js"),
  job: () => import("./pages/job.js"),
  health: () => import("./pages/health.js"),
  sign_in: () => import("./pages/sign_in.js"),
};

class App {
  me = null;
  store = new Store((topics) => this.#tell({ topics }));
  keys = new Keys((page) => go(page));
  #frame = null;
  #feed = null;
  #page = null;
  #name = "";
  #epoch = "";
  #heardAt = 0;
  #status = { name: "connecting" };
  #editing = false;
  #reloads = false;

  async start() {
    applyTheme();
    await loadWords(readLanguage());
    onSignedOut(() => this.#showSignIn());
    startRouter(() => this.#open());
    startTicking(() => this.#frame?.isStale() || this.#tell({ tick: true }));
    this.#feed = new Feed({
      state: (state) => this.store.apply(state),
      beat: (at) => this.#beat(at),
      hello: (hello) => this.#greet(hello),
      status: (status) => this.#setStatus(status),
    });
    await this.join();
  }

  /** Asks who we are and shows the page of the address; also after signing in. */
  async join() {
    try {
      this.me = await get("/api/console/me");
    } catch (error) {
      if (error.status !== 401) document.body.replaceChildren(failure(error, () => this.join()));
      return;
    }
    noteServerTime(this.me.now);
    noteServerZone(this.me.zone);
    this.redraw();
  }

  /** Draws frame and page anew: the language or the zone changed, or somebody signed in. */
  redraw() {
    this.#page?.leave?.();
    this.#page = null;
    this.#frame = new Frame(this);
    document.body.replaceChildren(this.#frame.node);
    this.#frame.setStatus(this.#status, this.#heardAt);
    const summary = this.store.row("summary", "all");
    if (summary) this.#frame.setCounts(summary);
    this.#open();
  }

  async setLanguage(name) {
    writeSetting("language", name);
    await loadWords(name);
    this.redraw();
  }

  async signOut() {
    await call("POST", "/api/console/logout").catch(toastError);
    this.#showSignIn();
  }

  /** While something is being edited, a new version of the console waits. */
  setEditing(editing) {
    this.#editing = editing;
    if (!editing && this.#reloads) location.reload();
  }

  async #open() {
    if (!this.#frame) return;
    const { page, query } = readAddress();
    if (this.#page && page === this.#name) {
      this.#watch(query);
      this.#page.update?.({ topics: new Set(), query });
      return;
    }
    this.#name = page;
    this.#page?.leave?.();
    this.#page = null;
    this.keys.setPage([]);
    const frame = this.#frame;
    const made = await PAGES[page]().then(
      (module) => module.createPage(this),
      (error) => this.#failPage(error),
    );
    if (!made) return;
    if (frame !== this.#frame || page !== this.#name || this.#page) return; // meanwhile another was opened
    this.#page = made;
    this.#watch(readAddress().query);
    frame.setPage(page);
    frame.main.replaceChildren();
    scrollTo(0, 0);
    made.mount(frame.main, readAddress().query);
    if (document.activeElement === document.body || !document.activeElement?.isConnected)
      frame.main.focus({ preventScroll: true });
  }

  // Most likely the server has other files by now.
  #failPage(error) {
    this.#frame?.main.replaceChildren(failure(error, () => location.reload()));
    return null;
  }

  #watch(query) {
    const topics = ["summary", ...(this.#page.topics?.(query) ?? [])];
    const unique = [...new Set(topics)];
    this.store.keep(unique);
    this.#feed.watch(unique);
  }

  async #showSignIn() {
    if (!this.#feed || this.#name === "sign_in") return;
    this.#name = "sign_in";
    this.#page?.leave?.();
    this.#page = null;
    this.#frame = null;
    this.#feed.end("sign_in");
    this.store.keep([]);
    const main = document.createElement("main");
    document.body.replaceChildren(main);
    const page = (await PAGES.sign_in()).createPage(this);
    page.mount(main, new URLSearchParams());
  }

  #tell(change) {
    if (change.topics?.has("summary")) {
      const summary = this.store.row("summary", "all");
      if (summary) this.#frame?.setCounts(summary);
    }
    this.#page?.update?.({ topics: new Set(), ...change });
  }

  #beat(at) {
    noteServerTime(at);
    this.#heardAt = at;
  }

  #greet(hello) {
    if (this.#epoch && this.#epoch !== hello.epoch) this.#checkVersion();
    this.#epoch = hello.epoch;
  }

  // The server began anew: its files may be others than ours.
  async #checkVersion() {
    const index = await fetch("/console/", { cache: "no-store" }).then(
      (answer) => answer.text(),
      () => "",
    );
    const base = new URL("./", import.meta.url).pathname;
    if (!index || index.includes(base)) return;
    this.#reloads = true;
    if (this.#editing) toast(say("frame.why_new_version"), { seconds: 30 });
    else location.reload();
  }

  #setStatus(status) {
    if (status.name === this.#status.name && !status.retryAt) return;
    this.#status = status;
    if (status.name === "sign_in") this.#showSignIn();
    this.#frame?.setStatus(status, this.#heardAt || now());
  }
}

await new App().start();
