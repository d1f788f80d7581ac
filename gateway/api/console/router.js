// Addresses ↔ pages. The whole view stands in the address: /console/jobs?state=failing&id=job_…
const ROOT = "/console/";
export const PAGES = ["live", "exchange", "chat", "sessions", "session", "tools", "jobs", "job", "health"];

/** The page and query of the present address; an unknown one is Live. */
export function readAddress() {
  const name = location.pathname.slice(ROOT.length).replace(/\/$/, "");
  return { page: PAGES.includes(name) ? name : "live", query: new URLSearchParams(location.search) };
}

/** The address of a page; members of the query that are null or "" are left out. */
export function href(page, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return `${ROOT}${page}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
}

/** The address of a session's page; another owner's needs the owner, too. */
export const sessionHref = ({ sessionId, owner }, me) => href("session", { id: sessionId, owner: owner === me.owner ? "" : owner });

let whenMoved = () => {};

/** Says whom to tell when the address changed, and takes over clicks on links of the console. */
export function startRouter(tell) {
  whenMoved = tell;
  addEventListener("popstate", () => tell());
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.(`a[href^="${ROOT}"]`);
    if (!link || event.defaultPrevented || event.button !== 0 || isForNewTab(event)) return;
    event.preventDefault();
    move(link.getAttribute("href"));
  });
}

const isForNewTab = (event) => event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;

/** Opens a page, as a click on its link would. */
export const go = (page, query) => move(href(page, query));

/** Changes members of the query of this page; `replace` leaves no step to go back to. */
export function setQuery(members, { replace = true } = {}) {
  const { page, query } = readAddress();
  move(href(page, { ...Object.fromEntries(query), ...members }), replace);
}

function move(address, replace = false) {
  if (address === location.pathname + location.search) return;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  whenMoved();
}
