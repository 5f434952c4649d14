// Savepoints, and which one the state directory began with.
import { get } from "./api.js";
import { h, show, table } from "./dom.js";
import { amount, bytes, number } from "./format.js";

export async function savepointsView(body, { id, signal }) {
  const found = await get(`pipelines/${id}/savepoints`, signal);
  show(body, h("div", { class: "card stack" },
    h("p", {}, found.origin ? ["The state directory began with savepoint ", h("code", {}, found.origin), "."] : "The state directory began with nothing."),
    found.savepoints.length ? table(`${number(found.total)} in all, newest first`, [
      { title: "Name", cell: (s) => s.name },
      { title: "Epoch", num: true, cell: (s) => number(s.epoch) },
      { title: "Made (UTC)", cell: (s) => s.created.replace("T", " ").replace(/(\+00:00|Z)$/, "") },
      { title: "Rows of state", num: true, cell: (s) => amount(s.rows) },
      { title: "Size", num: true, cell: (s) => bytes(s.bytes) },
      { title: "From", cell: (s) => s.origin || (s.imported ? "imported" : "this pipeline") },
    ], found.savepoints, { name: "savepoints", cards: true })
      : h("p", { class: "quiet" }, "There is none. ", h("code", {}, "sqlstream savepoint create"), " names the state as it is now, while the pipeline runs.")));
}
