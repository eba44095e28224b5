// Screens that are loaded when they are first shown; the browser has them ready before.
import { FaultBox, html, useEffect, useState } from './ui.js';
import { Fault } from './api.js';

const loaded = new Map();
export function Lazy({ load, name, ...rest }) {
  const [module, set] = useState(loaded.get(load) ?? null);
  useEffect(() => { load().then((found) => { loaded.set(load, found); set(found); }, () => set({ failed: true })); }, [load]);
  if (module?.failed) return html`<${FaultBox} fault=${new Fault(0, { message: 'A part of the page could not be loaded.' })} retry=${() => location.reload()} />`;
  return module ? html`<${module[name]} ...${rest} />` : html`<div class="placeholder" aria-busy="true"><i></i><i></i><i></i></div>`;
}
