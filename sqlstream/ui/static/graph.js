// The plan as a graph: laid out by dagre, nodes are buttons, figures are live.
import { get, whileShown } from "./api.js";
import { h, show, sqlBlock, svg } from "./dom.js";
import { amount, bytes, number, rowsOf, time } from "./format.js";
import { rowsPanel } from "./state.js";

const WIDTH = 204;
// Below so many rows a skew says nothing.
const ROWS_OF_A_SKEW = 1000;
const KINDS = { source: "source", sink: "sink", operator: "operator", sql: "DuckDB", dimension: "lookup table" };

const isSkewed = (state) => state.skew && state.skew >= 1.5 && state.rows >= ROWS_OF_A_SKEW;

const lines = (node) => {
  const found = [];
  if (node.verdict) found.push(node.verdict);
  if (node.rows_per_s !== null && node.rows_per_s !== undefined) found.push(node.rows_per_s ? `${amount(node.rows_per_s)} rows/s` : node.rows === undefined || node.rows === null ? "" : `${rowsOf(node.rows)} in the last epoch`);
  if (node.lag) found.push(`${rowsOf(node.lag)} waiting`);
  if (node.state && node.state.rows !== undefined) found.push(`${rowsOf(node.state.rows)}, ${bytes(node.state.bytes)}${isSkewed(node.state) ? `, skew ${node.state.skew}` : ""}`);
  if (node.watermark !== undefined && node.watermark !== null) found.push(`up to ${time(node.watermark).slice(0, 19)}`);
  return found.filter(Boolean);
};

// Draws nodes and edges into `target`; `choose` is called with a node. Gives a function that updates the figures.
export function drawGraph(target, graph, choose, chosen) {
  const narrow = target.clientWidth < 640;
  const layout = new dagre.graphlib.Graph({ multigraph: true });
  layout.setGraph({ rankdir: narrow ? "TB" : "LR", nodesep: 22, ranksep: narrow ? 42 : 60, marginx: 18, marginy: 18 });
  layout.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) layout.setNode(node.id, { width: node.kind === "sql" ? 138 : WIDTH, height: node.kind === "sql" ? 46 : 100 });
  graph.edges.forEach((edge, n) => layout.setEdge(edge.from, edge.to, { width: edge.label ? 60 : 1, height: 16 }, String(n)));
  dagre.layout(layout);
  const { width, height } = layout.graph();
  const plane = h("div", { class: "plane", style: { width: `${width}px`, height: `${height}px` } });
  const edges = svg("svg", { width, height, "aria-hidden": "true" },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "arrow" }))));
  graph.edges.forEach((edge, n) => {
    const { points, x, y } = layout.edge({ v: edge.from, w: edge.to, name: String(n) });
    edges.append(svg("path", { class: `edge ${edge.kind}`, d: curve(points), "marker-end": "url(#arrow)" }));
    if (edge.label) edges.append(svg("text", { x, y: y - 5, "text-anchor": "middle" }, edge.label.length > 26 ? `${edge.label.slice(0, 25)}…` : edge.label));
  });
  plane.append(edges);
  const buttons = new Map();
  for (const node of graph.nodes) {
    const at = layout.node(node.id);
    const button = h("button", {
      type: "button", class: `node ${node.kind} ${node.verdict || ""}`, "data-node": node.id, "aria-pressed": node.id === chosen ? "true" : "false",
      style: { left: `${at.x - at.width / 2}px`, top: `${at.y - at.height / 2}px`, width: `${at.width}px`, height: `${at.height}px` },
      on: { click: () => { for (const other of buttons.values()) other.setAttribute("aria-pressed", "false"); button.setAttribute("aria-pressed", "true"); choose(node.id); } },
    });
    buttons.set(node.id, button);
    plane.append(button);
  }
  const update = (nodes) => {
    for (const node of nodes) {
      const button = buttons.get(node.id);
      if (button) show(button, h("div", { class: "kind" }, KINDS[node.kind] || node.kind), h("div", { class: "title" }, node.title),
        node.kind === "sql" ? null : lines(node).slice(0, 3).map((line) => h("div", { class: "figure" }, line)));
    }
  };
  update(graph.nodes);
  show(target, plane);
  const readable = Math.min(1, Math.max(0.6, (target.clientWidth - 4) / width));
  const all = Math.min(readable, (target.clientWidth - 4) / width, target.clientHeight / height);
  const zoom = (scale) => zoomed(target, plane, width, height, scale);
  zoom(target.zoomed ? Math.max(all, target.scale) : readable);
  // What is larger than its frame begins with its sources, and can be seen as a whole.
  const first = graph.nodes.find((n) => n.kind === "source");
  if (first && !target.zoomed) {
    const at = layout.node(first.id);
    target.scrollTop = at.y * readable - target.clientHeight / 2;
    target.scrollLeft = (at.x - at.width / 2) * readable - (narrow ? target.clientWidth / 3 : 20);
  }
  zoomButtons(target, width * readable > target.clientWidth + 40 || height * readable > target.clientHeight + 40, { zoom, all, readable });
  return update;
}

