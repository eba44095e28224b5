// One stream of server-sent events for all tabs: the tab that holds the lock reads it and tells the others.
import { useEffect, useState } from 'preact/hooks';
import { API } from './api.js';

const NAMES = ['snapshot', 'pipeline', 'machine', 'update', 'flow', 'event', 'lag', 'chunk', 'schedule', 'alert', 'job'];
const topics = new Set(['home']);
let reopen = () => {};
let begun = 0;
// Since when the present stream has all messages: answers that were asked for before may have missed one.
export const opened = () => begun;
const listeners = new Set();
const watchers = new Set();
const status = { live: false, since: Date.now(), ever: false };
const channel = 'BroadcastChannel' in globalThis ? new BroadcastChannel('sluice-stream') : null;

function setLive(live) {
  if (live === status.live && status.ever) return;
  if (!live && status.live) status.since = Date.now();
  const again = live && status.ever;
  Object.assign(status, { live, ever: status.ever || live });
  watchers.forEach((each) => each());
  if (again) deliver('snapshot', {});
}

function deliver(name, data) {
  listeners.forEach((each) => each(name, data));
}

function readStream() {
  let source;
  let wait = 500;
  const open = () => {
    source?.close();
    begun = Date.now();
    source = new EventSource(`${API}/stream?topics=${[...topics].map(encodeURIComponent).join(',')}`);
    source.onopen = () => {
      wait = 500;
      if (status.ever && !status.live) begun = Date.now();
      channel?.postMessage({ live: true, begun });
      setLive(true);
    };
    source.onerror = () => {
      setLive(false);
      channel?.postMessage({ live: false });
      if (source.readyState === EventSource.CLOSED) { setTimeout(open, wait); wait = Math.min(10000, wait * 2); }
    };
    for (const name of NAMES) {
      source.addEventListener(name, (message) => {
        let data;
        try { data = JSON.parse(message.data); } catch { return; }
        deliver(name, data);
        channel?.postMessage({ name, data, begun });
      });
    }
  };
  reopen = open;
  open();
}

// Asks for the flows and events of one pipeline; topics of all tabs are read by the one stream.
export function watch(topic) {
  if (!topic || topics.has(topic)) return;
  topics.add(topic);
  channel?.postMessage({ topic });
  reopen();
}

export function startStream() {
  if (channel) {
    channel.onmessage = ({ data }) => {
      begun = data.begun ?? begun;
      if (data.name) { setLive(true); deliver(data.name, data.data); }
      else if (data.topic) { if (!topics.has(data.topic)) { topics.add(data.topic); reopen(); } }
      else if (data.ask) { if (status.leads) channel.postMessage({ live: status.live, begun }); }
      else setLive(data.live);
    };
    channel.postMessage({ ask: true });
  }
  const lead = () => { status.leads = true; readStream(); return new Promise(() => {}); };
  if (channel && navigator.locks) navigator.locks.request('sluice-stream', lead);
  else lead();
}

export const onMessage = (listener) => { listeners.add(listener); return () => listeners.delete(listener); };

export function useStream() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listen = () => draw((count) => count + 1);
    watchers.add(listen);
    return () => watchers.delete(listen);
  }, []);
  return status;
}
