// Elements without a framework: h("td", { class: "num" }, "5").
const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "style") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

export function show(target, ...children) {
  target.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

// Which link, button, field or scrolled table of `target` has the focus, and how far its tables are scrolled: what is
// drawn again keeps both.
const KEYS = "a[href], button, input, select, textarea, summary, [tabindex]";
const keyOf = (element, n) => element.getAttribute("href") || element.id || element.getAttribute("data-node") || element.getAttribute("aria-label") || `${element.tagName} ${n}`;
export function focused(target) {
  const at = document.activeElement;
  const key = at && target !== at && target.contains(at) ? keyOf(at, [...target.querySelectorAll(KEYS)].indexOf(at)) : null;
  return { key, scrolls: [...target.querySelectorAll(".scroll")].map((e) => [e.scrollLeft, e.scrollTop]) };
}

export function refocus(target, { key }) {
  if (key === null || document.activeElement !== document.body) return;
  const found = [...target.querySelectorAll(KEYS)].find((element, n) => keyOf(element, n) === key);
  if (found) found.focus({ preventScroll: true });
}

export function showAgain(target, ...children) {
  const place = focused(target);
  show(target, ...children);
  refocus(target, place);
  [...target.querySelectorAll(".scroll")].forEach((e, n) => { if (place.scrolls[n]) [e.scrollLeft, e.scrollTop] = place.scrolls[n]; });
}

// A table of columns { title, num, cell(row) }; one with `cards` has a card for each row where it is narrow.
export function table(caption, columns, rows, props = {}) {
  return h("div", { class: "scroll" + (props.tall ? " tall" : ""), tabindex: props.tall ? 0 : null },
    h("table", { "data-table": props.name, class: props.cards ? "cards" : null },
      caption ? h("caption", {}, caption) : null,
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.num ? "num" : null }, c.title)))),
      h("tbody", {}, rows.map((row) => h("tr", props.row ? props.row(row) : {},
        columns.map((c) => {
          const cell = c.cell(row);
          const isNull = cell === null || cell === undefined;
          const classes = [c.num ? "num" : "", c.class || "", isNull ? (c.nulls ? "null" : "none") : ""].join(" ").trim();
          return h("td", { class: classes || null, title: c.full ? c.full(row) : null, "data-title": props.cards ? c.title : null }, isNull ? (c.nulls ? "NULL" : "–") : cell);
        }))))));
}

export const problems = (list) => list.map((d) => h("div", { class: "problem" + (d.severity === "warning" ? " warning" : ""), role: "alert" },
  h("p", {}, h("strong", {}, d.code ? `${d.code} ` : ""), d.message, d.span ? ` (line ${d.span.line}, column ${d.span.column})` : ""),
  (d.notes || []).map((note) => h("p", { class: "small" }, note)),
  d.help ? h("p", { class: "small" }, "help: ", d.help) : null));

// Why a request had no answer, and what to do.
export function refusal(error) {
  if (error.diagnostics && error.diagnostics.length) return problems(error.diagnostics);
  if (error instanceof TypeError) return h("p", {}, "The dashboard does not answer. If it has ended, start ", h("code", {}, "sqlstream ui"), " again: this page goes on by itself.");
  return h("p", {}, String(error.message || error));
}

// Lines with numbers; `marks` are { line, column, length, kind }.
export function sqlBlock(text, marks = [], only = null) {
  const lines = text.split("\n");
  const from = only ? Math.max(1, only.from) : 1;
  const to = only ? Math.min(lines.length, only.to) : lines.length;
  const block = h("pre", { class: "sql", tabindex: 0 });
  for (let number = from; number <= to; number++) {
    const line = lines[number - 1];
    block.append(h("span", { class: "ln", "aria-hidden": "true" }, number));
    const own = marks.filter((m) => m.line === number).sort((a, b) => a.column - b.column);
    let at = 0;
    for (const m of own) {
      const start = Math.max(at, m.column - 1), end = Math.min(line.length, m.column - 1 + Math.max(1, m.length));
      if (end <= start) continue;
      block.append(line.slice(at, start), h("mark", { class: m.kind || null, title: m.title || null }, line.slice(start, end)));
      at = end;
    }
    block.append(line.slice(at), "\n");
  }
  // A clause at the end of a long line is shown, not only there.
  const first = block.querySelector("mark");
  if (first) requestAnimationFrame(() => { if (first.offsetLeft + first.offsetWidth > block.clientWidth) block.scrollLeft = first.offsetLeft - block.clientWidth / 3; });
  return block;
}
