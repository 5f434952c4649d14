// Epochs: plots over the last ones, a list, and one epoch in detail.
import { get, whileShown } from "./api.js";
import { h, show, showAgain, table } from "./dom.js";
import { amount, bytes, duration, number, time } from "./format.js";
import { linePlot } from "./plots.js";

const SPANS = [100, 500, 2000, 10000];
const STEPS = {
  plan: "planning", job: "tasks", prepare: "preparing sinks", publish: "writing the manifest", commit: "committing sinks", collect: "collecting old files",
};
const SPENT = {
  read: "reading", fragment: "DuckDB", encode: "encoding for the exchange", state: "state", close: "closing windows", write: "writing",
};

export async function epochsView(body, { id, query, signal, now }) {
  const span = Number(query.get("span")) || 500;
  const before = Number(query.get("before")) || 0;
  const href = (more) => `#/p/${encodeURIComponent(id)}/epochs?${new URLSearchParams({ span, ...more })}`;
  const open = (epoch) => { location.hash = `#/p/${encodeURIComponent(id)}/epochs/${epoch}`; };
  const titles = { time: "Seconds per epoch (of several in a point, the slowest)", rate: "Rows per second", lag: "Rows waiting", state: "Rows of state" };
  const canvas = Object.fromEntries(Object.keys(titles).map((key) => [key, h("div", { class: "plot" })]));
  const list = h("div", { class: "card stack" });
  show(body,
    h("div", { class: "row small" }, h("span", { class: "quiet" }, "The last"), SPANS.map((n) => h("a", { class: "button", href: href({ span: n }), "aria-current": n === span ? "true" : null }, n === span ? h("strong", {}, number(n)) : number(n))), h("span", { class: "quiet" }, "epochs; click a point to see what it spent its time on")),
    h("div", { class: "plots" }, Object.entries(titles).map(([key, title]) => h("section", { class: "card" }, h("h2", {}, title), canvas[key]))),
    list);

  async function draw() {
    const [s, page] = await Promise.all([get(`pipelines/${id}/series?epochs=${span}`, signal), get(`pipelines/${id}/epochs${before ? `?before=${before}` : ""}`, signal)]);
    if (signal.aborted) return;
    if (!s.epoch) {
      show(list, h("p", { class: "quiet" }, "No epoch was recorded yet."));
      return;
    }
    const pick = (n) => open(s.epoch[n]);
    linePlot(canvas.time, s.epoch, [{ label: "all", values: s.seconds, colour: "--blue", fill: true }, { label: "in tasks", values: s.job, colour: "--amber" }], pick);
    linePlot(canvas.rate, s.epoch, [{ label: "rows/s", values: s.rows_per_s, colour: "--green", fill: true }], pick);
    linePlot(canvas.lag, s.epoch, [{ label: "rows", values: s.lag, colour: "--red", fill: true }], pick);
    linePlot(canvas.state, s.epoch, [{ label: "rows", values: s.state_rows, colour: "--violet", fill: true }], pick);
    showAgain(list, table("Newest first", [
      { title: "Epoch", num: true, cell: (e) => h("a", { href: `#/p/${encodeURIComponent(id)}/epochs/${e.epoch}` }, number(e.epoch)) },
      { title: "Committed (UTC)", cell: (e) => time(Math.floor(e.at_us / 1000) * 1000) },
      { title: "Took", num: true, cell: (e) => duration(e.seconds) },
      { title: "Rows read", num: true, cell: (e) => number(e.rows_read) },
      { title: "Rows written", num: true, cell: (e) => number(e.rows_written) },
      { title: "Waiting", num: true, cell: (e) => (e.lag === null ? null : number(e.lag)) },
      { title: "Rows of state", num: true, cell: (e) => number(e.state_rows) },
      { title: "Dead letters", num: true, cell: (e) => number(e.dead_letters) },
      { title: "", cell: (e) => [e.edits ? h("span", { class: "pill ADAPT" }, "edit") : null, e.replayed ? h("span", { class: "pill" }, "replayed") : ""] },
    ], page.epochs, { name: "epochs" }),
    h("div", { class: "row" }, before ? h("a", { class: "button", href: href({}) }, "newest") : null, page.next ? h("a", { class: "button", href: href({ before: page.next }) }, "older") : null));
  }
  await draw();
  let seen = now().updated_us, last = Date.now();
  if (!before) whileShown(signal, () => { if (now().updated_us !== seen && Date.now() - last > 2500) { seen = now().updated_us; last = Date.now(); draw().catch(() => {}); } });
}

