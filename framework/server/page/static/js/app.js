// The frame of the page: navigation, freshness, theme, sign-in, and the screen of the address.
import { FaultBox, html, render, Toasts, useEffect, useState, Act, Command } from './ui.js';
import { onSignIn, request } from './api.js';
import { clock } from './format.js';
import { KeyboardDialogs, goAction, openPalette, useActions, useKeyboard } from './keys.js';
import { learn, startLive } from './live.js';
import { Lazy } from './lazy.js';
import { go, pathOf, useLocation } from './router.js';
import { startStream, useStream } from './stream.js';
import { refresh, useData } from './store.js';
import { has, useFeatures } from './features.js';
import { Home } from './home.js';
import { Pipeline } from './pipeline.js';

const THEMES = { auto: '◐', light: '☀', dark: '☾' };
const NEXT = { auto: 'light', light: 'dark', dark: 'auto' };
const kept = () => { try { return localStorage.getItem('sluice-theme') ?? 'auto'; } catch { return 'auto'; } };

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('sluice-theme', theme); } catch { /* private windows may have no storage */ }
  dispatchEvent(new Event('themechange'));
}

function Theme() {
  const [theme, set] = useState(kept);
  useEffect(() => applyTheme(theme), [theme]);
  useActions([{ title: 'Switch between light, dark and automatic', run: () => set((before) => NEXT[before]) }], []);
  return html`<button type="button" class="quiet-button" title=${`Colours: ${theme}`} aria-label=${`Colours: ${theme}. Switch`} onClick=${() => set(NEXT[theme])}>${THEMES[theme]}</button>`;
}

function Freshness() {
  const { live, since, ever } = useStream();
  const text = live ? 'live' : ever ? `reconnecting, data from ${clock(since)}` : 'connecting';
  useEffect(() => { document.documentElement.classList.toggle('stale-page', !live && ever); }, [live, ever]);
  return html`<span class=${live ? 'fresh' : 'fresh off'} role="status"><i aria-hidden="true">${live ? '●' : '○'}</i>${text}</span>`;
}

const lazy = { schedules: () => import('./schedules.js'), settings: () => import('./settings.js') };

function Screen({ parts }) {
  const [head, name] = parts;
  if (!head) return html`<${Home} />`;
  if (head === 'p' && name) return html`<${Pipeline} key=${name} name=${name} parts=${parts.slice(2)} />`;
  if (head === 'schedules' && has('schedules')) return html`<${Lazy} load=${lazy.schedules} name="Schedules" />`;
  if (head === 'settings') return html`<${Lazy} load=${lazy.settings} name="Settings" />`;
  return html`<div class="empty"><b>There is nothing at ${location.pathname}.</b><div><a href="/">Home</a></div></div>`;
}

function SignIn({ retry }) {
  return html`<main class="sign-in"><h1>Sluice</h1><${FaultBox} fault=${refused} /><p>This browser is not signed in. Open the address that <code>sluice serve</code> printed, or:</p>
    <${Command} text="sluice open" /><p class="quiet">The address has a code that works once. Nobody types a token here.</p><${Act} act=${retry}>Try again<//></main>`;
}

function Frame() {
  const { parts } = useLocation();
  const { data } = useData('/pipelines');
  const { data: whoami } = useData('/whoami');
  const { known } = useFeatures();
  const timed = has('schedules');
  const pipelines = data?.pipelines ?? [];
  learn(pipelines);
  const bad = pipelines.filter((each) => each.fault || each.attention).length;
  useKeyboard();
  useActions([goAction('g h', 'Go to the pipelines', '/'), timed && goAction('g c', 'Go to the schedules', '/schedules'), goAction('g s', 'Go to the settings', '/settings')], [timed]);
  useActions(pipelines.map((each) => ({ title: `Open ${each.name}`, run: () => go(pathOf('p', each.name)) })), [data]);
  useEffect(() => { document.title = [bad ? `(${bad})` : '', parts[0] === 'p' ? parts[1] : '', 'Sluice'].filter(Boolean).join(' ').trim(); });
  const on = (name) => ((parts[0] ?? '') === name || (name === '' && parts[0] === 'p') ? 'page' : null);
  return html`<a class="skip" href="#main">To the content</a>
    <header class="top"><nav aria-label="Main"><a class="brand" href="/"><img src="/static/icon.svg" alt="" width="20" height="20" />Sluice</a>
      <a href="/" aria-current=${on('')}>Pipelines</a>${timed && html`<a href="/schedules" aria-current=${on('schedules')}>Schedules</a>`}<a href="/settings" aria-current=${on('settings')}>Settings</a></nav>
      <button type="button" class="finder" onClick=${() => openPalette()}>Actions<kbd>Ctrl K</kbd></button>
      <${Freshness} /><${Theme} />${whoami?.user && html`<span class="who" title=${whoami.role}>${whoami.user}</span>`}</header>
    <main id="main">${known ? html`<${Screen} parts=${parts} />` : html`<div class="placeholder" aria-busy="true"><i></i><i></i><i></i></div>`}</main><${KeyboardDialogs} /><${Toasts} />`;
}

function App() {
  const [signedOut, set] = useState(false);
  useEffect(() => { onSignIn(() => set(true)); }, []);
  if (!signedOut) return html`<${Frame} />`;
  return html`<${SignIn} retry=${async () => { await request('/whoami'); refresh(() => true); set(false); }} />`;
}

let refused = null;

async function signIn() {
  const code = new URLSearchParams(location.hash.slice(1)).get('c');
  if (!code) return;
  history.replaceState(null, '', location.pathname + location.search);
  try { await request('/session', { method: 'POST', body: { code } }); } catch (fault) { refused = fault; }
}

applyTheme(kept());
await signIn();
startLive();
startStream();
render(html`<${App} />`, document.getElementById('page'));
requestIdleCallback?.(() => ['updates', 'update', 'events', 'dataset', 'doctor', 'plan'].forEach((each) => import(`./${each}.js`).catch(() => {})), { timeout: 3000 });
