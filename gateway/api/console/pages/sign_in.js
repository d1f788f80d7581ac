// Sign in: one field for the key. The answer sets a cookie; the key is not kept by the page.
import { post } from "../api.js";
import { makeBrand } from "../frame.js";
import { h, setText } from "../h.js";
import { writeSetting } from "../settings.js";
import { currentLanguage, LANGUAGES, loadWords, say } from "../words.js";

export function createPage(app) {
  return { mount: (main) => drawForm(app, main), update() {}, leave() {} };
}

function drawForm(app, main) {
  const key = h("input", {
    id: "key",
    type: "password",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "refused",
  });
  const refused = h("p", { id: "refused", class: "refused", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, say("sign_in.sign_in"));
  const submit = async (event) => {
    event.preventDefault();
    button.disabled = true;
    setText(refused, "");
    try {
      const { owner } = await post("/api/console/login", { key: key.value });
      // What another owner said and saw in this tab goes with the page.
      if (app.me && app.me.owner !== owner) location.reload();
      else await app.join();
    } catch (error) {
      setText(refused, error.message);
      key.focus();
    }
    button.disabled = false;
  };
  document.title = `${say("sign_in.title")} · Holdgate`;
  main.className = "sign-in";
  main.replaceChildren(
    h(
      "form",
      { class: "panel pad", onsubmit: submit },
      makeBrand(),
      h("h1", {}, say("sign_in.title")),
      h("p", { class: "muted" }, say("sign_in.why")),
      h("label", { for: "key" }, say("sign_in.key")),
      key,
      refused,
      button,
      makeLanguage(app, main),
    ),
  );
  key.focus();
}

function makeLanguage(app, main) {
  const other = currentLanguage() === "en" ? "zh" : "en";
  const change = async () => {
    writeSetting("language", other);
    await loadWords(other);
    drawForm(app, main);
  };
  return h(
    "button",
    { type: "button", class: "link", lang: other === "zh" ? "zh-CN" : "en", onclick: change },
    LANGUAGES[other],
  );
}
