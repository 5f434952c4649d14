// Numbers, times and sizes for people.
export const number = (n) => (n === null || n === undefined ? "–" : n.toLocaleString("en-US"));

export function amount(n) {
  if (n === null || n === undefined) return "–";
  if (n < 100000) return Number.isInteger(n) ? n.toLocaleString("en-US") : n.toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 1 : 0 });
  if (n < 1e6) return `${(n / 1e3).toFixed(0)} k`;
  return n < 1e9 ? `${(n / 1e6).toFixed(1)} M` : `${(n / 1e9).toFixed(1)} bn`;
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  if (n < 1024) return `${n} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    n /= 1024;
    if (n < 1024) return `${n < 10 ? n.toFixed(1) : n.toFixed(0)} ${unit}`;
  }
  return `${(n / 1024).toFixed(1)} TiB`;
}

export function duration(s) {
  if (s === null || s === undefined) return "–";
  if (s < 0.001) return `${(s * 1e6).toFixed(0)} µs`;
  if (s < 1) return `${(s * 1e3).toFixed(0)} ms`;
  if (s < 90) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 5400) return `${(s / 60).toFixed(0)} min`;
  return s < 172800 ? `${(s / 3600).toFixed(1)} h` : `${(s / 86400).toFixed(0)} days`;
}

export const rowsOf = (n, text = amount(n)) => `${text} ${n === 1 ? "row" : "rows"}`;

const two = (n) => String(n).padStart(2, "0");
export function time(us) {
  if (us === null || us === undefined) return "–";
  if (us === "end") return "end of input";
  const at = new Date(us / 1000);
  const ms = Math.floor((us / 1000) % 1000);
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())} ${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}` +
    (ms ? `.${String(ms).padStart(3, "0")}` : "");
}

// How far event time is behind the clock; nothing where it is not live data.
export function behind(us) {
  if (typeof us !== "number") return "";
  const s = (Date.now() * 1000 - us) / 1e6;
  if (Math.abs(s) > 30 * 86400) return ""; // made-up or old data: how far says nothing
  return s >= 0 ? `${duration(s)} behind` : `${duration(-s)} ahead`;
}

export const sum = (values) => {
  const known = Object.values(values).filter((v) => typeof v === "number");
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
};

export function least(watermarks) {
  const marks = Object.values(watermarks);
  if (!marks.length || marks.some((m) => m === null)) return null;
  const times = marks.filter((m) => typeof m === "number");
  return times.length ? Math.min(...times) : "end";
}
