// The updates as a grid on a canvas (columns are updates, rows are flows), and as a list of requests.
import { Choice, Empty, Loaded, Mark, Table, Time, html, useCanvas, useMemo, useNow, useParam, useRef, useState } from './ui.js';
import { request } from './api.js';
import { counted, day, duration, shortNames, stopwatch, when } from './format.js';
import { apiOf } from './live.js';
import { go, pathOf } from './router.js';
import { isOpen, mark } from './states.js';
import { useData } from './store.js';

const CELL = 22;
const HEAD = 78;

const toneColour = (palette, tone) => ({ good: palette.good, bad: palette.bad, warn: palette.warn, run: palette.run }[tone] ?? palette.mute);

function drawHead(context, grid, view, palette) {
  const longest = Math.max(1, ...grid.updates.map((each) => each.seconds ?? 0));
  context.fillStyle = palette.panel;
  context.fillRect(0, 0, view.width, HEAD);
  let dated = -1000;
  for (let column = view.first; column < view.last; column += 1) {
    const update = grid.updates[column];
    const x = view.gutter + column * CELL - view.left;
    if (x < view.gutter - CELL) continue;
    const found = mark(update.state);
    const height = 4 + 34 * Math.sqrt((update.seconds ?? 0) / longest);
    context.fillStyle = toneColour(palette, found.tone);
    context.fillRect(x + 3, HEAD - 16 - height, CELL - 6, height);
    const previous = grid.updates[column - 1];
    const date = day(update.created_at);
    if (!previous || day(previous.created_at) !== date || column === view.first) {
      if (x - dated > 44) {
        context.fillStyle = palette.quiet;
        context.textAlign = 'left';
        context.font = '11px system-ui, sans-serif';
        context.fillText(date.slice(5), x + 3, 12);
        dated = x;
      }
      context.fillStyle = toneColour(palette, found.tone);
    }
    if (previous?.request_id === update.request_id) { context.fillRect(x - CELL / 2, HEAD - 13, CELL, 2); }
    context.fillStyle = palette.text;
    context.textAlign = 'center';
    context.font = '11px system-ui, sans-serif';
    context.fillText(found.shape, x + CELL / 2, HEAD - 2);
  }
}

function drawCells(context, grid, view, palette) {
  context.textAlign = 'center';
  context.font = '12px system-ui, sans-serif';
  for (let row = view.top; row < view.bottom; row += 1) {
    const y = HEAD + row * CELL - view.up;
    const cells = grid.cells[view.rows[row]];
    const most = Math.max(1, ...cells.map((cell) => cell?.seconds ?? 0));
    for (let column = view.first; column < view.last; column += 1) {
      const cell = cells[column];
      if (!cell) continue;
      const x = view.gutter + column * CELL - view.left;
      const found = mark(cell.state);
      const colour = toneColour(palette, found.tone);
      context.globalAlpha = found.tone === 'quiet' ? 0.12 : cell.rows ? 0.25 + 0.5 * Math.min(1, Math.log10(cell.rows + 1) / 7) : 0.2;
      context.fillStyle = colour;
      context.fillRect(x + 2, y + 2, CELL - 4, CELL - 4);
      context.globalAlpha = 1;
      if (cell.seconds != null) context.fillRect(x + 2, y + CELL - 4, (CELL - 4) * Math.max(0.08, cell.seconds / most), 2);
      context.fillStyle = palette.text;
      context.fillText(found.shape, x + CELL / 2, y + 15);
    }
  }
}

function drawNames(context, names, view, palette, hover) {
  context.fillStyle = palette.panel;
  context.fillRect(0, 0, view.gutter, view.height);
  context.textAlign = 'left';
  context.font = '12.5px system-ui, sans-serif';
  context.save();
  context.beginPath();
  context.rect(0, HEAD, view.gutter - 6, view.height);
  context.clip();
  for (let row = view.top; row < view.bottom; row += 1) {
    context.fillStyle = row === hover?.row ? palette.accent : palette.text;
    const name = names[view.rows[row]];
    const most = Math.floor((view.gutter - 18) / 6.8);
    context.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, 10, HEAD + row * CELL - view.up + 15);
  }
  context.restore();
  context.fillStyle = palette.panel;
  context.fillRect(0, 0, view.gutter, HEAD);
  context.fillStyle = palette.quiet;
  context.fillText('flow \\ update', 10, HEAD - 6);
  context.fillStyle = palette.line;
  context.fillRect(0, HEAD - 0.5, view.width, 1);
  context.fillRect(view.gutter - 0.5, 0, 1, view.height);
}

