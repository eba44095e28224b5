// Answers by path. A screen draws what is known at once and what arrives later; stale data is dimmed, never blanked.
import { useEffect, useState } from 'preact/hooks';
import { post, read } from './api.js';

const KEPT = 200;
const entries = new Map();

function entryOf(path) {
  let entry = entries.get(path);
  if (!entry) {
    entry = { path, data: undefined, fault: null, at: 0, busy: false, again: false, listeners: new Set() };
    entries.set(path, entry);
    for (const [old, each] of entries) {
      if (entries.size <= KEPT) break;
      if (!each.listeners.size && each !== entry) entries.delete(old);
    }
  }
  return entry;
}

const tell = (entry) => entry.listeners.forEach((each) => each());

async function load(entry) {
  if (entry.busy) { entry.again = true; return; }
  entry.busy = true;
  const asked = Date.now();
  try {
    const [path, body] = entry.path.split('#');
    const place = (job) => { entry.place = job.place; tell(entry); };
    entry.data = body === undefined ? await read(path) : await post(path, JSON.parse(decodeURIComponent(body)), { onPlace: place });
    entry.fault = null;
    entry.at = Date.now();
    entry.asked = asked;
  } catch (fault) {
    entry.fault = fault;
  }
  entry.busy = false;
  entry.place = null;
  tell(entry);
  if (entry.again) { entry.again = false; setTimeout(() => entry.listeners.size && load(entry), 250); }
}

// The answer of a path: {data, fault, at, loading, reload}. A null path asks for nothing.
export function useData(path) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (path == null) return undefined;
    const entry = entryOf(path);
    const listen = () => draw((count) => count + 1);
    entry.listeners.add(listen);
    if (!entry.at || entry.stale) { entry.stale = false; load(entry); }
    return () => entry.listeners.delete(listen);
  }, [path]);
  if (path == null) return { data: undefined, fault: null, loading: false, at: 0, reload() {} };
  const entry = entryOf(path);
  return { data: entry.data, fault: entry.fault, at: entry.at, loading: entry.data === undefined && !entry.fault, busy: entry.busy, place: entry.place, reload: () => load(entry) };
}

// Marks answers as old, if they were asked for before `since`: those on the screen are read again now, the others when they are next drawn.
export function refresh(matches, since = Infinity) {
  for (const entry of entries.values()) {
    if (entry.path.includes('#') || (since < Infinity && entry.busy) || entry.asked > since || !matches(entry.path)) continue;
    if (entry.listeners.size) load(entry);
    else entry.stale = true;
  }
}

// The path of a job whose result is kept as an answer: it starts when it is first drawn, and again by `reload` only.
export const jobPath = (pipeline, kind, body = {}) => `/pipelines/${encodeURIComponent(pipeline)}/jobs/${kind}#${encodeURIComponent(JSON.stringify(body))}`;

export const peek = (path) => entries.get(path)?.data;

// Changes a known answer without a request, for messages that carry the new value.
export function patch(path, change) {
  const entry = entries.get(path);
  if (entry?.data === undefined) return false;
  entry.data = change(entry.data);
  entry.at = Date.now();
  tell(entry);
  return true;
}
