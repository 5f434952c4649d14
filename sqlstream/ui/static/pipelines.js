// All pipelines.
import { get, live, whileShown } from "./api.js";
import { h, show, table } from "./dom.js";
import { amount, behind, bytes, duration, least, number, sum, time } from "./format.js";

export const pill = (state) => h("span", { class: `pill ${state}` }, state);

export const ago = (us) => (us ? `${duration(Math.max(0, Date.now() / 1000 - us / 1e6))} ago` : "–");

const COLUMNS = [
  { title: "Pipeline", cell: (p) => h("a", { href: `#/p/${encodeURIComponent(p.id)}` }, p.pipeline) },
  { title: "State", cell: (p) => [pill(p.state), p.doing ? h("div", { class: "quiet small" }, p.doing) : null] },
  { title: "Epoch", num: true, cell: (p) => number(p.epoch) },
  { title: "Rows/s", num: true, cell: (p) => (p.state === "running" ? amount(p.rows_per_second) : null) },
  { title: "Lag (rows)", num: true, cell: (p) => { const lag = sum(p.lag); return lag === null ? null : amount(lag); } },
  { title: "Watermark", cell: (p) => { const mark = least(p.watermarks); return mark === null ? null : [time(mark), h("div", { class: "quiet small" }, p.state === "running" ? behind(mark) : "")]; } },
  { title: "State size", num: true, cell: (p) => `${amount(p.state_rows)} rows, ${bytes(p.state_bytes)}` },
  { title: "Dead letters", num: true, cell: (p) => number(p.dead_letters) },
  { title: "Seen", cell: (p) => h("span", { class: "quiet" }, ago(p.updated_us)) },
];

export async function pipelinesView(main, crumbs, signal) {
  show(crumbs);
  document.title = "Pipelines · sqlstream";
  const first = await get("pipelines", signal);
  for (const one of first.pipelines) live.pipelines.set(one.id, one);
  const order = first.pipelines.map((p) => p.id);
  const filter = h("input", { type: "search", placeholder: "Filter by name or state", "aria-label": "Filter by name or state", on: { input: draw } });
  const list = h("div", { class: "card" });
  const count = h("span", { class: "quiet" });
  show(main, h("div", { class: "stack" }, h("div", { class: "row" }, h("h1", {}, "Pipelines"), count, h("span", { class: "grow" }), filter), list));

  function draw() {
    for (const id of live.pipelines.keys()) if (!order.includes(id)) order.push(id);
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = order.map((id) => live.pipelines.get(id)).filter(Boolean);
    const found = all.filter((p) => words.every((w) => `${p.pipeline} ${p.state} ${p.state_dir}`.toLowerCase().includes(w)));
    const running = all.filter((p) => p.state === "running").length;
    count.textContent = `${number(Math.max(all.length, first.total))} in all, ${running} running`;
    const focused = document.activeElement === filter;
    show(list, found.length ? table(null, COLUMNS, found, {
      name: "pipelines",
      row: (p) => ({ class: "link", "data-id": p.id, on: { click: (event) => { if (!event.target.closest("a")) location.hash = `#/p/${encodeURIComponent(p.id)}`; } } }),
    }) : h("p", { class: "quiet" }, all.length ? "No pipeline has these words." : "There are no pipelines here yet: a run makes a state directory."),
    found.filter((p) => p.problems.length && ["failed", "restarting", "damaged"].includes(p.state)).map((p) =>
      h("div", { class: "problem" }, h("p", {}, h("strong", {}, `${p.pipeline}: `), p.problems.map((d) => `${d.code} ${d.message}`).join("; ")))));
    if (focused) filter.focus();
  }
  draw();
  whileShown(signal, draw);
}
