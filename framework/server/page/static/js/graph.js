// The graph as one SVG that is built once for a layout. States change classes and texts of its elements, not its shape.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './ui.js';
import { bytes, duration, short } from './format.js';
import { attention, mark } from './states.js';
import { Minimap } from './minimap.js';

const SPACE = 'http://www.w3.org/2000/svg';
const ICONS = {
  streaming_table: 'M1 4q2.500-2.600 5 0t5 0M1 8q2.500-2.600 5 0t5 0M1 12q2.500-2.600 5 0t5 0',
  materialized_view: 'M1 2.500h11v10.500h-11zM1 6h11M4.700 6v7M8.300 6v7',
  temporary_view: 'M.5 7.500q6-8 12 0q-6 8-12 0zM6.500 5.600a1.900 1.900 0 1 0 .01 0z',
  sink: 'M6.500 1v7.500M3.500 5.800l3 3 3-3M1 9.500v3.500h11v-3.500',
  external: 'M1.500 3.500a5 2.200 0 0 1 10 0a5 2.200 0 0 1-10 0v8a5 2.200 0 0 0 10 0v-8',
  group: 'M1 3h5l1.500 2h5.500v8h-12z',
};
const ALIASES = { table: 'streaming_table', view: 'temporary_view', foreach_batch_sink: 'sink' };
export const kindOf = (kind) => { const name = String(kind).toLowerCase().replaceAll(' ', '_'); return ALIASES[name] ?? name; };

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value);
  element.append(...children);
  return element;
}
const cut = (text, width, size) => { const most = Math.max(3, Math.floor(width / (size * 0.58))); return text.length > most ? `${text.slice(0, most - 1)}…` : text; };

// The state of a node: the one of its flows that needs a person most.
export function nodeStates(graph, states, foretold) {
  const found = new Map();
  for (const flow of graph.flows) {
    const state = states[flow.name];
    if (!state) continue;
    const before = found.get(flow.target);
    if (!before || attention(state.state) < attention(before.state)) found.set(flow.target, { ...state, rows: before?.rows });
    found.set(`flow ${flow.name}`, state);
  }
  for (const dataset of graph.datasets) {
    if (dataset.error) found.set(dataset.name, { ...found.get(dataset.name), broken: dataset.error });
    else if (dataset.waits_for) found.set(dataset.name, { ...found.get(dataset.name), broken: `waits for ${dataset.waits_for.join(', ')}` });
    if (foretold.has(dataset.name)) found.set(dataset.name, { ...found.get(dataset.name), broken: foretold.get(dataset.name) });
  }
  return found;
}

function unreadText(lag) {
  if (!lag || !(lag.records || lag.bytes || lag.seconds > 1)) return '';
  return [lag.records ? `${short(lag.records)} rows` : '', !lag.records && lag.bytes ? bytes(lag.bytes) : '', lag.seconds > 1 ? duration(lag.seconds).split(' ').slice(0, 2).join(' ') : ''].filter(Boolean).slice(0, 2).join(', ');
}

function nodeElement(node) {
  const kind = kindOf(node.kind);
  const flow = kind === 'flow';
  const shape = svg('rect', { class: 'box', width: node.w, height: node.h, rx: flow ? node.h / 2 : 7 });
  const state = svg('g', { class: 'node-mark', transform: `translate(${node.w - 4} 2)` }, svg('circle', { r: 9 }), svg('text', { 'text-anchor': 'middle', y: 4 }));
  const element = svg('g', { class: `node k-${kind}`, transform: `translate(${node.x} ${node.y})`, 'data-id': node.id, role: 'button', tabindex: -1 }, shape);
  if (flow) element.append(svg('text', { class: 'title small', x: node.w / 2, y: node.h / 2 + 4, 'text-anchor': 'middle' }, cut(node.title, node.w, 11)));
  else {
    element.append(svg('path', { class: 'icon', d: ICONS[kind] ?? ICONS.external, transform: `translate(10 ${node.h / 2 - 7.5})` }),
      svg('text', { class: 'title', x: 30, y: node.h / 2 - 3 }, cut(node.title, node.w - 34, 13)), svg('text', { class: 'note', x: 30, y: node.h / 2 + 13 }));
  }
  element.append(svg('title', {}, node.id), state);
  element.sluice = { node, note: element.querySelector('.note'), mark: state, glyph: state.lastChild };
  return element;
}