function meters(entries, unit) {
  const most = Math.max(...entries.map(([, v]) => v), 1e-9);
  return entries.map(([name, value]) => h("div", { class: "meter" }, h("span", {}, name), h("div", { class: "bar" }, h("span", { style: { width: `${100 * value / most}%` } })), h("span", { class: "num" }, duration(value / unit))));
}

const rowsOf = (map) => Object.entries(map);
const byName = ([a], [b]) => a.localeCompare(b, "en", { numeric: true });

export async function epochView(body, { id, rest, signal, now }) {
  const back = `#/p/${encodeURIComponent(id)}/epochs`;
  const last = now().epoch;
  const wanted = /^\d{1,15}$/.test(rest) ? Number(rest) : 0;
  const e = await get(`pipelines/${id}/epochs/${wanted}`, signal).catch((error) => { if (error.status === 404) return null; throw error; });
  if (!e) {
    show(body, h("div", { class: "card stack" }, h("p", {}, last === null ? "No epoch was committed yet." : last >= wanted && wanted > 0
      ? `Epoch ${number(wanted)} is not among those that were recorded: at least the last 10,000 are kept, and a run that was killed may leave its last ones out.`
      : `There is no epoch ${rest}: the last one is ${number(last)}.`), h("p", {}, h("a", { href: back }, "All epochs"))));
    return;
  }
  const slowest = Object.entries(e.steps).sort((a, b) => b[1] - a[1])[0];
  const where = slowest ? `${duration(slowest[1])} of ${duration(e.seconds)} went into ${STEPS[slowest[0]] || slowest[0]}` : "";
  show(body,
    h("div", { class: "row" }, h("a", { href: back }, "all epochs"), e.epoch > 1 ? h("a", { href: `${back}/${e.epoch - 1}` }, "previous") : null, last !== null && e.epoch < last ? h("a", { href: `${back}/${e.epoch + 1}` }, "next") : null, h("h2", {}, `Epoch ${number(e.epoch)}`), h("span", { class: "quiet small" }, `${time(e.at_us)} UTC, run ${e.run}`), e.edits ? h("span", { class: "pill ADAPT" }, "carried an edit out") : null),
    h("p", {}, where, "."),
    h("div", { class: "plots" },
      h("section", { class: "card" }, h("h2", {}, "Steps of the epoch"), meters(Object.entries(e.steps).map(([k, v]) => [STEPS[k] || k, v]), 1)),
      h("section", { class: "card" }, h("h2", {}, `What its tasks did (${number(e.task_count)} in all)`), Object.keys(e.task_us).length ? meters(Object.entries(e.task_us).map(([k, v]) => [SPENT[k] || k, v]), 1e6) : h("p", { class: "quiet" }, "No task ran.")),
      h("section", { class: "card" }, table("Sources", [
        { title: "Table", cell: (r) => r[0] }, { title: "Rows", num: true, cell: (r) => number(r[1]) },
        { title: "Waiting", num: true, cell: (r) => (e.lags[r[0]] === undefined || e.lags[r[0]] === null ? null : number(e.lags[r[0]])) }, { title: "Watermark (UTC)", cell: (r) => time(e.watermarks[r[0]]) },
      ], rowsOf({ ...Object.fromEntries(Object.keys(e.watermarks).map((k) => [k, 0])), ...e.read }))),
      h("section", { class: "card" }, table("Operators and sinks", [
        { title: "Name", cell: (r) => r[0] }, { title: "Rows that it gave", num: true, cell: (r) => number(r[1]) },
      ], [...rowsOf(e.made).sort(byName), ...rowsOf(e.written).sort(byName)]))),
    e.tasks.length ? h("section", { class: "card" }, table(`The ${e.tasks.length} slowest tasks`, [
      { title: "Task", cell: (t) => h("code", {}, t.task) }, { title: "Took", num: true, cell: (t) => duration(t.total_us / 1e6) },
      { title: "Rows in", num: true, cell: (t) => number(t.rows) }, { title: "Bytes in", num: true, cell: (t) => bytes(t.bytes) }, { title: "Sent on", num: true, cell: (t) => bytes(t.shipped) },
      { title: "Spent on", cell: (t) => Object.entries(t.us).sort((a, b) => b[1] - a[1]).slice(0, 3).map(([k, v]) => `${SPENT[k] || k} ${duration(v / 1e6)}`).join(", ") },
    ], e.tasks, { name: "tasks" })) : null,
    Object.keys(e.letters).length ? h("section", { class: "card" }, table("Dead letters", [{ title: "Kind", cell: (r) => r[0] }, { title: "Rows", num: true, cell: (r) => number(r[1]) }], rowsOf(e.letters))) : null);
}