// Scales around the middle of what is seen.
function zoomed(target, plane, width, height, scale) {
  const before = target.scale || scale;
  const x = (target.scrollLeft + target.clientWidth / 2) / before, y = (target.scrollTop + target.clientHeight / 2) / before;
  target.scale = scale;
  plane.style.transform = `scale(${scale})`;
  plane.style.marginBottom = `${height * (scale - 1)}px`;
  plane.style.marginRight = `${width * (scale - 1)}px`;
  target.scrollLeft = x * scale - target.clientWidth / 2;
  target.scrollTop = y * scale - target.clientHeight / 2;
}

function zoomButtons(target, large, { zoom, all, readable }) {
  if (target.buttons) target.buttons.remove();
  target.buttons = null;
  if (!large) return;
  const to = (scale) => { target.zoomed = true; zoom(Math.min(2, Math.max(all, scale))); };
  const button = (text, label, scale) => h("button", { type: "button", "aria-label": label, title: label, on: { click: () => to(scale()) } }, text);
  target.buttons = h("div", { class: "row zoom", role: "group", "aria-label": "Size of the graph" },
    button("−", "Smaller", () => target.scale / 1.3), button("+", "Larger", () => target.scale * 1.3),
    button("whole", "The whole graph", () => all), button("readable", "As large as can be read", () => readable));
  target.before(target.buttons);
}

function curve(points) {
  const [first, ...rest] = points;
  let d = `M${first.x} ${first.y}`;
  for (let n = 0; n < rest.length - 1; n++) {
    const next = rest[n + 1], mid = n === rest.length - 2 ? next : { x: (rest[n].x + next.x) / 2, y: (rest[n].y + next.y) / 2 };
    d += `Q${rest[n].x} ${rest[n].y} ${mid.x} ${mid.y}`;
  }
  return rest.length === 1 ? `${d}L${rest[0].x} ${rest[0].y}` : d;
}

export async function graphView(body, { id, signal, now }) {
  let graph = await get(`pipelines/${id}/graph`, signal);
  if (!graph.nodes.length) {
    show(body, h("div", { class: "card" }, h("p", { class: "quiet" }, "Nothing was committed yet: the graph is shown after the first epoch, once ", h("code", {}, "sqlstream run"), " has begun.")));
    return;
  }
  const [source, relations] = await Promise.all([get(`pipelines/${id}/source`, signal), get(`pipelines/${id}/relations`, signal)]);
  if (graph.epoch === null && relations.length) graph = await get(`pipelines/${id}/graph`, signal); // the first epoch came between
  const target = h("div", { class: "graph" });
  const panel = h("aside", { class: "card", "aria-label": "The chosen part of the plan" });
  let chosen = (graph.nodes.find((n) => n.kind === "operator") || graph.nodes[0]).id;
  show(body,
    h("div", { class: "legend" }, h("span", {}, h("i", {}), "within a task"), h("span", {}, h("i", { class: "exchange" }), "exchange between tasks, by key"),
      graph.nodes.some((n) => n.kind === "dimension") ? h("span", {}, h("i", { class: "lookup" }), "lookup") : null,
      graph.parallelism === null ? h("span", {}, "nothing was committed yet") : h("span", {}, `${number(graph.parallelism)} shard${graph.parallelism === 1 ? "" : "s"}`)),
    h("div", { class: "split" }, h("div", {}, target), panel));
  const choose = (node) => { chosen = node; nodePanel(panel, graph.nodes.find((n) => n.id === node), source, relations, id); };
  let update = drawGraph(target, graph, choose, chosen);
  choose(chosen);
  let shape = JSON.stringify(graph.nodes.map((n) => [n.id, n.title])), seen = graph.epoch, last = 0;
  whileShown(signal, async () => {
    const p = now();
    if (p.epoch === seen || Date.now() - last < 1500) return;
    last = Date.now();
    seen = p.epoch;
    const next = await get(`pipelines/${id}/graph`, signal).catch(() => null);
    if (!next || signal.aborted) return;
    graph = next;
    const other = JSON.stringify(graph.nodes.map((n) => [n.id, n.title]));
    if (other !== shape) { shape = other; update = drawGraph(target, graph, choose, chosen); } else update(graph.nodes);
    const facts = panel.querySelector("[data-figures]");
    const node = graph.nodes.find((n) => n.id === chosen);
    if (facts && node) facts.replaceWith(nodeFigures(node));
  });
  signal.addEventListener("abort", () => observer.disconnect());
  let wide = target.clientWidth;
  const observer = new ResizeObserver(() => { if (Math.abs(target.clientWidth - wide) > 40) { wide = target.clientWidth; update = drawGraph(target, graph, choose, chosen); } });
  observer.observe(target);
  return graph.epoch;
}

