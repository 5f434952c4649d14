// The dashboard: which view an address after # shows.
import { Refused, get, listen, live, post } from "./api.js";
import { h, problems, show } from "./dom.js";
import { pipelineView } from "./pipeline.js";
import { pipelinesView } from "./pipelines.js";

const main = document.getElementById("main");
const crumbs = document.getElementById("crumbs");
let leave = null;

async function route() {
  if (leave) leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  try {
    if (parts[0] === "p" && parts[1]) await pipelineView(main, crumbs, parts[1], parts[2] || "graph", parts[3], new URLSearchParams(query), signal);
    else await pipelinesView(main, crumbs, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Refused && error.status === 401) login();
    else show(main, h("div", { class: "card stack" }, h("h1", {}, "This can't be shown"),
      error instanceof Refused && error.diagnostics.length ? problems(error.diagnostics) : h("p", {}, String(error.message || error)),
      h("p", {}, h("a", { href: "#/" }, "All pipelines"))));
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
  listen((text, state) => { status.textContent = text; status.className = `live ${state}`; });
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
  get("pipelines").then(({ pipelines }) => {
    for (const one of pipelines) live.pipelines.set(one.id, one);
    start();
  }).catch((error) => (error instanceof Refused && error.status === 401 ? login() : start()));
}
