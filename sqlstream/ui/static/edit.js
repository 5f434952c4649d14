// What an edited text would do: the plan of the edit, on the graph. Nothing is carried out.
import { Refused, get, post } from "./api.js";
import { h, problems, show, sqlBlock, table } from "./dom.js";
import { drawGraph } from "./graph.js";
import { amount, bytes } from "./format.js";

export async function editView(body, { id, signal }) {
  const source = await get(`pipelines/${id}/source`, signal);
  const key = `edit:${id}`;
  const text = h("textarea", { rows: Math.min(34, Math.max(12, source.text.split("\n").length + 1)), spellcheck: "false", id: "edited", "aria-label": "The edited SQL" });
  text.value = sessionStorage.getItem(key) || source.text;
  const out = h("div", { class: "stack", role: "region", "aria-label": "The plan of the edit", "aria-live": "polite" });
  const button = h("button", { class: "primary", type: "button", on: { click: plan } }, "Show the plan");
  text.addEventListener("input", () => sessionStorage.setItem(key, text.value));
  text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) plan(); });
  const drop = h("div", { class: "card stack", on: {
    dragover: (event) => event.preventDefault(),
    drop: async (event) => { event.preventDefault(); const [file] = event.dataTransfer.files; if (file) { text.value = await file.text(); plan(); } },
  } },
  h("p", { class: "quiet small" }, "Change the text, or drop an edited file here. The plan is shown and never carried out: run the edited file to do so. It is the text after templating, with stars for passwords."),
  text,
  h("div", { class: "row" }, button,
    h("label", { class: "button", for: "file" }, "Open a file"), h("input", { id: "file", type: "file", accept: ".sql,text/plain", class: "skip", on: { change: async (event) => { const [file] = event.target.files; if (file) { text.value = await file.text(); plan(); } } } }),
    h("button", { type: "button", on: { click: () => { text.value = source.text; sessionStorage.removeItem(key); show(out); } } }, "As it runs now"),
    h("span", { class: "quiet small" }, "Ctrl-Enter")));
  show(body, drop, out);

  async function plan() {
    button.disabled = true;
    show(out, h("p", { class: "quiet" }, "planning …"));
    try {
      const found = await post(`pipelines/${id}/plan`, { text: text.value });
      if (!signal.aborted) show(out, ...answer(found, text.value, id));
      const target = out.querySelector(".graph");
      out.scrollIntoView({ block: "start" });
      if (target) drawGraph(target, found, (node) => out.querySelector(`[data-state="${CSS.escape(node)}"]`)?.scrollIntoView({ block: "nearest" }), "");
    } catch (error) {
      show(out, error instanceof Refused && error.diagnostics.length ? problems(error.diagnostics) : h("p", { class: "problem" }, error.message));
    } finally {
      button.disabled = false;
    }
  }
}

function answer(found, text) {
  const marks = found.diagnostics.filter((d) => d.span).map((d) => ({ ...d.span, kind: d.severity, title: d.message }));
  const around = marks.length ? [sqlBlock(text, marks, { from: Math.min(...marks.map((m) => m.line)) - 2, to: Math.min(...marks.map((m) => m.line)) + 3 })] : [];
  if (!found.ok) return [h("div", { class: "card stack" }, h("h2", {}, "This can't be planned"), problems(found.diagnostics), around)];
  const { plan } = found;
  const against = plan.against;
  const changed = plan.states.flatMap((s) => s.fields.map((f) => ({ ...f, state: s })));
  return [
    h("div", { class: "card stack", id: "verdict" },
      h("h2", {}, plan.summary),
      against ? h("p", { class: "quiet small" }, `against epoch ${against.epoch}: ${amount(against.rows)} rows of state, ${bytes(against.bytes)}`) : null,
      problems([...plan.problems, ...found.diagnostics]),
      plan.consents.map((c) => h("p", { class: "problem warning" }, `Consent is needed: ${c.why.message}. To agree, run it with `, h("code", {}, `--accept ${c.accept}`))),
      plan.notes.map((note) => h("p", { class: "small" }, note))),
    h("div", { class: "legend" }, ["KEEP", "ADAPT", "BACKFILL", "FRESH", "DROP"].map((v) => h("span", {}, h("span", { class: `pill ${v}` }, v)))),
    h("div", { class: "graph" }),
    plan.states.length ? h("div", { class: "card stack" }, h("h2", {}, "State"), plan.states.map((s) => h("div", { "data-state": `op:${s.name}` },
      h("div", { class: "row" }, h("strong", {}, s.name), h("span", { class: "quiet small" }, s.title), h("span", { class: `pill ${s.verdict}` }, s.verdict), s.rows !== null ? h("span", { class: "quiet small" }, `${amount(s.rows)} rows, ${bytes(s.bytes)}`) : null, s.place ? h("span", { class: "quiet small" }, `line ${s.place.line}`) : null),
      s.reason ? h("p", { class: "small" }, s.reason) : null,
      s.reads.map((r) => h("p", { class: "small" }, `reads ${r.rows === null ? "" : `${amount(r.rows)} rows of `}${r.source} again`)),
      h("div", { class: "row small" }, s.fields.map((f) => h("span", {}, h("span", { class: `pill ${f.verdict}` }, f.verdict), " ", h("code", {}, f.meaning), f.reason ? h("span", { class: "quiet" }, ` ${f.reason}`) : null)))))) : null,
    h("div", { class: "plots" },
      h("section", { class: "card" }, table("Sources", [{ title: "Table", cell: (s) => s.name }, { title: "", cell: (s) => s.change }], plan.sources)),
      h("section", { class: "card" }, table("Sinks", [{ title: "Table", cell: (s) => s.name }, { title: "", cell: (s) => s.change + (s.detail ? `: ${s.detail}` : "") }], plan.sinks))),
  ].filter(Boolean);
}
