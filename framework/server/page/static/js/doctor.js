// The doctor: what is broken, what it means, and the ways out with what each loses, repeats and reads again.
import { Act, Command, Copy, Empty, Loaded, Table, Time, cls, html, say, useState } from './ui.js';
import { post } from './api.js';
import { Careful, amount } from './careful.js';
import { counted, duration, lastPart, when } from './format.js';
import { apiOf } from './live.js';
import { pathOf } from './router.js';
import { useData } from './store.js';
import { forecast } from './plan.js';
import { has, may, needs } from './features.js';

const isByHand = (way) => !/^sluice /.test(way.command ?? '');
const Cost = ({ cost, name }) => html`<span class=${cls(name === 'lost' && cost?.[name]?.rows !== 0 && 'bad', name === 'repeated' && cost?.[name]?.rows !== 0 && 'warn')} title=${cost?.[name]?.note}>${amount(cost?.[name])}${cost?.[name]?.note ? html`<sup>*</sup>` : ''}</span>`;

function Way({ way, finding, place, pipeline, done }) {
  const [open, set] = useState(false);
  const notes = ['lost', 'repeated', 'reread'].map((name) => [name, way.cost?.[name]?.note]).filter(([, note]) => note);
  return html`<tr data-row><td class="right">${way.number}</td><td class="wrap"><b>${way.text}</b>${way.command && html`<br /><code>${way.command}</code>`}${notes.map(([name, note]) => html`<br /><span class="quiet">* ${name === 'reread' ? 'read again' : name}: ${note}</span>`)}</td>
    ${['lost', 'repeated', 'reread'].map((name) => html`<td data-title=${name === 'reread' ? 'read again' : name}><${Cost} cost=${way.cost} name=${name} /></td>`)}
    <td class="right">${isByHand(way) ? html`<span class="quiet">by hand</span>` : has('doctor.ways') ? html`<button type="button" class="small" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => set(true)}>Dry run…</button>` : html`<${Copy} text=${way.command} />`}
      ${open && html`<${Careful} title=${`${way.number}. ${way.text}`} cli=${`sluice doctor ${lastPart(finding.flow)} --apply ${way.number}`} close=${() => set(false)} done=${done} verb=${`Do ${way.number}`}
        tone=${way.cost?.lost?.rows === 0 ? 'main' : 'danger'} typed=${way.cost?.lost?.rows === 0 || way.cost?.lost?.is_gone ? undefined : lastPart(finding.flow)}
        run=${(body) => post(apiOf(pipeline, 'doctor', 'ways'), { finding: place, way: way.number, ...(finding.digest ? { expect: finding.digest } : {}), ...body })}>
        <p><code>${way.command}</code></p><dl class="facts">${[['lost', 'lost'], ['repeated', 'repeated'], ['reread', 'read again']].map(([name, title]) => html`<div><dt>${title}</dt><dd><${Cost} cost=${way.cost} name=${name} />${way.cost?.[name]?.note ? html` <span class="quiet">${way.cost[name].note}</span>` : ''}</dd></div>`)}</dl><//>`}</td></tr>`;
}

function Finding({ finding, place, pipeline, done, times }) {
  const position = finding.position?.generation == null ? 'no checkpoint' : `generation ${finding.position.generation}${finding.position.starts?.length ? ` at ${finding.position.starts.join(', ')}` : ''}`;
  const time = times.get(finding.flow);
  return html`<article class="finding"><header><span class="mark bad"><i aria-hidden="true">✕</i><span class="sr">broken</span></span><h2>${finding.flow ? html`<a href=${finding.dataset ? pathOf('p', pipeline, 'd', finding.dataset) : null} title=${finding.flow}>${lastPart(finding.flow)}</a>` : 'The update'}</h2><span>${finding.diagnosis}</span>
      <span class="quiet">${finding.since ? html`since <${Time} at=${finding.since} />` : ''}${finding.updates > 1 ? `, in ${finding.updates} updates` : ''}</span></header>
    <p>${finding.meaning}</p><p class="quiet">${finding.condition && html`<code>${finding.condition}</code> `}${finding.cause}</p>
    <dl class="facts"><div><dt>position</dt><dd>${position}</dd></div>${finding.location && html`<div><dt>declared at</dt><dd><code>${finding.location}</code></dd></div>`}${finding.evidence.map((each) => html`<div><dt>evidence</dt><dd>${each}</dd></div>`)}${time && html`<div><dt>a run takes</dt><dd>~${duration(time.median)}</dd></div>`}</dl>
    <div class="scroll cards" tabindex="0" role="region" aria-label="Ways out"><table class="ways"><thead><tr><th></th><th scope="col">way out, least harm first</th><th scope="col">lost</th><th scope="col">repeated</th><th scope="col">read again</th><th></th></tr></thead>
      <tbody>${finding.ways.map((way) => html`<${Way} key=${way.number} way=${way} finding=${finding} place=${place} pipeline=${pipeline} done=${done} />`)}</tbody></table></div></article>`;
}

export function Doctor({ pipeline }) {
  const answer = useData(apiOf(pipeline, 'doctor'));
  const times = forecast(useData(`${apiOf(pipeline, 'grid')}?limit=20`).data);
  const examine = async () => {
    await post(apiOf(pipeline, 'jobs', 'doctor'), {}, { onPlace: (job) => job.place && say(`Place ${job.place} in the queue.`) });
    answer.reload();
  };
  return html`<${Loaded} of=${answer} command="sluice doctor">${({ examined_at: at, examination, job }) => html`<div class="toolbar"><${Act} tone=${examination ? '' : 'main'} disabled=${!may('operate')} title=${needs('operate')} act=${examine}>${examination ? 'Examine again' : 'Examine'}<//>
      ${job && ['QUEUED', 'RUNNING'].includes(job.state) && html`<span class="quiet" role="status">It is being examined${job.place ? `, place ${job.place} in the queue` : ''}…</span>`}
      ${at && html`<span class="quiet">${counted(examination.flows, 'flow')} examined at ${when(at)}</span>`}<span class="spring"></span><${Command} text="sluice doctor" /></div>
    ${!examination ? html`<${Empty} title="Not examined yet."><p>The examination reads the event log, checkpoints and sources. It starts no stream and changes nothing.</p><//>`
    : html`${examination.findings.map((each, index) => html`<${Finding} key=${`${each.flow} ${each.diagnosis}`} finding=${each} place=${index + 1} pipeline=${pipeline} done=${examine} times=${times} />`)}
      ${examination.findings.length ? null : html`<${Empty} title=${`✓ ${counted(examination.flows, 'flow')} examined, nothing found. ${when(at)}`} />`}
      ${examination.quarantined.length ? html`<h2>Quarantine</h2><${Table} label="Quarantined rows" rows=${examination.quarantined} columns=${[['flow', (each) => lastPart(each.flow), 'name'], ['rows', (each) => counted(each.rows, 'row'), 'right'], ['since', (each) => html`<${Time} at=${each.since} />`], ['', () => has('jobs.quarantine') && html`<a href=${pathOf('p', pipeline, 'quarantine')}>Open</a>`]]} />` : null}`}`}<//>`;
}