function nodeFigures(node) {
  const pairs = [];
  const add = (title, value) => pairs.push(h("dt", {}, title), h("dd", {}, value));
  if (node.stage) add("stage", `${node.stage} (level ${node.level})`);
  if (node.rows_per_s !== null && node.rows_per_s !== undefined) add("rows/s", amount(node.rows_per_s));
  if (node.rows !== null && node.rows !== undefined) add("last epoch", rowsOf(node.rows, number(node.rows)));
  if (node.rows_read !== null && node.rows_read !== undefined) add("read in all", rowsOf(node.rows_read, number(node.rows_read)));
  if (node.lag !== null && node.lag !== undefined) add("waiting", rowsOf(node.lag, number(node.lag)));
  if (node.watermark !== undefined) add("watermark", `${time(node.watermark)}${typeof node.watermark === "number" ? " UTC" : ""}`);
  if (node.epoch) add("committed", `up to epoch ${number(node.epoch)}`);
  const state = node.state && node.state.rows !== undefined ? node.state : null;
  if (state) add("state", `${rowsOf(state.rows, number(state.rows))}, ${bytes(state.bytes)}`);
  if (state && isSkewed(state)) add("skew", `the largest of ${state.shards.length} shards has ${state.skew} times the mean`);
  const most = state ? Math.max(1, ...state.shards.map((s) => s.rows)) : 1;
  return h("div", { "data-figures": true },
    h("dl", { class: "pairs" }, pairs),
    state && state.shards.length > 1 ? h("div", { class: "bars", role: "img", "aria-label": `rows by shard: ${state.shards.map((s) => s.rows).join(", ")}` },
      state.shards.slice(0, 128).map((s) => h("span", { style: { height: `${Math.max(3, 100 * s.rows / most)}%` }, title: rowsOf(s.rows, number(s.rows)) }))) : null);
}

function nodePanel(panel, node, source, relations, id) {
  const own = relations.filter((r) => r.node === node.id);
  const at = node.clause;
  const rows = h("div", {});
  show(panel, h("div", { class: "stack" },
    h("div", {}, h("div", { class: "kind quiet small" }, KINDS[node.kind] || node.kind), h("h2", {}, node.title), h("div", { class: "quiet small mono" }, node.detail)),
    nodeFigures(node),
    at ? h("div", {}, h("h3", {}, `From line ${at.line} of the file`), sqlBlock(source.text, [at], { from: at.line - 2, to: at.line + 4 })) : null,
    node.lines.length ? h("details", { open: node.kind !== "sql" }, h("summary", {}, "What it does"), node.lines.map((line) => h("div", { class: "small mono" }, line))) : null,
    node.sql.length ? h("details", {}, h("summary", {}, "SQL that runs in DuckDB"), h("pre", { class: "sql" }, node.sql.join("\n\n"))) : null,
    own.length ? h("div", {}, h("h3", {}, "Its state"), h("div", { class: "row" }, own.map((r) => h("button", { type: "button", "data-relation": r.name, on: { click: () => rowsPanel(rows, id, r) } }, `${r.name} (${r.kind})`))), rows) : null));
}