function paintNode(element, state, foretold) {
  const { node, note, mark: badge, glyph } = element.sluice;
  const found = state?.state ? mark(state.state) : null;
  const broken = state?.broken;
  const key = [found?.key, Boolean(broken), state?.rows_written, state?.rows_upserted].join();
  if (key === element.sluice.key) return;
  element.sluice.key = key;
  for (const name of [...element.classList]) if (name.startsWith('s-')) element.classList.remove(name);
  if (found) element.classList.add(`s-${found.tone}`, `s-${found.key}`);
  if (broken) element.classList.add('s-broken');
  badge.setAttribute('visibility', found || broken ? 'visible' : 'hidden');
  glyph.textContent = broken && found?.tone !== 'bad' ? '✕' : found?.shape ?? '';
  const rows = state?.rows_upserted || state?.rows_written;
  const text = broken && found?.tone !== 'bad' ? (foretold ? 'would fail' : 'not resolved') : found && rows ? `${found.word} · ${short(rows)} ${rows === 1 ? 'row' : 'rows'}` : found ? found.word : node.note;
  if (note) note.textContent = cut(text ?? '', node.w - 34, 11);
  element.setAttribute('aria-label', `${node.title}, ${String(node.kind).replaceAll('_', ' ')}, ${text}`);
}

function build(layout, edgeLag) {
  const scene = svg('g', { class: 'scene' });
  const lines = svg('g', { class: 'edges' });
  const nodes = svg('g', { class: 'nodes' });
  const pills = svg('g');
  const elements = new Map();
  const places = new Map(layout.nodes.map((node) => [node.id, node]));
  const parts = { scene, elements, edges: [] };
  for (const edge of layout.edges) {
    const path = svg('path', { class: `edge ${edge.kind}`, d: edge.path });
    lines.append(path);
    parts.edges.push({ edge, path });
    const text = edgeLag(edge);
    if (!text) continue;
    const target = places.get(edge.to);
    if (!target) continue;
    const width = text.length * 5.9 + 12;
    path.classList.add('unread');
    pills.append(svg('g', { class: 'pill', transform: `translate(${target.x + 8} ${target.y + target.h - 4})` }, svg('rect', { width, height: 16, rx: 8 }), svg('text', { x: width / 2, y: 11.5, 'text-anchor': 'middle' }, text)));
  }
  for (const node of layout.nodes) {
    const element = nodeElement(node);
    elements.set(node.id, element);
    nodes.append(element);
  }
  scene.append(lines, nodes, pills);
  return parts;
}

