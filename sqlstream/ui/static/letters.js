// Rows that could not be used, why, and where they came from.
import { get } from "./api.js";
import { h, show, table } from "./dom.js";
import { number } from "./format.js";

// Long ones are opened by a click or by Enter: a tooltip is nothing for fingers and keyboards.
const SHORT = 120;
const shortened = (text) => (text.length <= SHORT ? text : h("details", {}, h("summary", {}, `${text.slice(0, SHORT)}…`), text));

export async function lettersView(body, { id, query, signal }) {
  const offset = Number(query.get("offset") || 0);
  const found = await get(`pipelines/${id}/letters?offset=${offset}`, signal);
  const href = (at) => `#/p/${encodeURIComponent(id)}/letters?offset=${at}`;
  show(body,
    found.reasons.length ? h("div", { class: "card" }, table(found.counted ? `By reason, of the newest ${number(found.counted)} rows` : "By reason", [
      { title: "Table", cell: (r) => r.source },
      { title: "Kind", cell: (r) => r.kind },
      { title: "Reason", class: "text", cell: (r) => shortened(r.reason) },
      { title: "Rows", num: true, cell: (r) => number(r.rows) },
      { title: "Epochs", num: true, cell: (r) => (r.first === r.last ? number(r.first) : `${number(r.first)} – ${number(r.last)}`) },
    ], found.reasons, { name: "reasons", cards: true })) : null,
    h("div", { class: "card stack" }, found.letters.length ? [
      table(`Rows ${number(offset + 1)} to ${number(offset + found.letters.length)} of ${number(found.total)} since the state directory began, newest epochs first`, [
        { title: "Epoch", num: true, cell: (l) => number(l.epoch) },
        { title: "Table", cell: (l) => l.source },
        { title: "Place", cell: (l) => l.place, class: "cell", full: (l) => l.place },
        { title: "Reason", class: "text", cell: (l) => shortened(l.reason) },
        { title: "Row", class: "text mono", cell: (l) => shortened(l.row) },
      ], found.letters, { name: "letters", tall: true, cards: true }),
      h("div", { class: "row" },
        offset ? h("a", { class: "button", href: href(Math.max(0, offset - found.letters.length)) }, "newer") : null,
        found.more ? h("a", { class: "button", href: href(offset + found.letters.length) }, "older") : null),
    ] : h("p", { class: "quiet" }, "Every row could be used.")));
}
