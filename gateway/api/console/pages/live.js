// Live page: not written yet.
import { h } from "../h.js";
import { say } from "../words.js";

export function createPage(app) {
  return {
    topics: () => ["live"],
    mount(main) {
      main.append(h("div", { class: "head" }, h("h1", {}, say("live.title"))));
    },
    update() {},
    leave() {},
  };
}
