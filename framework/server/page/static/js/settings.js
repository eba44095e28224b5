// Settings: who is signed in, tokens, alerts, and facts about the server.
import { Act, Choice, Copy, Dialog, Empty, Loaded, Mark, Table, Time, html, say, useState } from './ui.js';
import { post, request } from './api.js';
import { bytes } from './format.js';
import { useData } from './store.js';
import { has, may } from './features.js';

const ROLES = [['view', 'view', 'states, names and events'], ['read', 'read', 'also rows'], ['operate', 'operate', 'also run, stop, repair'], ['manage', 'manage', 'also schedules and tokens']];

function NewToken({ close, done }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState('view');
  const [made, setMade] = useState(null);
  return html`<${Dialog} title="New token" close=${close} foot=${made ? html`<button type="button" class="main" onClick=${close}>Close</button>` : html`<${Act} tone="main" disabled=${!name} act=${async () => { setMade(await post('/tokens', { name, role })); done(); }}>Make<//>`}>
    ${made ? html`<p>It is shown once. It works as <code>DATABRICKS_TOKEN</code> too.</p><p class="command"><code>${made.secret ?? made.value ?? made.token}</code><${Copy} text=${made.secret ?? made.value ?? made.token} title="Copy the token" /></p>`
    : html`<label class="field">Name<input value=${name} onInput=${(event) => setName(event.target.value)} placeholder="airflow" /></label><p><${Choice} label="Role" value=${role} set=${setRole} of=${ROLES} /></p><p class="quiet">${ROLES.find(([key]) => key === role)[2]}</p>`}<//>`;
}

function Tokens() {
  const answer = useData('/tokens');
  const [making, set] = useState(false);
  const revoke = (each) => async () => { await request(`/tokens/${encodeURIComponent(each.id)}`, { method: 'DELETE' }); say(`${each.name} is revoked.`); answer.reload(); };
  return html`<${Loaded} of=${answer} command="sluice token list">${({ tokens }) => html`<p><button type="button" onClick=${() => set(true)}>New token…</button></p>
    ${tokens.length ? html`<${Table} label="Tokens" rows=${tokens} keyOf=${(each) => each.id} columns=${[['name', (each) => each.name, 'name'], ['role', (each) => each.role], ['pipelines', (each) => (each.pipelines?.length ? each.pipelines.join(', ') : 'all'), 'wrap'], ['expires', (each) => (each.expires_at ? html`<${Time} at=${each.expires_at} />` : 'never')], ['last used', (each) => (each.last_used_at ? html`<${Time} at=${each.last_used_at} relative />` : 'never')], ['', (each) => html`<${Act} small act=${revoke(each)}>Revoke<//>`, 'right']]} />` : html`<${Empty} title="No token."><p>Programs sign in with a token. People don't need one.</p><//>`}
    ${making && html`<${NewToken} close=${() => set(false)} done=${answer.reload} />`}`}<//>`;
}

function Alerts() {
  const answer = useData('/alerts');
  if (answer.fault?.status === 404) return html`<p class="quiet">No alert is set up.</p>`;
  return html`<${Loaded} of=${answer} lines=${2}>${({ alerts, channels = [] }) => html`<p class="quiet">${channels.length ? `To ${channels.map((each) => `${each.name} (${each.kind})`).join(', ')}.` : 'No pipeline has a channel in its alerts.yml, so nobody is told.'}</p>
    ${alerts.length ? html`<${Table} label="Alerts" rows=${alerts} columns=${[['at', (each) => html`<${Time} at=${each.at} />`], ['', (each) => html`<${Mark} state=${each.recovered_at ? 'completed' : 'failed'} word=${each.recovered_at ? 'recovered' : 'open'} />`], ['pipeline', (each) => each.pipeline ?? '', 'name'], ['kind', (each) => String(each.kind).replaceAll('_', ' ')], ['text', (each) => each.text, 'wrap']]} />` : html`<p>✓ No alert.</p>`}`}<//>`;
}

export function Settings() {
  const whoami = useData('/whoami');
  const machine = useData('/machine');
  return html`<h1>Settings</h1><section><h2>Signed in</h2><${Loaded} of=${whoami} lines=${1}>${(data) => html`<p><b>${data.user}</b>, role <b>${data.role}</b> (${ROLES.find(([key]) => key === data.role)?.[2]}) <${Act} small act=${async () => { await request('/session', { method: 'DELETE' }); location.reload(); }}>Sign out<//></p>`}<//></section>
    ${has('tokens') && html`<section><h2>Tokens</h2>${may('manage') ? html`<${Tokens} />` : html`<p class="quiet">The role manage sees and makes tokens.</p>`}</section>`}${has('alerts') && html`<section><h2>Alerts</h2><${Alerts} /></section>`}
    <section><h2>Server</h2><${Loaded} of=${machine}>${(data) => html`<dl class="facts"><div><dt>version</dt><dd>${data.version}</dd></div><div><dt>host</dt><dd>${data.host}</dd></div><div><dt>folders</dt><dd>${data.folders.join(', ')}</dd></div><div><dt>engines</dt><dd>${data.engines.running} of ${data.engines.most}, ${data.engines.queued} waiting</dd></div>
      <div><dt>memory</dt><dd>${bytes(data.memory.total_bytes - data.memory.available_bytes)} of ${bytes(data.memory.total_bytes)}</dd></div></dl>`}<//>
      <p class="quiet">Libraries of this page: preact (MIT) and htm (Apache-2.0). Nothing is loaded from other hosts.</p></section>`;
}
