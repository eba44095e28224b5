// The event log: at most a page of it is read at once, and only the visible rows are drawn.
import { Choice, Copy, Empty, FaultBox, VirtualList, cls, html, useEffect, useMemo, useParam, useRef, useState } from './ui.js';
import { request } from './api.js';
import { clock, counted, day, dayAndTime } from './format.js';
import { apiOf, eventListeners, nameOf } from './live.js';
import { enc, pathOf, setParams } from './router.js';

const PAGE = 200;
const ROW = 30;
const LEVELS = ['METRICS', 'INFO', 'WARN', 'ERROR'];
const TYPES = ['create_update', 'user_action', 'update_progress', 'flow_progress', 'flow_definition', 'dataset_definition', 'sink_definition', 'planning_information', 'operation_progress', 'stream_progress', 'hook_progress'];
const TONES = { ERROR: 'bad', WARN: 'warn', METRICS: 'quiet' };
const SHAPES = { ERROR: '✕', WARN: '!', METRICS: '·', INFO: '○' };

// Whether an event of the stream fits the filters of the view.
export function fits(event, { level, type, dataset, flow, update_id: update, text }) {
  const named = (name, wanted) => !wanted || name === wanted || String(name ?? '').endsWith(`.${wanted}`);
  return LEVELS.indexOf(event.level) >= LEVELS.indexOf(level || 'METRICS') && (!type || event.event_type === type) && named(event.origin?.dataset_name, dataset) && named(event.origin?.flow_name, flow)
    && (!update || event.origin?.update_id === update) && (!text || event.message.toLowerCase().includes(text.toLowerCase()));
}

const detailsOf = (event) => { if (typeof event.details !== 'string') return event.details; try { return JSON.parse(event.details); } catch { return event.details; } };
const literal = (text) => `'${String(text).replaceAll("'", "''")}'`;

function sqlOf(filters) {
  const parts = [];
  const levels = LEVELS.slice(LEVELS.indexOf(filters.level || 'METRICS'));
  if (levels.length < 4) parts.push(`level IN (${levels.map(literal).join(', ')})`);
  if (filters.type) parts.push(`event_type = ${literal(filters.type)}`);
  if (filters.dataset) parts.push(`origin.dataset_name = ${literal(filters.dataset)}`);
  if (filters.flow) parts.push(`origin.flow_name = ${literal(filters.flow)}`);
  if (filters.update_id) parts.push(`origin.update_id = ${literal(filters.update_id)}`);
  if (filters.text) parts.push(`contains(lower(message), ${literal(filters.text.toLowerCase())})`);
  return `SELECT * FROM event_log${parts.length ? ` WHERE ${parts.join(' AND ')}` : ''} ORDER BY timestamp`;
}

function useEvents(pipeline, filters, wanted) {
  const key = JSON.stringify(filters);
  const [state, set] = useState({ events: [], before: undefined, fault: null, key: '' });
  const busy = useRef(false);
  const query = Object.entries(filters).filter(([, value]) => value).map(([name, value]) => `&${name}=${enc(value)}`).join('');
  const path = `${apiOf(pipeline, 'events')}?limit=${PAGE}${query}`;
  const load = async (before, at) => {
    if (busy.current === path + before) return;
    busy.current = path + before;
    try {
      const { value } = await request(`${path}${before ? `&before=${enc(before)}` : ''}${at ? `&at=${enc(at)}` : ''}`);
      set((old) => ({ events: before && old.key === key ? [...value.events, ...old.events] : value.events, before: value.before, fault: null, key, cut: Boolean(at) }));
    } catch (fault) { set((old) => ({ ...old, fault, key })); }
    busy.current = false;
  };
  useEffect(() => { set({ events: [], before: undefined, fault: null, key: '' }); load().then(() => {}); }, [path]);
  // A deep link to an event that is older than the first page: the page that ends with it.
  useEffect(() => { if (wanted && state.key === key && state.before && !state.events.some((each) => each.id === wanted) && !state.cut) load(undefined, wanted); }, [state.key, wanted]);
  useEffect(() => {
    const listen = ({ pipeline_id: id, event }) => {
      if ((id !== pipeline && nameOf(id) !== pipeline) || !fits(event, filters)) return;
      set((old) => (old.cut || old.events.some((each) => each.id === event.id) ? old : { ...old, events: [...old.events, event].slice(-20000) }));
    };
    eventListeners.add(listen);
    return () => eventListeners.delete(listen);
  }, [pipeline, key]);
  return { ...state, loading: state.key !== key, older: () => state.before && load(state.before), newest: () => load() };
}

