// The parts that all screens share. Data is only ever text: nothing here sets HTML.
import { h, render } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { ago, dayAndTime, when } from './format.js';
import { mark } from './states.js';
import { setParams, useParam } from './router.js';

export const html = htm.bind(h);
export { render, useEffect, useLayoutEffect, useMemo, useParam, useRef, useState };
export const cls = (...names) => names.filter(Boolean).join(' ');

// A state: shape, colour and word; `bare` leaves the word to screen readers and the tooltip.
export function Mark({ state, word, bare, title }) {
  const found = mark(state);
  const text = word ?? found.word;
  return html`<span class=${cls('mark', found.tone, found.key)} title=${title ?? (bare ? text : null)}>
    <i aria-hidden="true">${found.shape}</i><span class=${bare ? 'sr' : ''}>${text}</span></span>`;
}

export const Time = ({ at, relative }) => (at == null ? null
  : html`<time datetime=${String(at)} title=${dayAndTime(at)}>${relative ? ago(at) : when(at)}</time>`);

// The present time, once a second while something runs.
export function useNow(active = true, every = 1000) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    if (!active) return undefined;
    const timer = setInterval(() => set(Date.now()), every);
    return () => clearInterval(timer);
  }, [active, every]);
  return now;
}

export async function copyText(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = Object.assign(document.createElement('textarea'), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  say('Copied.');
}

export function Copy({ text, label = 'Copy', title }) {
  const [done, set] = useState(false);
  return html`<button type="button" class="quiet-button" title=${title ?? text} onClick=${async () => {
    await copyText(typeof text === 'function' ? text() : text);
    set(true);
    setTimeout(() => set(false), 1200);
  }}>${done ? 'Copied' : label}</button>`;
}

export const Command = ({ text }) => html`<span class="command"><code>${text}</code><${Copy} text=${text} /></span>`;

// Announcements: the live region for screen readers, and a short note for the others.
const toasts = new Set();
export function say(text, tone = '') { toasts.forEach((each) => each({ text, tone, key: Math.random() })); }
export function Toasts() {
  const [shown, set] = useState([]);
  useEffect(() => {
    const add = (toast) => {
      set((before) => [...before.slice(-2), toast]);
      setTimeout(() => set((before) => before.filter((each) => each !== toast)), toast.tone === 'bad' ? 9000 : 3500);
    };
    toasts.add(add);
    return () => toasts.delete(add);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${shown.map((each) => html`<p key=${each.key} class=${each.tone}>${each.text}</p>`)}</div>`;
}

export function FaultBox({ fault, retry, command }) {
  if (!fault) return null;
  const missing = fault.status === 404 || fault.status === 501;
  return html`<div class=${cls('note', missing ? 'warn' : 'bad')} role="alert">
    <p><b>${fault.condition ?? fault.code ?? (missing ? 'Not available here' : 'Not readable')}</b>${' '}${fault.message}</p>
    ${fault.remedy && html`<p>${fault.remedy}</p>`}
    ${command && html`<p>On the command line: <${Command} text=${command} /></p>`}
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

// Content that waits for an answer: a fault beside stale data, placeholder lines before the first answer.
export function Loaded({ of, children, command, lines = 4 }) {
  if (of.data === undefined && of.fault) return html`<${FaultBox} fault=${of.fault} retry=${of.reload} command=${command} />`;
  if (of.data === undefined) return html`<div class="placeholder" aria-busy="true" aria-label="Loading">${Array.from({ length: lines }, () => html`<i></i>`)}</div>`;
  return html`${of.fault && html`<p class="stale-note" role="alert">Data from ${when(of.at)}: ${of.fault.message}</p>`}
    <div class=${of.fault ? 'stale' : ''}>${children(of.data)}</div>`;
}

export const Empty = ({ title, children }) => html`<div class="empty"><b>${title}</b><div>${children}</div></div>`;

export const Tile = ({ label, children, tone, sub }) => html`<div class=${cls('tile', tone)}><small>${label}</small><b>${children}</b>${sub && html`<span>${sub}</span>`}</div>`;

// A table of data. Columns: [title, (row) => cell, class]. `open` makes rows links for keyboard and mouse.
// On narrow screens each row is a card, if the table is not `raw`.
export function Table({ columns, rows, keyOf, open, label, selected, raw }) {
  return html`<div class=${cls('scroll', !raw && 'cards')} tabindex="0" role="region" aria-label=${label}><table>
    <thead><tr>${columns.map(([title, , kind]) => html`<th scope="col" class=${kind === 'right' ? kind : ''}>${title}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${keyOf ? keyOf(row) : index} class=${cls(open && 'opens', selected?.(row) && 'selected')}
        onClick=${open && ((event) => !event.target.closest('a,button,input,label,summary') && !String(getSelection()) && open(row))}>
      ${columns.map(([title, cell, kind]) => html`<td class=${kind} data-title=${typeof title === 'string' && kind !== 'name' ? title : null}>${cell(row, index)}</td>`)}</tr>`)}</tbody></table></div>`;
}

export function Tabs({ of, selected, name = 'tab', label }) {
  return html`<div class="tabs small" role="tablist" aria-label=${label}>${of.map(([key, title, badge]) => html`
    <button type="button" role="tab" aria-selected=${key === selected} class=${key === selected ? 'on' : ''}
      onClick=${() => setParams({ [name]: key === of[0][0] ? null : key }, { push: true })}>${title}${badge != null && html`<span class="badge">${badge}</span>`}</button>`)}</div>`;
}

// A choice of few values, as buttons.
export function Choice({ value, of, set, label }) {
  return html`<span class="choice" role="group" aria-label=${label}>${of.map(([key, title, hint]) => html`
    <button type="button" aria-pressed=${key === value} title=${hint} onClick=${() => set(key)}>${title}</button>`)}</span>`;
}

export function Dialog({ title, children, close, wide, foot }) {
  const element = useRef();
  // Before the next paint, so that no key is lost that is typed at once.
  useLayoutEffect(() => {
    const [before, dialog] = [document.activeElement, element.current];
    if (!element.current.open) element.current.showModal();
    (element.current.querySelector('[autofocus]') ?? element.current).focus();
    return () => { dialog.close(); before?.focus?.(); };
  }, []);
  return html`<dialog ref=${element} tabindex="-1" class=${wide ? 'wide' : ''} aria-label=${title} onCancel=${(event) => { event.preventDefault(); close(); }}
      onMouseDown=${(event) => event.target === element.current && close()}>
    <div class="dialog"><header><h2>${title}</h2><button type="button" class="quiet-button" aria-label="Close" onClick=${close}>✕</button></header>
      <div class="body">${children}</div>${foot && html`<footer>${foot}</footer>`}</div></dialog>`;
}

// A button that waits for its work and shows its failure.
export function Act({ children, act, tone, disabled, title, small }) {
  const [busy, set] = useState(false);
  const alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  return html`<button type="button" class=${cls(tone, small && 'small')} disabled=${disabled || busy} aria-busy=${busy} title=${title} onClick=${async () => {
    set(true);
    try { await act(); } catch (fault) { say(`${fault.message} ${fault.remedy ?? ''}`, 'bad'); }
    if (alive.current) set(false);
  }}>${busy ? html`<i class="spin" aria-hidden="true"></i>` : null}${children}</button>`;
}

// Rows of a fixed height, of which only the visible ones are drawn.
export function VirtualList({ rows, height, draw, label, focus, onTop, onEnd, stick, most }) {
  const box = useRef();
  const [view, set] = useState({ top: 0, size: 600 });
  const measure = () => {
    const { scrollTop, clientHeight, scrollHeight } = box.current;
    set({ top: scrollTop, size: clientHeight });
    if (scrollTop < height * 4) onTop?.();
    if (scrollHeight - scrollTop - clientHeight < height * 4) onEnd?.();
  };
  useLayoutEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  const head = useRef(rows[0]);
  useLayoutEffect(() => {
    // Rows that are added above keep the visible ones where they are.
    const added = head.current && head.current !== rows[0] ? rows.indexOf(head.current) : 0;
    if (added > 0) box.current.scrollTop += added * height;
    head.current = rows[0];
  }, [rows]);
  useLayoutEffect(() => {
    const index = focus == null ? -1 : rows.findIndex(focus);
    if (index >= 0) box.current.scrollTop = Math.max(0, index * height - box.current.clientHeight / 3);
  }, [focus && rows.some(focus)]);
  useLayoutEffect(() => { if (stick) box.current.scrollTop = box.current.scrollHeight; }, [rows.at(-1), stick]);
  const first = Math.max(0, Math.floor(view.top / height) - 6);
  const last = Math.min(rows.length, Math.ceil((view.top + view.size) / height) + 6);
  const inner = [];
  for (let index = first; index < last; index += 1) inner.push(draw(rows[index], { position: 'absolute', top: `${index * height}px`, height: `${height}px`, left: 0, right: 0 }, index));
  return html`<div class="virtual" style=${most ? { height: `${Math.min(most, rows.length * height + 2)}px` } : null} ref=${box} onScroll=${measure} tabindex="0" role="region" aria-label=${label}>
    <div style=${{ height: `${rows.length * height}px`, position: 'relative' }}>${inner}</div></div>`;
}

// A canvas that draws again when its size, its colours or its data change.
export function useCanvas(draw, dependencies) {
  const canvas = useRef();
  useLayoutEffect(() => {
    const paint = () => {
      if (!canvas.current) return;
      const { clientWidth: width, clientHeight: height } = canvas.current;
      const scale = devicePixelRatio || 1;
      if (canvas.current.width !== Math.round(width * scale)) canvas.current.width = Math.round(width * scale);
      if (canvas.current.height !== Math.round(height * scale)) canvas.current.height = Math.round(height * scale);
      const context = canvas.current.getContext('2d');
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      draw(context, width, height, colours());
    };
    paint();
    const watch = new ResizeObserver(paint);
    watch.observe(canvas.current);
    addEventListener('themechange', paint);
    return () => { watch.disconnect(); removeEventListener('themechange', paint); };
  }, dependencies);
  return canvas;
}

const NAMES = ['text', 'quiet', 'line', 'panel', 'good', 'warn', 'bad', 'run', 'accent', 'mute'];
export function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
