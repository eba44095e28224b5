// The keyboard map, and the palette with all actions of the screen and their commands.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Command, Dialog, cls, html } from './ui.js';
import { go } from './router.js';

const groups = new Set();
let open = () => {};

// Offers actions while a screen is shown: {key, title, cli, run}. A key is one letter, or two after each other ("g h").
export function useActions(actions, dependencies) {
  useEffect(() => {
    groups.add(actions);
    return () => groups.delete(actions);
  }, dependencies);
}

export const openPalette = (what = 'palette') => open(what);
const all = () => [...groups].flat().filter(Boolean);
const isTyping = (element) => element?.closest?.('input,textarea,select,[contenteditable]');

const rowsOf = () => [...(document.querySelector('dialog[open]') ?? document).querySelectorAll('[data-row], tr.opens')].filter((row) => row.offsetParent);
function move(step) {
  const rows = rowsOf();
  const index = rows.indexOf(document.activeElement?.closest('[data-row], tr.opens'));
  const next = rows[Math.min(rows.length - 1, Math.max(0, index < 0 ? (step > 0 ? 0 : rows.length - 1) : index + step))];
  if (next) { next.tabIndex = -1; next.focus(); next.scrollIntoView({ block: 'nearest' }); }
}

function act(key, row) {
  if (key === 'j' || key === 'k') { move(key === 'j' ? 1 : -1); return true; }
  if (key === 'Enter' && row && document.activeElement === row) { (row.querySelector('a[href]') ?? row).click(); return true; }
  if (key === 'x' && row) { row.querySelector('input[type=checkbox]')?.click(); return true; }
  if (key === '?') { open('help'); return true; }
  if (key === '.') { open('palette'); return true; }
  if (key === '/') {
    const field = document.querySelector('input[type=search]');
    if (field) { field.focus(); field.select(); } else open('palette');
    return true;
  }
  return false;
}

export function useKeyboard() {
  useEffect(() => {
    let first = '';
    let timer = 0;
    const listen = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); open('palette'); return; }
      if (event.key === 'Escape' && isTyping(event.target) && !event.target.closest('dialog')) { event.target.blur(); return; }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const row = document.activeElement?.closest?.('[data-row], tr.opens');
      const inDialog = document.querySelector('dialog[open]');
      if (inDialog && !['j', 'k', 'x', 'Enter'].includes(event.key)) return;
      const typed = first ? `${first} ${event.key}` : event.key;
      const action = !inDialog && all().find((each) => each.key === typed);
      clearTimeout(timer);
      if (action) { first = ''; event.preventDefault(); action.run(); return; }
      if (!first && !inDialog && all().some((each) => each.key?.startsWith(`${event.key} `))) {
        first = event.key;
        timer = setTimeout(() => { first = ''; }, 1200);
        return;
      }
      first = '';
      if (act(event.key, row)) event.preventDefault();
    };
    addEventListener('keydown', listen);
    return () => removeEventListener('keydown', listen);
  }, []);
}

const MOVES = [['j / k', 'Next, previous row'], ['Enter', 'Open the row'], ['x', 'Select the row'], ['/', 'Search'], ['.  or  Ctrl K', 'All actions'], ['?', 'This list'], ['Esc', 'Close']];

function Help({ close }) {
  const keyed = all().filter((each) => each.key);
  return html`<${Dialog} title="Keyboard" close=${close}><dl class="keys">
    ${[...MOVES, ...keyed.map((each) => [each.key, each.title])].map(([key, title]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${title}</dd></div>`)}</dl><//>`;
}

function Palette({ close }) {
  const [text, set] = useState('');
  const [index, choose] = useState(0);
  const list = useRef();
  const actions = useMemo(all, []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = actions.filter((each) => words.every((word) => `${each.title} ${each.cli ?? ''}`.toLowerCase().includes(word))).slice(0, 60);
  const run = (action) => { close(); action?.run(); };
  useEffect(() => { list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' }); }, [index]);
  const onKeyDown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); choose(Math.max(0, Math.min(found.length - 1, index + step))); }
    if (event.key === 'Enter') { event.preventDefault(); run(found[index]); }
  };
  return html`<${Dialog} title="Actions" close=${close}>
    <input class="palette-field" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${found.length ? `palette-${index}` : null}
      aria-label="Search actions" placeholder="Search actions, pipelines and datasets" value=${text} autofocus onKeyDown=${onKeyDown}
      onInput=${(event) => { set(event.target.value); choose(0); }} />
    <ul id="palette-list" class="palette" role="listbox" aria-label="Actions" ref=${list}>
      ${found.map((each, place) => html`<li id=${`palette-${place}`} role="option" aria-selected=${place === index} class=${cls(place === index && 'on')}
        onMouseMove=${() => choose(place)} onClick=${() => run(each)}><span>${each.title}</span>${each.key && html`<kbd>${each.key}</kbd>`}${each.cli && html`<code>${each.cli}</code>`}</li>`)}</ul>
    ${found.length ? null : html`<p class="quiet">No action has these words.</p>`}
    ${found[index]?.cli && html`<p class="palette-cli">The same on the command line: <${Command} text=${found[index].cli} /></p>`}<//>`;
}

export function KeyboardDialogs() {
  const [what, set] = useState('');
  open = set;
  const close = () => set('');
  if (what === 'help') return html`<${Help} close=${close} />`;
  return what === 'palette' ? html`<${Palette} close=${close} />` : null;
}
export const goAction = (key, title, path) => ({ key, title, run: () => go(path) });