function cellText(grid, names, row, column) {
  const [update, cell] = [grid.updates[column], row == null ? null : grid.cells[row][column]];
  if (!update) return '';
  const head = `Update ${update.update_id.slice(0, 8)}, ${when(update.created_at)}, ${mark(update.state).word}, ${duration(update.seconds)}${update.attempt > 1 ? `, attempt ${update.attempt}` : ''}`;
  if (row == null) return head;
  return cell ? `${names[row]}: ${mark(cell.state).word}${cell.seconds == null ? '' : `, ${duration(cell.seconds)}`}${cell.rows == null ? '' : `, ${counted(cell.rows, 'row')}`}${cell.reason ? `: ${cell.reason}` : ''}. ${head}` : `${names[row]} was not in it. ${head}`;
}

function Grid({ grid, pipeline, filter }) {
  const frame = useRef();
  const [scroll, setScroll] = useState({ left: 1e9, up: 0 });
  const [hover, setHover] = useState(null);
  const shorten = useMemo(() => shortNames(grid.flows), [grid.flows]);
  const names = useMemo(() => grid.flows.map(shorten), [grid.flows]);
  const rows = useMemo(() => names.map((name, index) => index).filter((index) => names[index].toLowerCase().includes(filter.toLowerCase())), [names, filter]);
  const gutter = Math.min(230, Math.max(110, 24 + 7 * Math.max(...names.map((name) => name.length), 8)), innerWidth < 640 ? 120 : 999);
  const canvas = useCanvas((context, width, height, palette) => {
    const left = Math.min(scroll.left, Math.max(0, gutter + grid.updates.length * CELL + 10 - width));
    const view = {
      width, height, gutter, rows, left, up: scroll.up, first: Math.max(0, Math.floor(left / CELL)), last: Math.min(grid.updates.length, Math.ceil((left + width - gutter) / CELL)),
      top: Math.max(0, Math.floor(scroll.up / CELL)), bottom: Math.min(rows.length, Math.ceil((scroll.up + height - HEAD) / CELL)),
    };
    if (hover) {
      context.fillStyle = palette.line;
      context.globalAlpha = 0.5;
      context.fillRect(view.gutter + hover.column * CELL - left, 0, CELL, height);
      if (hover.row != null) context.fillRect(0, HEAD + hover.row * CELL - scroll.up, width, CELL);
      context.globalAlpha = 1;
    }
    drawCells(context, grid, view, palette);
    drawHead(context, grid, view, palette);
    if (hover) { context.strokeStyle = palette.accent; context.lineWidth = 1.5; context.strokeRect(view.gutter + hover.column * CELL - left + 1, hover.row == null ? 2 : HEAD + hover.row * CELL - scroll.up + 1, CELL - 2, hover.row == null ? HEAD - 4 : CELL - 2); }
    drawNames(context, names, view, palette, hover);
  }, [grid, scroll, hover, rows]);
  const place = (event) => {
    const box = canvas.current.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const column = Math.floor((x - gutter + frame.current.scrollLeft) / CELL);
    const row = y < HEAD ? null : Math.floor((y - HEAD + frame.current.scrollTop) / CELL);
    return x < gutter || column >= grid.updates.length || column < 0 || row >= rows.length ? null : { column, row };
  };
  const open = (at) => at && go(`${pathOf('p', pipeline, 'u', grid.updates[at.column].update_id)}${at.row == null ? '' : `?flow=${encodeURIComponent(grid.flows[rows[at.row]])}`}`);
  const onKeyDown = (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === 'Enter') open(hover);
    else if (step) {
      const at = hover ?? { column: grid.updates.length, row: 0 };
      const row = Math.max(0, Math.min(rows.length - 1, (at.row ?? -1) + step[1]));
      const column = Math.max(0, Math.min(grid.updates.length - 1, at.column + step[0]));
      setHover({ row, column });
      const box = frame.current;
      box.scrollLeft = Math.min(column * CELL, Math.max(box.scrollLeft, gutter + (column + 1) * CELL - box.clientWidth));
      box.scrollTop = Math.min(row * CELL, Math.max(box.scrollTop, HEAD + (row + 1) * CELL - box.clientHeight));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const started = useRef(false);
  const text = hover ? cellText(grid, names, hover.row == null ? null : rows[hover.row], hover.column) : '';
  return html`<div class="grid-box" style=${{ height: `${HEAD + rows.length * CELL + 14}px` }} ref=${(element) => { frame.current = element; if (element && !started.current) { started.current = true; element.scrollLeft = 1e7; } }} tabindex="0" role="group"
      aria-label="Grid of updates and flows. Arrow keys select a cell, Enter opens its update." onKeyDown=${onKeyDown} onScroll=${(event) => setScroll({ left: event.target.scrollLeft, up: event.target.scrollTop })}
      onMouseMove=${(event) => { const at = place(event); if (at?.row !== hover?.row || at?.column !== hover?.column) setHover(at); }} onMouseLeave=${() => setHover(null)} onClick=${(event) => open(place(event))}>
    <canvas ref=${canvas} aria-hidden="true"></canvas><div class="grid-space" style=${{ width: `${gutter + grid.updates.length * CELL + 10}px`, height: `${HEAD + rows.length * CELL + 10}px` }}></div></div>
    <p class="grid-text" aria-live="polite">${text || html`<span class="quiet">${counted(grid.updates.length, 'update')}, ${counted(grid.flows.length, 'flow')}. Shade: rows written; line: time. Bars joined below are attempts of one request.</span>`}</p>`;
}

function Running({ since }) {
  return html`<span class="num">${stopwatch((useNow() - Date.parse(since)) / 1000)}</span>`;
}

function Requests({ pipeline }) {
  const path = `${apiOf(pipeline, 'updates')}?limit=50`;
  const answer = useData(path);
  const [older, setOlder] = useState({ requests: [], before: undefined });
  const columns = [
    ['started', (each) => html`<a href=${pathOf('p', pipeline, 'u', each.attempts.at(-1).update_id)}><${Time} at=${each.created_at} /></a>`],
    ['outcome', (each) => html`<${Mark} state=${each.outcome} />`],
    ['attempts', (each) => (each.attempts.length > 1 ? html`<span class="attempts">${each.attempts.map((one) => html`<a href=${pathOf('p', pipeline, 'u', one.update_id)} title=${`attempt ${one.attempt}`}><${Mark} state=${one.state} bare /></a>`)}</span>` : '1'), 'right'],
    ['time', (each) => (isOpen(each.outcome) ? html`<${Running} since=${each.created_at} />` : duration(each.seconds)), 'right'],
    ['kind', (each) => String(each.attempts.at(-1).kind ?? '').toLowerCase().replaceAll('_', ' ')],
    ['started by', (each) => { const one = each.attempts[0]; return html`${one.user ?? '?'} <span class="quiet">${one.started_by === 'server' ? String(one.cause ?? '').toLowerCase().replaceAll('_', ' ') : `in a terminal${one.host ? ` on ${one.host}` : ''}`}</span>`; }],
    ['error', (each) => each.attempts.at(-1).error ?? '', 'wrap quiet'],
  ];
  return html`<${Loaded} of=${answer}>${(data) => {
    const before = older.before === undefined ? data.before : older.before;
    const more = async () => {
      const { value } = await request(`${path}&before=${encodeURIComponent(before)}`);
      setOlder({ requests: [...older.requests, ...value.requests], before: value.before });
    };
    const rows = [...data.requests, ...older.requests];
    if (!rows.length) return html`<${Empty} title="Never run."><p>Press <kbd>r</kbd> to see the plan of the first run.</p><//>`;
    return html`<${Table} label="Requests" columns=${columns} rows=${rows} keyOf=${(each) => each.request_id} open=${(each) => go(pathOf('p', pipeline, 'u', each.attempts.at(-1).update_id))} />${before && html`<p><button type="button" onClick=${more}>Older</button></p>`}`;
  }}<//>`;
}

export function Updates({ pipeline }) {
  const [view, setView] = useParam('view', 'grid');
  const [filter, setFilter] = useParam('q');
  const answer = useData(view === 'grid' ? `${apiOf(pipeline, 'grid')}?limit=200` : null);
  return html`<div class="toolbar"><input type="search" placeholder="Filter flows" aria-label="Filter flows" value=${filter} disabled=${view !== 'grid'} onInput=${(event) => setFilter(event.target.value)} />
      <span class="spring"></span><${Choice} label="View" value=${view} set=${setView} of=${[['grid', 'Grid'], ['list', 'List']]} /></div>
    ${view === 'list' ? html`<${Requests} pipeline=${pipeline} />` : html`<${Loaded} of=${answer} lines=${8}>${(grid) => (grid.updates.length ? html`<${Grid} grid=${grid} pipeline=${pipeline} filter=${filter} />`
    : html`<${Empty} title="Never run."><p>Press <kbd>r</kbd> to see the plan of the first run.</p><//>`)}<//>`}`;
}
