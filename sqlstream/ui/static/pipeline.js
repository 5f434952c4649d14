// One pipeline: its figures, and a view for each tab.
import { get, live, whileShown } from "./api.js";
import { h, problems, show } from "./dom.js";
import { editView } from "./edit.js";
import { epochView, epochsView } from "./epochs.js";
import { amount, behind, bytes, least, number, sum, time } from "./format.js";
import { graphView } from "./graph.js";
import { lettersView } from "./letters.js";
import { ago, pill } from "./pipelines.js";
import { savepointsView } from "./savepoints.js";
import { sourceView } from "./source.js";
import { stateView } from "./state.js";

const TABS = [
  ["graph", "Graph", graphView],
  ["epochs", "Epochs", epochsView],
  ["state", "State", stateView],
  ["letters", "Dead letters", lettersView],
  ["savepoints", "Savepoints", savepointsView],
  ["file", "File", sourceView],
  ["edit", "Try an edit", editView],
];

export async function pipelineView(main, crumbs, id, tab, rest, query, signal) {
  if (!live.pipelines.has(id)) live.pipelines.set(id, await get(`pipelines/${id}`, signal));
  const name = live.pipelines.get(id).pipeline;
  const title = (TABS.find(([key]) => key === tab) || TABS[0])[1];
  document.title = `${tab === "epochs" && rest ? `Epoch ${rest}` : title} · ${name} · sqlstream`;
  show(crumbs, h("a", { href: "#/" }, "pipelines"), " / ", name);
  const head = h("div", { class: "stack" });
  const body = h("div", { class: "stack", id: "view" });
  const tabs = h("nav", { class: "tabs", "aria-label": "Views" }, TABS.map(([key, title]) =>
    h("a", { href: `#/p/${encodeURIComponent(id)}/${key}`, "aria-current": key === tab ? "page" : null }, title)));
  const now = () => live.pipelines.get(id) || last;
  let last = now(), said = "";
  show(main, h("div", { class: "stack" }, head, tabs, body));
  // Drawn where something has changed: what is read aloud, or selected, is left in peace.
  const draw = () => {
    const gone = !live.pipelines.has(id);
    last = now();
    const seen = last.run ? `process ${last.run.pid} on ${last.run.host}, seen ${ago(last.updated_us)}` : "";
    const text = JSON.stringify([{ ...last, updated_us: 0 }, gone, last.state === "running" ? behind(least(last.watermarks)) : ""]);
    if (text !== said) show(head, ...header(last, gone));
    said = text;
    head.querySelector("[data-seen]").textContent = seen;
  };
  draw();
  whileShown(signal, draw);
  const clock = setInterval(draw, 5000);
  signal.addEventListener("abort", () => clearInterval(clock));
  const view = tab === "epochs" && rest ? epochView : (TABS.find(([key]) => key === tab) || TABS[0])[2];
  tabs.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  // What has nothing to show before the first epoch is drawn again when that is there: once it is drawn, not meanwhile, and
  // not where it had the epoch before the list of pipelines did.
  const before = now().epoch, drawView = () => view(body, { id, rest, query, signal, now });
  let drawn = await drawView() ?? before;
  if (signal.aborted) return;
  const again = () => { if (drawn === null && now().epoch !== null) { drawn = now().epoch; drawView(); } };
  again();
  whileShown(signal, again);
}

function header(p, gone) {
  const mark = least(p.watermarks);
  const facts = [
    ["rows/s", p.state === "running" ? amount(p.rows_per_second) : "–"],
    ["rows waiting", (() => { const lag = sum(p.lag); return lag === null ? "–" : amount(lag); })()],
    [["watermark (UTC)", p.state === "running" && mark !== null ? behind(mark) : ""].filter(Boolean).join(", "), time(mark)],
    ["last epoch", number(p.epoch)],
    ["rows of state", `${amount(p.state_rows)}`],
    ["state", bytes(p.state_bytes)],
    ["dead letters", number(p.dead_letters)],
  ];
  const failed = p.problems.length > 0 && p.state !== "running";
  return [
    h("div", { class: "row" }, h("h1", {}, p.pipeline), pill(p.state), p.restarts ? h("span", { class: "quiet small" }, `attempt ${p.restarts}`) : null,
      p.doing ? h("span", { class: "quiet small" }, p.doing) : null, h("span", { class: "grow" }),
      h("span", { class: "quiet small", "data-seen": true })),
    gone ? h("p", { class: "problem warning", role: "alert" }, "The state directory is not there any more: the figures are the last ones that were seen.") : null,
    failed ? h("div", { class: "stack" }, problems(p.problems)) : null,
    h("div", { class: "facts" }, facts.map(([title, value]) => h("div", { class: "fact", "data-fact": title.split(/,| \(/)[0] }, h("b", {}, value), h("span", {}, title)))),
    h("div", { class: "quiet small mono path" }, p.state_dir),
  ].filter(Boolean);
}
