// State as relations: SQL over it, rows as a table and as a plot.
import { Refused, get, post } from "./api.js";
import { h, problems, show, table } from "./dom.js";
import { number } from "./format.js";
import { barPlot } from "./plots.js";

const quoted = (name) => name.split(".").map((part) => (/^[a-z_][a-z0-9_]*$/.test(part) ? part : `"${part.replaceAll('"', '""')}"`)).join(".");

export const lookAt = (relation) => `SELECT * FROM ${quoted(relation.name)} LIMIT 100`;

async function run(target, id, sql) {
  show(target, h("p", { class: "quiet", role: "status" }, "reading …"));
  try {
    const found = await post(`pipelines/${id}/query`, { sql });
    show(target, result(found));
  } catch (error) {
    show(target, error instanceof Refused && error.diagnostics.length ? problems(error.diagnostics) : h("p", { class: "problem" }, error.message));
  }
}

function result(found) {
  const isNumber = found.columns.map((_, n) => found.rows.length > 0 && found.rows.every((row) => row[n] === null || (row[n] !== "" && !Number.isNaN(Number(row[n])))));
  const plot = h("div", {});
  const columns = found.columns.map((title, n) => ({ title, num: isNumber[n], nulls: true, class: "cell", cell: (row) => row[n], full: (row) => row[n] }));
  const made = h("div", { class: "stack" },
    table(`${number(found.rows.length)} row${found.rows.length === 1 ? "" : "s"}${found.more ? ", and more" : ""}, as of epoch ${number(found.epoch)}`, columns, found.rows, { name: "rows", tall: true }),
    plot);
  const numeric = found.columns.map((name, n) => [name, n]).filter(([, n]) => isNumber[n] && found.rows.some((row) => row[n] !== null));
  if (found.rows.length > 1 && numeric.length) {
    const value = h("select", { id: "plot-value", on: { change: draw } }, numeric.map(([name, n], at) => h("option", { value: n, selected: at === numeric.length - 1 }, name)));
    const label = h("select", { id: "plot-label", on: { change: draw } }, found.columns.map((name, n) => h("option", { value: n }, name)));
    const canvas = h("div", { class: "plot" });
    plot.append(h("div", { class: "row small" }, h("label", { for: "plot-value" }, "Plot"), value, h("label", { for: "plot-label" }, "by"), label), canvas);
    function draw() {
      const of = found.rows.filter((row) => row[value.value] !== null).slice(0, 200);
      barPlot(canvas, of.map((row) => row[label.value] ?? "NULL"), of.map((row) => Number(row[value.value])), found.columns[value.value]);
    }
    requestAnimationFrame(draw);
  }
  return made;
}

// A look at a relation's rows, in the panel of a node.
export function rowsPanel(target, id, relation) {
  const rows = h("div", {});
  show(target, h("h3", {}, relation.name), h("div", { class: "small quiet" }, relation.columns.map((c) => `${c.name} ${c.type}`).join(", ")), rows,
    h("a", { class: "small", href: `#/p/${encodeURIComponent(id)}/state?sql=${encodeURIComponent(lookAt(relation))}` }, "SQL over it"));
  run(rows, id, lookAt(relation));
}

export async function stateView(body, { id, query, signal }) {
  const relations = await get(`pipelines/${id}/relations`, signal);
  if (!relations.length) {
    show(body, h("div", { class: "card" }, h("p", { class: "quiet" }, "No operator of this query keeps state: every row is done with when its epoch is.")));
    return;
  }
  const rows = h("div", {});
  const text = h("textarea", { rows: 5, spellcheck: "false", "aria-label": "SQL over the state" });
  text.value = query.get("sql") || lookAt(relations[0]);
  const go = () => run(rows, id, text.value);
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go(); });
  show(body, h("div", { class: "split" },
    h("div", { class: "card stack" }, h("h2", {}, "SQL over the state"), text,
      h("div", { class: "row" }, h("button", { class: "primary", type: "button", on: { click: go } }, "Run"), h("span", { class: "quiet small" }, "Ctrl-Enter; read-only, the first 1,000 rows")), rows),
    h("aside", { class: "card stack", "aria-label": "Relations" }, h("h2", {}, "Relations"),
      relations.map((r) => h("details", {}, h("summary", {}, h("span", { class: "mono" }, r.name), " ", h("span", { class: "quiet small" }, r.kind)),
        h("p", {}, h("button", { type: "button", on: { click: () => { text.value = lookAt(r); go(); } } }, "look at it")),
        r.columns.map((c) => h("div", { class: "small" }, h("code", {}, `${c.name} ${c.type}`), c.meaning ? h("span", { class: "quiet" }, ` ${c.meaning}`) : null, r.key.includes(c.name) ? h("span", { class: "pill" }, "key") : null)))))));
  if (query.get("sql")) go();
}
