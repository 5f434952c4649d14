// The dashboard: which view an address after # shows.
import { Refused, get, getPipelines, listen, post } from "./api.js";
import { focused, h, refusal, refocus, show } from "./dom.js";
import { pipelineView } from "./pipeline.js";
import { pipelinesView } from "./pipelines.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
let leave = null, failed = false;

async function route() {
  const place = focused(main), before = document.getElementById("view");
  if (leave) leave.abort();
  failed = false;
  leave = new AbortController();
  const { signal } = leave;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  try {
    const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
    if (parts[0] === "p" && parts[1]) await pipelineView(main, crumbs, parts[1], parts[2] || "graph", parts[3], new URLSearchParams(query), signal);
    else await pipelinesView(main, crumbs, signal);
    refocus(main, place);
  } catch (error) {
    if (signal.aborted) return;
    failed = true;
    if (error instanceof Refused && error.status === 401) login();
    else {
      const now = document.getElementById("view"), view = now === before ? null : now; // the header and the tabs stay
      show(view || main, h("div", { class: "card stack" }, h(view ? "h2" : "h1", {}, "This can't be shown"), refusal(error),
        view ? null : h("p", {}, h("a", { href: "#/" }, "All pipelines"))));
      if (!view) document.title = "Can't be shown · sqlstream";
    }
  }
}

function login(wrong) {
  const field = h("input", { type: "password", id: "token", class: "fill", autocomplete: "off" });
  show(crumbs);
  show(main, h("form", { class: "card stack login", on: { submit: (event) => { event.preventDefault(); enter(field.value); } } },
    h("h1", {}, "Token"),
    h("label", { for: "token" }, "The dashboard printed it when it started."),
    field,
    wrong ? h("p", { class: "problem", role: "alert" }, "This is not the token.") : null,
    h("button", { class: "primary", type: "submit" }, "Open")));
  field.focus();
}

async function enter(token) {
  try {
    await post("login", { token });
  } catch {
    login(true);
    return;
  }
  start();
}

function start() {
  const status = document.getElementById("live");
  let lost = false;
  listen((text, state) => {
    if (status.textContent !== text) status.textContent = text;
    status.className = `live ${state}`;
    if (state === "on" && (lost && failed)) route();
    // A dashboard that was started anew may have another token.
    if (state === "off" && !lost) get("pipelines").catch((error) => { if (error instanceof Refused && error.status === 401) login(); });
    lost = state === "off";
  });
  route();
}

document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", dark ? "light" : "dark");
  window.dispatchEvent(new Event("theme"));
});
window.addEventListener("hashchange", route);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("theme")));

// A token comes behind #, which no browser sends; it leaves the address at once.
const given = /^#token=(.+)$/.exec(location.hash);
if (given) {
  history.replaceState(null, "", location.pathname);
  enter(decodeURIComponent(given[1]));
} else {
  getPipelines().then(start).catch((error) => (error instanceof Refused && error.status === 401 ? login() : start()));
}
