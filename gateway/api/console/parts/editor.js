// The editor of a job: one dialog for a new one, a change and a copy.
import { get, post } from "../api.js";
import { fill, h, setAttribute, setText } from "../h.js";
import { say } from "../words.js";
import { openDialog } from "./dialog.js";
import { noteJob } from "./edit_job.js";
import { toast } from "./toast.js";
import { textOf, When } from "./when.js";

const NEW = { name: "", message: "", agent_id: "", session_id: "", model: "", session: "main", enabled: true, delete_after_run: false, dedupe_key: "" };

const valuesOf = (job) => ({ ...NEW, ...Object.fromEntries(Object.keys(NEW).map((name) => [name, job[name] ?? NEW[name]])), message: job.payload?.message ?? "" });

/** Opens the editor; `done(job)` is called when it was saved. `job` with `copy` begins a new one like it. */
export async function openEditor(app, { job = null, copy = false, draft = null, done = () => {} } = {}) {
  const form = new JobForm(app, { job, copy, draft });
  const title = say(job && !copy ? "editor.edit" : copy ? "editor.copy" : "editor.new");
  app.setEditing(true);
  const save = { text: say("frame.save"), value: "saved", kind: "primary", run: () => form.save() };
  const shut = openDialog({ title, body: form.node, wide: true, actions: [{ text: say("frame.cancel"), value: "" }, save] });
  form.begin();
  const value = await shut;
  form.close();
  app.setEditing(false);
  // What was typed is not lost by a slip.
  if (value === "saved") done(form.saved);
  else if (form.isChanged()) toast(say("editor.closed"), { undo: () => openEditor(app, { job, copy, draft: form.read(), done }), seconds: 6 });
}

class JobForm {
  saved = null;
  #app;
  #job;
  #when;
  #fields;
  #begun;
  #refused = h("div", { class: "bad-text", role: "alert" });
  #needed = h("p", { id: "job-needed", class: "small muted needed", "aria-live": "polite" });
  #agents = h("select", { id: "job-agent", onchange: () => this.#showAgent() });
  #relay;

