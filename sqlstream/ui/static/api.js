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
const AGAIN_MS = 3000;
let source = null, again = null;

// All pipelines, answer by answer.
export async function getPipelines(signal) {
  let total = 1;
  for (let at = 0; at < total;) {
    const found = await get(`pipelines?offset=${at}`, signal);
    for (const one of found.pipelines) live.pipelines.set(one.id, one);
    total = found.pipelines.length ? found.total : 0;
    at += found.pipelines.length;
  }
}

// `onState` is told whether there is a connection; browsers try again by themselves, except after an answer that is none.
export function listen(onState) {
  if (source) source.close();
  clearTimeout(again);
  source = new EventSource("api/events");
  source.addEventListener("open", () => onState("live", "on"));
  source.addEventListener("error", () => {
    onState("no connection, trying again", "off");
    if (source.readyState === EventSource.CLOSED) again = setTimeout(() => listen(onState), AGAIN_MS);
  });
  source.addEventListener("gone", (event) => {
    for (const id of JSON.parse(event.data)) live.pipelines.delete(id);
    for (const listener of [...live.listeners]) listener();
  });
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
