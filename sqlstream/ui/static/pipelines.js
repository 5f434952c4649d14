// All pipelines.
import { getPipelines, live, whileShown } from "./api.js";
import { h, show, showAgain, table } from "./dom.js";
import { amount, behind, bytes, duration, least, number, rowsOf, sum, time } from "./format.js";

export const pill = (state) => h("span", { class: `pill ${state}` }, state);

export const ago = (us) => (us ? `${duration(Math.max(0, Math.round(Date.now() / 1000 - us / 1e6)))} ago`.replace("0 µs ago", "now") : "–");

// How many rows are drawn at once; which states are shown first where not all are.
const DRAWN = 100;
const TROUBLE = ["failed", "damaged", "killed", "restarting"];
const trouble = (p) => (TROUBLE.includes(p.state) ? 0 : 1);

const columns = (twice) => [
  { title: "Pipeline", class: "name", cell: (p) => [h("a", { href: `#/p/${encodeURIComponent(p.id)}` }, p.pipeline), twice.has(p.pipeline) ? h("div", { class: "quiet small" }, p.state_dir) : null] },
  { title: "State", cell: (p) => [pill(p.state), p.doing ? h("div", { class: "quiet small" }, p.doing) : null] },
  { title: "Epoch", num: true, cell: (p) => number(p.epoch) },
  { title: "Rows/s", num: true, cell: (p) => (p.state === "running" ? amount(p.rows_per_second) : null) },
  { title: "Lag (rows)", num: true, cell: (p) => { const lag = sum(p.lag); return lag === null ? null : amount(lag); } },
  { title: "Watermark (UTC)", cell: (p) => { const mark = least(p.watermarks); return mark === null ? null : [time(mark), h("div", { class: "quiet small" }, p.state === "running" ? behind(mark) : "")]; } },
  { title: "State size", num: true, cell: (p) => (p.state_rows === null ? null : `${rowsOf(p.state_rows)}, ${bytes(p.state_bytes)}`) },
  { title: "Dead letters", num: true, cell: (p) => number(p.dead_letters) },
  { title: "Seen", cell: (p) => h("span", { class: "quiet" }, ago(p.updated_us)) },
];

export async function pipelinesView(main, crumbs, signal) {
  show(crumbs);
  document.title = "Pipelines · sqlstream";
  await getPipelines(signal);
  let most = DRAWN;
  const filter = h("input", { type: "search", placeholder: "Filter by name or state", "aria-label": "Filter by name or state", on: { input: draw } });
  const list = h("div", { class: "card stack" });
  const count = h("span", { class: "quiet" });
  show(main, h("div", { class: "stack" }, h("div", { class: "row" }, h("h1", {}, "Pipelines"), count, h("span", { class: "grow" }), filter), list));

  function draw() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...live.pipelines.values()];
    const found = all.filter((p) => words.every((w) => `${p.pipeline} ${p.state} ${p.state_dir}`.toLowerCase().includes(w)));
    const running = all.filter((p) => p.state === "running").length;
    const bad = all.filter((p) => !trouble(p)).length;
    count.textContent = `${number(all.length)} in all, ${number(running)} running${bad ? `, ${number(bad)} in trouble` : ""}`;
    const names = new Map();
    for (const p of found) names.set(p.pipeline, (names.get(p.pipeline) || 0) + 1);
    const drawn = found.length > most ? [...found].sort((a, b) => trouble(a) - trouble(b)).slice(0, most) : found;
    const more = found.length - drawn.length;
    const wrong = drawn.filter((p) => p.problems.length && ["failed", "restarting", "damaged"].includes(p.state));
    showAgain(list, found.length ? table(null, columns(new Set([...names].filter(([, n]) => n > 1).map(([name]) => name))), drawn, {
      name: "pipelines", cards: true,
      row: (p) => ({ class: "link", "data-id": p.id, on: { click: (event) => { if (!event.target.closest("a")) location.hash = `#/p/${encodeURIComponent(p.id)}`; } } }),
    }) : h("p", { class: "quiet" }, all.length ? "No pipeline has these words." : ["There are no pipelines here yet. ", h("code", {}, "sqlstream run FILE"), " makes a state directory, and its pipeline is shown here from then on."]),
    more > 0 ? h("div", { class: "row" }, h("span", { class: "quiet small" }, `${number(drawn.length)} of ${number(found.length)}, those in trouble first`),
      h("button", { type: "button", "aria-label": "Show more pipelines", on: { click: () => { most += DRAWN; draw(); } } }, `Show ${number(Math.min(DRAWN, more))} more`)) : null,
    wrong.map((p) => h("div", { class: "problem" }, h("p", {}, h("a", { href: `#/p/${encodeURIComponent(p.id)}`, "aria-label": `${p.pipeline}: what is wrong` }, h("strong", {}, `${p.pipeline}:`)), ` ${p.problems.map((d) => `${d.code} ${d.message}`).join("; ")}`),
      p.problems.map((d) => (d.help ? h("p", { class: "small" }, "help: ", d.help) : null)))));
  }
  draw();
  whileShown(signal, draw);
  // "3 s ago" grows while nothing else happens.
  const clock = setInterval(draw, 10000);
  signal.addEventListener("abort", () => clearInterval(clock));
}
