// Requests to the dashboard, and what is pushed by it.
export class Refused extends Error {
  constructor(status, body) {
    super(body && body.error ? body.error : `HTTP ${status}`);
    this.status = status;
    this.diagnostics = (body && body.diagnostics) || [];
  }
}

async function answered(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

export const get = async (path, signal) => answered(await fetch(`api/${path}`, { signal }));
export const post = async (path, body) => answered(await fetch(`api/${path}`, {
  method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
}));

// What is known of all pipelines, kept up to date by server-sent events.
export const live = { pipelines: new Map(), listeners: new Set() };
let source = null;

export function listen(onState) {
  if (source) source.close();
  source = new EventSource("api/events");
  source.addEventListener("open", () => onState("live", "on"));
  source.addEventListener("error", () => onState("no connection", "off"));
  source.addEventListener("pipelines", (event) => {
    for (const one of JSON.parse(event.data)) live.pipelines.set(one.id, one);
    for (const listener of [...live.listeners]) listener();
  });
}

// Calls `listener` at every push until the view is left.
export function whileShown(signal, listener) {
  live.listeners.add(listener);
  signal.addEventListener("abort", () => live.listeners.delete(listener));
}
