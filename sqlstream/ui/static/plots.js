// Plots by uPlot, in the colours of the theme.
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axes(x) {
  const look = { stroke: ink("--quiet"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 }, font: "11px system-ui" };
  const short = (v) => (v === null ? "" : Math.abs(v) >= 1e9 ? `${+(v / 1e9).toFixed(1)} bn` : Math.abs(v) >= 1e6 ? `${+(v / 1e6).toFixed(1)} M` : Math.abs(v) >= 1e4 ? `${+(v / 1e3).toFixed(0)} k` : String(+v.toFixed(3)));
  return [{ ...look, ...x }, { ...look, size: 62, values: (_, values) => values.map(short) }];
}

// Nothing is under the pointer, nothing is said.
const shown = (_, value) => (value === null || value === undefined ? "" : value.toLocaleString("en-US", { maximumFractionDigits: 3 }));

function draw(target, options, data) {
  if (target.plot) target.plot.destroy();
  target.replaceChildren();
  const plot = new uPlot({ width: Math.max(220, target.clientWidth), height: 190, ...options }, data, target);
  target.plot = plot;
  if (!target.observed) {
    target.observed = new ResizeObserver(() => { if (target.plot && target.clientWidth) target.plot.setSize({ width: target.clientWidth, height: 190 }); });
    target.observed.observe(target);
  }
  return plot;
}

// A canvas keeps the colours that it was drawn with.
window.addEventListener("theme", () => { for (const target of document.querySelectorAll(".plot")) if (target.again) target.again(); });

// Lines over epochs; `series` are { label, values, colour, fill }. `pick` is called with the index of a point that is clicked.
export function linePlot(target, xs, series, pick) {
  target.again = () => linePlot(target, xs, series, pick);
  const plot = draw(target, {
    cursor: { sync: { key: "epochs" }, points: { size: 7 } },
    scales: { x: { time: false } },
    axes: axes({ values: (_, values) => values.map((v) => (Number.isInteger(v) ? v.toLocaleString("en-US") : "")) }),
    series: [{ label: "epoch", value: shown }, ...series.map((s) => ({ label: s.label, value: shown, stroke: ink(s.colour), width: 1.6, fill: s.fill ? `${ink(s.colour)}26` : undefined, points: { show: xs.length < 3 }, spanGaps: true }))],
  }, [xs, ...series.map((s) => s.values)]);
  if (pick) plot.over.addEventListener("click", () => { if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) pick(plot.cursor.idx); });
}

export function barPlot(target, labels, values, title) {
  target.again = () => barPlot(target, labels, values, title);
  draw(target, {
    scales: { x: { time: false, range: [-0.6, labels.length - 0.4] } },
    axes: axes({ values: (_, at) => at.map((n) => { const label = labels[n]; return label === undefined ? "" : String(label).slice(0, 14); }), space: 90 }),
    series: [{ label: "row", value: (_, n) => (n === null ? "" : labels[n]) }, { label: title, value: shown, stroke: ink("--blue"), fill: `${ink("--blue")}66`, paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } }],
  }, [labels.map((_, n) => n), values]);
  target.setAttribute("role", "img");
  target.setAttribute("aria-label", `${title}: ${values.slice(0, 20).map((v, n) => `${labels[n]} ${v}`).join(", ")}`);
}
