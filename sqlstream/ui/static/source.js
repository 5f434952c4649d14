// The SQL as it runs: rendered, without secrets, with what there is to say about it.
import { get } from "./api.js";
import { h, problems, show, sqlBlock } from "./dom.js";

export async function sourceView(body, { id, signal }) {
  const found = await get(`pipelines/${id}/source`, signal);
  const marks = found.diagnostics.filter((d) => d.span).map((d) => ({ ...d.span, kind: d.severity, title: d.message }));
  show(body, h("div", { class: "card stack" },
    h("p", { class: "quiet small" }, "After templating; passwords are stars."),
    problems(found.diagnostics),
    found.text ? sqlBlock(found.text, marks) : h("p", { class: "quiet" }, "No run has kept its SQL here.")));
}
