// Exchange view: not written yet.
import { h } from "../h.js";
import { say } from "../words.js";

export function createPage(app) {
  return {
    topics: () => [],
    mount(main) {
      main.append(h("div", { class: "head" }, h("h1", {}, say("exchange.title"))));
    },
    update() {},
    leave() {},
  };
}