const PAD = 28;
const MOST = 1.15;
const READABLE = 0.55;
const isBroken = (state) => Boolean(state && (state.broken || mark(state.state).tone === 'bad'));
export function Graph({ layout, states, lags, foretold, chosen, dimmed, choose, open, label, flowOf, covered = 0 }) {
  const frame = useRef();
  const parts = useRef();
  const view = useRef({ x: 0, y: 0, scale: 1 });
  const [zoom, setZoom] = useState(1);
  const windowOf = useRef();
  const place = () => {
    if (!frame.current) return;
    const { x, y, scale } = view.current;
    parts.current?.scene.setAttribute('transform', `translate(${x} ${y}) scale(${scale})`);
    frame.current.classList.toggle('far', scale < 0.4);
    if (!windowOf.current) return;
    const { element, scale: small } = windowOf.current;
    Object.assign(element.style, { left: `${(-x / scale) * small}px`, top: `${(-y / scale) * small}px`, width: `${(frame.current.clientWidth / scale) * small}px`, height: `${(frame.current.clientHeight / scale) * small}px` });
  };
  const sizes = () => [frame.current?.clientWidth ?? 1, frame.current?.clientHeight ?? 1];
  const fitting = ([width, height]) => Math.max(0.03, Math.min(MOST, (width - PAD * 2) / Math.max(1, layout.width), (height - PAD * 2) / Math.max(1, layout.height)));
  const show = (scale, x, y) => { view.current = { scale, x, y }; place(); setZoom(scale); };
  const fit = () => {
    const [width, height] = sizes();
    const scale = fitting([width, height]);
    show(scale, (width - layout.width * scale) / 2, (height - layout.height * scale) / 2);
    view.current.isAll = true;
  };
  const centre = (x, y, scale = view.current.scale) => { const [width, height] = sizes(); show(scale, width / 2 - x * scale, height / 2 - y * scale); };
  // The first view: all of it if its texts are readable then, else the chosen node, the worst one, or the upper left corner.
  const begin = () => {
    const [width, height] = sizes();
    if (fitting([width, height]) >= READABLE) { fit(); return; }
    const scale = Math.max(READABLE, Math.min(0.9, (width - PAD * 2) / layout.width));
    const at = layout.nodes.find((node) => node.id === chosen) ?? layout.nodes.find((node) => isBroken(states.get(node.id)));
    const within = (value, size, whole) => (whole * scale + PAD * 2 <= size ? (size - whole * scale) / 2 : Math.min(PAD, Math.max(size - PAD - whole * scale, value)));
    show(scale, within(at ? width / 2 - (at.x + at.w / 2) * scale : PAD, width, layout.width), within(at ? height / 2 - (at.y + at.h / 2) * scale : PAD, height, layout.height));
  };
  const zoomBy = (factor, x = frame.current.clientWidth / 2, y = frame.current.clientHeight / 2) => {
    const before = view.current;
    const scale = Math.max(0.03, Math.min(3, before.scale * factor));
    view.current = { scale, x: x - ((x - before.x) * scale) / before.scale, y: y - ((y - before.y) * scale) / before.scale };
    place();
    setZoom(scale);
  };
  const drawn = useRef();
  const choice = useRef();
  choice.current = chosen;
  useLayoutEffect(place);
  const lagKey = useMemo(() => JSON.stringify([...lags].map(([name, lag]) => [name, unreadText(lag)])), [lags]);
  useLayoutEffect(() => {
    parts.current = build(layout, (edge) => unreadText(lags.get(flowOf(edge))));
    frame.current.replaceChildren(parts.current.scene);
    for (const [id, element] of parts.current.elements) paintNode(element, states.get(id), foretold.has(id));
    if (drawn.current === layout) place();
    else begin();
    drawn.current = layout;
  }, [layout, lagKey]);
  useLayoutEffect(() => {
    for (const [id, element] of parts.current.elements) paintNode(element, states.get(id), foretold.has(id));
  }, [states]);
  useLayoutEffect(() => {
    for (const [id, element] of parts.current.elements) {
      element.classList.toggle('chosen', id === chosen);
      element.classList.toggle('dim', Boolean(dimmed && !dimmed.has(id)));
    }
    for (const { edge, path } of parts.current.edges) {
      path.classList.toggle('chosen', edge.from === chosen || edge.to === chosen);
      path.classList.toggle('dim', Boolean(dimmed && !(dimmed.has(edge.from) && dimmed.has(edge.to))));
    }
  }, [chosen, dimmed, layout, lagKey]);
  useEffect(() => {
    const element = frame.current;
    const pointers = new Map();
    let moved = false;
    const local = (event) => { const box = element.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const down = (event) => { pointers.set(event.pointerId, [event.clientX, event.clientY]); moved = false; };
    const drag = (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const [dx, dy] = [event.clientX - last[0], event.clientY - last[1]];
      if (!moved && Math.hypot(dx, dy) < 4) return;
      if (!moved) { moved = true; element.setPointerCapture(event.pointerId); }
      if (pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const box = element.getBoundingClientRect();
        const apart = (point) => Math.max(1, Math.hypot(point[0] - other[0], point[1] - other[1]));
        zoomBy(apart([event.clientX, event.clientY]) / apart(last), (event.clientX + other[0]) / 2 - box.left, (event.clientY + other[1]) / 2 - box.top);
      } else { view.current.x += dx; view.current.y += dy; place(); }
      pointers.set(event.pointerId, [event.clientX, event.clientY]);
    };
    const up = (event) => { pointers.delete(event.pointerId); };
    const wheel = (event) => { event.preventDefault(); zoomBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), ...local(event)); };
    const click = (event) => {
      const id = event.target.closest('.node')?.dataset.id ?? null;
      if (!moved) choose(id);
      if (!moved && covered && id) reveal(layout.nodes.find((node) => node.id === id));
      moved = false;
    };
    const twice = (event) => { const id = event.target.closest('.node')?.dataset.id; if (id) open(id); };
    const pairs = { pointerdown: down, pointermove: drag, pointerup: up, pointercancel: up, click, dblclick: twice };
    for (const [name, listener] of Object.entries(pairs)) element.addEventListener(name, listener);
    element.addEventListener('wheel', wheel, { passive: false });
    let known = sizes().join();
    const watch = new ResizeObserver(() => { const now = sizes().join(); if (now !== known) { known = now; resized(); } });
    watch.observe(element);
    return () => { for (const [name, listener] of Object.entries(pairs)) element.removeEventListener(name, listener); element.removeEventListener('wheel', wheel); watch.disconnect(); };
  }, [layout, choose, open]);
  const reveal = ({ x, y, w, h }) => {
    const [width, height] = sizes();
    const { scale, x: left, y: top } = view.current;
    const [from, to, up, down] = [x * scale + left, (x + w) * scale + left, y * scale + top, (y + h) * scale + top];
    if (from < 0 || up < 0 || to > width - covered || down > height) centre(x + w / 2 + covered / 2 / scale, y + h / 2);
  };
  // A view of all stays one; another keeps its place, but shows the chosen node.
  const resized = () => {
    if (view.current.isAll && !covered) { begin(); return; }
    place();
    const at = layout.nodes.find((node) => node.id === choice.current);
    if (at) reveal(at);
  };
  const onKeyDown = (event) => {
    const nodes = layout.nodes;
    const step = { ArrowRight: ['x', 1], ArrowLeft: ['x', -1], ArrowDown: ['y', 1], ArrowUp: ['y', -1] }[event.key];
    if (event.key === 'Enter' && chosen) open(chosen);
    else if (event.key === '+' || event.key === '=') zoomBy(1.25);
    else if (event.key === '-') zoomBy(0.8);
    else if (event.key === '0') fit();
    else if (step && nodes.length) {
      const at = nodes.find((node) => node.id === chosen);
      const [axis, sign] = step;
      const other = axis === 'x' ? 'y' : 'x';
      const next = !at ? nodes[0] : nodes.filter((node) => (node[axis] - at[axis]) * sign > 4)
        .sort((one, two) => Math.abs(one[axis] - at[axis]) + 2.5 * Math.abs(one[other] - at[other]) - Math.abs(two[axis] - at[axis]) - 2.5 * Math.abs(two[other] - at[other]))[0];
      if (next) { choose(next.id); reveal(next); }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="graph"><svg ref=${frame} tabindex="0" role="group" aria-label=${`${label}. Arrow keys select, Enter opens, plus and minus zoom.`} onKeyDown=${onKeyDown}></svg>
    ${frame.current && fitting(sizes()) < zoom * 0.9 && html`<${Minimap} layout=${layout} states=${states} windowOf=${windowOf} go=${centre} />`}
    <div class="zoom" role="group" aria-label="Zoom"><button type="button" aria-label="Zoom out" onClick=${() => zoomBy(0.8)}>−</button><button type="button" title="Fit to the window" onClick=${() => fit()}>${Math.round(zoom * 100)} %</button>
      <button type="button" aria-label="Zoom in" onClick=${() => zoomBy(1.25)}>+</button></div></div>`;
}
