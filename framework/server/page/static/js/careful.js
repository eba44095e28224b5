// What changes something: a dry run shows the effect, a reason is recorded, then it is done.
import { Act, Command, Dialog, FaultBox, html, say, useState } from './ui.js';
import { counted } from './format.js';
import { has } from './features.js';

// A number of rows as `{rows, note, at_most}`; null rows are unknown.
export const amount = (value) => (!value || value.rows == null ? 'unknown'
  : value.rows === 0 ? 'none' : `${value.at_most ? '≤ ' : ''}${counted(value.rows, 'row')}`);

export function Result({ value }) {
  if (value == null) return html`<p class="quiet">It would change nothing else.</p>`;
  if (typeof value === 'string') return html`<p>${value}</p>`;
  const lines = Array.isArray(value) ? value.map((each, index) => [index + 1, each]) : Object.entries(value);
  return html`<dl class="facts">${lines.map(([name, each]) => html`<div><dt>${String(name).replaceAll('_', ' ')}</dt><dd>${each == null ? '–' : typeof each === 'object' ? html`<code>${JSON.stringify(each)}</code>` : String(each)}</dd></div>`)}</dl>`;
}

// `run(body)` sends {dry_run, reason}, as far as the server knows them for this kind of job; `typed` is a word that must be typed first.
export function Careful({ title, children, run, cli, close, verb = 'Do it', kind, hasDryRun = kind ? has(`jobs.${kind}.dry_run`) : true, typed, show = (value) => html`<${Result} value=${value} />`, done = () => {}, tone = 'main' }) {
  const asksReason = !kind || has(`jobs.${kind}.reason`);
  const [preview, setPreview] = useState();
  const [fault, setFault] = useState(null);
  const [reason, setReason] = useState('');
  const [word, setWord] = useState('');
  const attempt = (body, then) => async () => {
    setFault(null);
    try { await then(await run({ ...body, ...(reason ? { reason } : {}) })); } catch (found) { setFault(found); }
  };
  const ready = (!hasDryRun || preview !== undefined) && (!typed || word === typed);
  return html`<${Dialog} title=${title} close=${close} foot=${html`
      ${hasDryRun && html`<${Act} act=${attempt({ dry_run: true }, setPreview)} tone=${preview === undefined ? 'main' : ''}>${preview === undefined ? 'Dry run' : 'Dry run again'}<//>`}
      <${Act} disabled=${!ready} tone=${ready ? tone : ''} title=${ready ? null : hasDryRun && preview === undefined ? 'After the dry run' : `Type ${typed}`} act=${attempt(hasDryRun ? { dry_run: false } : {}, async (value) => { say(`${title}: done.`); close(); Promise.resolve(done(value)).catch((late) => say(late.message, 'bad')); })}>${verb}<//>
      <span class="spring"></span><button type="button" onClick=${close}>Cancel</button>`}>
    ${children}
    ${preview !== undefined && html`<section class="preview" aria-live="polite"><h3>Dry run: nothing was changed</h3>${show(preview)}</section>`}
    <${FaultBox} fault=${fault} command=${cli} />
    ${asksReason && html`<label class="field">Reason, for the event log<input value=${reason} onInput=${(event) => setReason(event.target.value)} placeholder="TICKET-7: …" /></label>`}
    ${typed && html`<label class="field">Type <b>${typed}</b> to confirm<input value=${word} autocomplete="off" onInput=${(event) => setWord(event.target.value)} /></label>`}
    ${cli && html`<p class="quiet">The same on the command line: <${Command} text=${cli} /></p>`}<//>`;
}