  constructor(app, { job, copy, draft }) {
    this.#app = app;
    this.#job = copy ? null : job;
    const values = job ? valuesOf(job) : NEW;
    if (copy) Object.assign(values, { name: say("editor.copy_of", job), dedupe_key: "" });
    this.#when = new When({ job: this.#job, text: draft?.when ?? (copy ? textOf(job) : null), zone: draft?.zone ?? (copy ? job.schedule.tz : null), tell: () => this.#allow() });
    this.#fields = this.#makeFields();
    this.#write(values);
    this.#begun = JSON.stringify(this.read());
    if (draft) this.#write(draft);
    this.node = h("form", { class: "editor", onsubmit: (event) => event.preventDefault() }, this.#draw());
  }

  #makeFields() {
    const text = (name, more = {}) => h("input", { id: `job-${name}`, autocomplete: "off", ...more });
    const check = (name) => h("input", { id: `job-${name}`, type: "checkbox" });
    const mode = h("select", { id: "job-session" }, ["main", "isolated"].map((name) => h("option", { value: name }, say(`editor.${name}`))));
    const fixed = { disabled: this.#job !== null };
    setAttribute(this.#agents, "disabled", fixed.disabled);
    return { name: text("name", { maxlength: 200 }), message: h("textarea", { id: "job-message", rows: 3, required: true }), agent_id: this.#agents, session_id: text("session_id", fixed), model: text("model"), session: mode, enabled: check("enabled"), delete_after_run: check("delete_after_run"), dedupe_key: text("dedupe_key") };
  }

  #draw() {
    const f = this.#fields;
    const field = (name, why = "") => h("div", { class: "field" }, h("label", { for: `job-${name}` }, say(`editor.${name}`)), f[name], why ? h("p", { class: "small muted" }, why) : null);
    const check = (name) => h("label", { class: "check" }, f[name], say(`editor.${name}`));
    this.#relay = field("model", say("editor.model_why"));
    f.agent_id.id = "job-agent_id";
    return [
      this.#refused,
      field("message"),
      this.#when.node,
      field("name", say("editor.name_why")),
      h("div", { class: "field-pair even" }, field("agent_id"), field("session_id", this.#job ? say("editor.fixed") : say("editor.session_why"))),
      h("details", { class: "more-fields", open: this.#hasMore() }, h("summary", {}, say("editor.more")), h("div", { class: "grid-8" }, h("div", { class: "field-pair even" }, field("session"), this.#relay), field("dedupe_key", say("editor.dedupe_why")), check("enabled"), check("delete_after_run"))),
    ];
  }

  #hasMore() {
    const { model, session, dedupe_key: key, enabled, delete_after_run: gone } = this.read();
    return Boolean(model || key || gone || !enabled || session !== "main");
  }

  /** Called when it is shown: the first field has the focus, the agents are asked for. */
  async begin() {
    this.#button = this.node.closest("dialog").querySelector("footer .primary");
    this.#button.parentNode.prepend(this.#needed);
    setAttribute(this.#button, "aria-describedby", this.#needed.id);
    this.#allow();
    this.#fields.message.focus();
    this.node.addEventListener("input", () => this.#allow());
    this.node.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.#button.click());
    const chosen = this.#agents.value;
    const { agents } = await get("/api/console/tools").catch(() => ({ agents: [] }));
    for (const agent of agents) if (agent.id !== chosen) this.#agents.append(h("option", { value: agent.id }, agent.name || agent.id));
    if (agents.length === 0) return;
    this.#showAgent();
  }

  #button = null;
  #sendsSchedule = false;

  #showAgent() {
    this.#fields.model.disabled = this.#agents.value !== "";
    this.#allow();
  }

  #write(values) {
    if (this.#agents.options.length === 0) this.#agents.append(h("option", { value: "" }, say("editor.no_agent")));
    if (values.agent_id && ![...this.#agents.options].some((one) => one.value === values.agent_id)) this.#agents.append(h("option", { value: values.agent_id }, values.agent_id));
    for (const [name, field] of Object.entries(this.#fields)) {
      if (field.type === "checkbox") field.checked = values[name];
      else field.value = values[name] ?? "";
    }
  }

  read() {
    const values = Object.fromEntries(Object.entries(this.#fields).map(([name, field]) => [name, field.type === "checkbox" ? field.checked : field.value]));
    return { ...values, when: this.#when.field.value, zone: this.#when.zone.value };
  }

  isChanged() {
    return JSON.stringify(this.read()) !== this.#begun;
  }

  close() {
    this.#when.close();
  }

  // What the preview refuses cannot be saved; beside Save stands what is still needed for it.
  #allow() {
    if (!this.#button) return;
    const { message, agent_id: agent, session_id: session, when } = this.read();
    const { ok, waits } = this.#when.state;
    const needed = [
      message.trim() ? "" : "message",
      ok || waits ? "" : when.trim() ? "when_ok" : "when",
      agent || session.trim() ? "" : "session",
    ].filter(Boolean);
    this.#button.disabled = !ok || needed.length > 0;
    setText(this.#needed, needed.length ? say("editor.need", { what: needed.map((name) => say(`editor.need_${name}`)).join(say("when.comma")) }) : "");
  }

  #body() {
    const { when: _when, zone: _zone, ...values } = this.read();
    if (!this.#job) return { ...Object.fromEntries(Object.entries(values).filter(([, value]) => value !== "")), schedule: this.#when.state.schedule };
    const before = valuesOf(this.#job);
    const changed = Object.entries(values).filter(([name, value]) => value !== before[name]);
    return { job_id: this.#job.job_id, if_updated_at: this.#job.updated_at, ...Object.fromEntries(changed), ...((this.#when.isChanged() || this.#sendsSchedule) && { schedule: this.#when.state.schedule }) };
  }

  /** Sends it; false keeps the dialog open, with what was typed. */
  async save() {
    if (!this.#when.state.ok) return false;
    const isOwn = !this.#job || this.#job.user_id === this.#app.me.owner;
    const path = !this.#job ? "/api/cron/add" : isOwn ? "/api/cron/update" : "/api/admin/cron/update";
    fill(this.#refused);
    try {
      const { data } = await post(path, this.#body());
      this.saved = data.job;
      noteJob(this.#app.store, data.job.job_id, data.job);
      toast(say(this.#job ? "editor.saved" : "editor.made", data.job));
      return true;
    } catch (error) {
      const theirs = error.status === 409 ? error.body?.error?.job : null;
      if (theirs) this.#showBoth(error, theirs);
      else fill(this.#refused, h("p", {}, error.message, " ", h("code", { class: "mono small" }, error.code ?? "")));
      this.#refused.scrollIntoView({ block: "nearest" });
      return false;
    }
  }

  // Somebody changed it meanwhile: both versions, and a choice.
  #showBoth(error, theirs) {
    const mine = this.read();
    const other = { ...valuesOf(theirs), when: textOf(theirs), zone: theirs.schedule.tz ?? mine.zone };
    const show = (value) => (typeof value === "boolean" ? say(value ? "editor.yes" : "editor.no") : value || "–");
    const rows = Object.keys(other).filter((name) => other[name] !== mine[name]);
    const table = h("table", { class: "table both" }, h("thead", {}, h("tr", {}, h("th"), h("th", { scope: "col" }, say("editor.mine")), h("th", { scope: "col" }, say("editor.theirs")))), h("tbody", {}, rows.map((name) => h("tr", {}, h("th", { scope: "row" }, say(name === "when" ? "when.when" : name === "zone" ? "when.zone" : `editor.${name}`)), h("td", {}, show(mine[name])), h("td", {}, show(other[name]))))));
    const keep = () => {
      this.#sendsSchedule = JSON.stringify(theirs.schedule) !== JSON.stringify(this.#when.state.schedule ?? this.#job.schedule);
      this.#job = theirs;
      this.#button.click();
    };
    const take = () => this.#takeOver(theirs);
    fill(this.#refused, h("div", { class: "conflict" }, h("p", {}, error.message), rows.length ? table : null, h("div", { class: "line start" }, h("button", { type: "button", onclick: keep }, say("editor.keep_mine")), h("button", { type: "button", onclick: take }, say("editor.take_theirs")))));
  }

  #takeOver(job) {
    this.#job = job;
    this.#sendsSchedule = false;
    this.#when.close();
    const when = new When({ job, tell: () => this.#allow() });
    this.#when.node.replaceWith(when.node);
    this.#when = when;
    this.#write(valuesOf(job));
    this.#begun = JSON.stringify(this.read());
    fill(this.#refused);
    this.#allow();
  }
}
