// The console starts here: who am I, words, theme, frame, router, feed.
// docs/contributing.md says how a page is written.
import { call, get, onSignedOut, stream } from "./api.js";
import { Feed } from "./feed.js";
import { Frame } from "./frame.js";
import { loadStyle } from "./h.js";
import { Keys } from "./keys.js";
import { failure, retryAll } from "./parts/empty.js";
import { toastError } from "./parts/toast.js";
import { go, readAddress, startRouter } from "./router.js";
import { applyTheme, readLanguage, writeSetting } from "./settings.js";
import { Store } from "./store.js";
import { noteServerTime, noteServerZone, serverNow, startTicking } from "./times.js";
import { loadWords } from "./words.js";

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

// Each page has the style sheets of its kind; those that show exchanges have the others.
const STYLES = { tools: ["health"], health: ["drawings", "health"], jobs: ["jobs"], job: ["jobs"] };
const OTHERS = ["drawings", "exchanges"];

const LONGEST_TOPIC = 300;
const JOIN_AGAIN = 2000;

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
  #joins = 0;
  #hadFocus = false;

  async start() {
    applyTheme();
    await loadWords(readLanguage());
    onSignedOut(() => this.#showSignIn());
    document.addEventListener("focusin", () => (this.#hadFocus = true));
    startRouter(() => this.#open());
    startTicking(() => this.#frame?.isStale() || this.#tell({ tick: true }));
    this.#feed = new Feed({
      state: (state) => this.#take(state),
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
      if (error.status !== 401) this.#joinLater(error);
      return;
    }
    clearTimeout(this.#joins);
    noteServerTime(this.me.now);
    noteServerZone(this.me.zone);
    this.redraw();
  }

  #joinLater(error) {
    clearTimeout(this.#joins);
    this.#joins = setTimeout(() => this.join(), JOIN_AGAIN);
    document.body.replaceChildren(failure(error, () => this.join()));
  }

  /** Draws frame and page anew: the language or the zone changed, or somebody signed in. */
  redraw() {
    this.#page?.leave?.();
    this.#page = null;
    this.#frame = new Frame(this);
    document.body.replaceChildren(this.#frame.node);
    this.#showStatus();
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
      return this.#keepFocus();
    }
    this.#name = page;
    this.#page?.leave?.();
    this.#page = null;
    this.keys.setPage([]);
    const frame = this.#frame;
    const made = await Promise.all([PAGES[page](), ...(STYLES[page] ?? OTHERS).map(loadStyle)]).then(
      ([module]) => module.createPage(this),
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
    this.#keepFocus();
  }

  // What had the focus is gone: then the page has it, so that keys go on from there. Before anything had
  // it, the first Tab leads to the link that skips the rail.
  #keepFocus() {
    if (this.#hadFocus && document.activeElement === document.body) this.#frame?.main.focus({ preventScroll: true });
  }

  // The server is away, or has other files by now. Browsers do not load a module again that failed once.
  async #failPage(error) {
    const frame = this.#frame;
    const name = this.#name;
    const wasStale = frame?.isStale();
    const found = await this.#hasOtherFiles().catch((reason) => reason);
    // Also if the line came back just now: nothing tells of it once more.
    if (found === true || (found === false && wasStale)) return location.reload();
    if (frame !== this.#frame || name !== this.#name) return;
    this.#name = "";
    frame.setPage(name);
    const retry = () => this.#hasOtherFiles().then(() => location.reload(), toastError);
    frame.main.replaceChildren(failure(found || error, retry));
  }

  #watch(query) {
    const topics = ["summary", ...(this.#page.topics?.(query) ?? [])];
    // An address may name anything: what can be no topic is not asked for, the page says the rest.
    const unique = [...new Set(topics)].filter((one) => one.length <= LONGEST_TOPIC && !/^\w+:$/.test(one));
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
    this.#keepFocus();
  }

  #take(state) {
    this.#heardAt = serverNow();
    this.store.apply(state);
  }

  #beat(at) {
    noteServerTime(at);
    this.#heardAt = at;
  }

  #takeBack() {
    retryAll();
    this.#tell({ back: true });
  }

  #greet(hello) {
    noteServerTime(hello.now, true);
    this.#heardAt = hello.now;
    if (this.#epoch && this.#epoch !== hello.epoch) this.#checkVersion();
    this.#epoch = hello.epoch;
    if (this.#frame?.isStale()) queueMicrotask(() => this.#takeBack());
  }

  // The server began anew: its files may be others than ours.
  async #checkVersion() {
    this.#reloads = await this.#hasOtherFiles().catch(() => false);
    if (!this.#reloads) return;
    if (this.#editing) this.#setStatus(this.#status, true);
    else location.reload();
  }

  // Anything else than our own page may be the answer of a proxy.
  async #hasOtherFiles() {
    const index = await stream("GET", "/console/").then((answer) => answer.text());
    const base = new URL("./", import.meta.url).pathname;
    return index.includes(base.replace(/[^/]+\/$/, "")) && !index.includes(base);
  }

  #setStatus(status, force = false) {
    if (status.name === this.#status.name && status.stale === this.#status.stale && !status.retryAt && !force) return;
    this.#status = status;
    if (status.name === "sign_in") this.#showSignIn();
    const isNews = Boolean(status.stale) !== this.#frame?.isStale();
    this.#showStatus();
    // Drawn by the time that is shown from now on; a page may be about to be mounted.
    if (isNews) queueMicrotask(() => this.#tell({ tick: true }));
  }

  #showStatus() {
    const waits = this.#reloads && this.#status.name === "live";
    this.#frame?.setStatus(waits ? { name: "new_version" } : this.#status, this.#heardAt);
  }
}

await new App().start();