function Detail({ event, pipeline, close }) {
  const exceptions = event.error?.exceptions ?? [];
  const origin = event.origin ?? {};
  return html`<aside class="side" aria-label="Selected event"><header><h2>${event.event_type}</h2><button type="button" class="quiet-button" aria-label="Close" onClick=${close}>✕</button></header>
    <p class=${TONES[event.level] ?? ''}>${event.message}</p>${exceptions.map((each) => html`<div class="note bad"><p><b>${each.class_name}</b></p><pre>${each.message}</pre></div>`)}
    <dl class="facts"><div><dt>time</dt><dd>${day(event.timestamp)} ${clock(event.timestamp)}</dd></div><div><dt>level</dt><dd>${event.level}</dd></div>
      ${origin.dataset_name && html`<div><dt>dataset</dt><dd><a href=${pathOf('p', pipeline, 'd', origin.dataset_name)}>${origin.dataset_name}</a></dd></div>`}${origin.flow_name && html`<div><dt>flow</dt><dd>${origin.flow_name}</dd></div>`}
      ${origin.update_id && html`<div><dt>update</dt><dd><a href=${pathOf('p', pipeline, 'u', origin.update_id)}>${origin.update_id}</a></dd></div>`}${origin.host && html`<div><dt>host</dt><dd>${origin.host}</dd></div>`}</dl>
    <pre class="log" tabindex="0">${JSON.stringify(detailsOf(event), null, 2)}</pre>
    <p class="buttons"><${Copy} label="Copy JSON" text=${() => JSON.stringify(event, null, 2)} /><${Copy} label="Copy link" text=${() => location.href} /></p></aside>`;
}

export function EventList({ pipeline, fixed = {} }) {
  const [level, setLevel] = useParam('level', 'INFO');
  const [type, setType] = useParam('type');
  const [dataset] = useParam('dataset');
  const [flow] = useParam('flow');
  const [update] = useParam('update');
  const [text, setText] = useParam('q');
  const [typed, setTyped] = useState(text);
  const [chosen, setChosen] = useParam('e');
  const [following, setFollowing] = useState(!chosen);
  useEffect(() => { const timer = setTimeout(() => typed !== text && setText(typed), 250); return () => clearTimeout(timer); }, [typed]);
  const filters = { level, type, dataset, flow: fixed.flow ?? flow, update_id: update, text, ...fixed };
  const { events, before, fault, loading, older, newest, cut } = useEvents(pipeline, filters, chosen);
  const selected = chosen && events.find((each) => each.id === chosen);
  const focus = useMemo(() => (chosen ? (each) => each.id === chosen : null), []);
  const chips = [['dataset', dataset], ['flow', fixed.flow ? '' : flow], ['update', fixed.update_id ? '' : update]].filter(([, value]) => value);
  const today = day(Date.now());
  const draw = (event, style) => html`<button type="button" key=${event.id} style=${style} data-row class=${cls('event', TONES[event.level], event.id === chosen && 'selected')} onClick=${() => setChosen(event.id === chosen ? '' : event.id)}>
    <span class="num quiet" title=${dayAndTime(event.timestamp)}>${day(event.timestamp) === today ? clock(event.timestamp) : dayAndTime(event.timestamp).slice(5)}</span><span class="level"><i aria-hidden="true">${SHAPES[event.level]}</i>${event.level}</span><span class="type quiet">${event.event_type}</span><span class="message">${event.message}</span></button>`;
  return html`<div class="toolbar"><input type="search" placeholder="Text" aria-label="Text of events" value=${typed} onInput=${(event) => setTyped(event.target.value)} />
      <${Choice} label="Level" value=${level} set=${setLevel} of=${[['METRICS', 'All'], ['INFO', 'Info'], ['WARN', 'Warnings'], ['ERROR', 'Errors']]} />
      <select aria-label="Type" value=${type} onChange=${(event) => setType(event.target.value)}><option value="">all types</option>${TYPES.map((each) => html`<option value=${each} selected=${each === type}>${each}</option>`)}</select>
      ${chips.map(([name, value]) => html`<span class="chip">${name} ${value} <button type="button" class="quiet-button" aria-label=${`Without ${name}`} onClick=${() => setParams({ [name]: null })}>✕</button></span>`)}
      <span class="spring"></span><label class="check"><input type="checkbox" checked=${following && !cut} onChange=${() => (cut ? (newest(), setFollowing(true)) : setFollowing(!following))} />follow</label>
      <${Copy} label="Copy SQL" text=${() => sqlOf(filters)} /></div>
    <${FaultBox} fault=${fault} retry=${newest} command="sluice events" />
    <div class=${cls('graph-row', selected && 'with-side')}><div class="grow">
      ${!loading && !fault && !events.length ? html`<${Empty} title=${Object.values({ ...filters, level: level === 'INFO' ? '' : level }).some(Boolean) ? 'No event fits these filters.' : 'The log is empty.'} />`
    : html`<div class=${cls('event-box', loading && 'stale')}><${VirtualList} rows=${events} height=${ROW} draw=${draw} label="Events" focus=${focus} stick=${following && !chosen} onTop=${events.length ? older : null} /></div>`}
      <p class="quiet graph-foot">${counted(events.length, 'event')} read${before ? ', older ones are read as you scroll up' : ', back to the first'}. ${cut ? html`<button type="button" class="link" onClick=${newest}>To the newest</button>` : ''}</p></div>
      ${selected && html`<${Detail} event=${selected} pipeline=${pipeline} close=${() => setChosen('')} />`}</div>`;
}

export const Events = ({ pipeline }) => html`<${EventList} pipeline=${pipeline} />`;
