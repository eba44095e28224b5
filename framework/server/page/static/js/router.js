// The address is the state of the view: the path selects the screen, the query has all view options.
import { useEffect, useState } from 'preact/hooks';

const listeners = new Set();
const changed = () => listeners.forEach((each) => each());
addEventListener('popstate', changed);

const decoded = (part) => { try { return decodeURIComponent(part); } catch { return part; } };
export const enc = encodeURIComponent;
export const pathOf = (...parts) => `/${parts.map(enc).join('/')}`;

export function go(path, { replace = false } = {}) {
  if (path === location.pathname + location.search) return;
  history[replace ? 'replaceState' : 'pushState'](null, '', path);
  changed();
  if (!replace) scrollTo(0, 0);
}

export function useLocation() {
  const [, draw] = useState(0);
  useEffect(() => {
    const listen = () => draw((count) => count + 1);
    listeners.add(listen);
    return () => listeners.delete(listen);
  }, []);
  return { parts: location.pathname.split('/').filter(Boolean).map(decoded), query: new URLSearchParams(location.search) };
}

export function withParams(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value == null || value === '' || value === false) query.delete(name);
    else query.set(name, value === true ? '1' : value);
  }
  const text = query.toString();
  return location.pathname + (text ? `?${text}` : '');
}

export const setParams = (changes, { push = false } = {}) => go(withParams(changes), { replace: !push });

// One view option: its value in the address, and the function that sets it.
export function useParam(name, fallback = '') {
  const { query } = useLocation();
  return [query.get(name) ?? fallback, (value) => setParams({ [name]: value === fallback ? null : value })];
}

// Clicks on links of the page's own paths change the address without a request.
addEventListener('click', (event) => {
  const link = event.target.closest?.('a[href]');
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute('download') || link.origin !== location.origin || /^\/(api|static|metrics)\b/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
