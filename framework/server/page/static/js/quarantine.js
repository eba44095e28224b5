// The quarantine: groups by reason, the rows with their source positions, replay and drop.
import { Command, Empty, Loaded, Mark, Table, Time, html, useParam, useState } from './ui.js';
import { post } from './api.js';
import { Careful } from './careful.js';
import { counted, lastPart, number, valueText, when } from './format.js';
import { apiOf } from './live.js';
import { setParams } from './router.js';
import { jobPath, useData } from './store.js';
import { has, may, needs } from './features.js';

const Replayed = ({ value }) => html`<p><b>${counted(value?.passed ?? 0, 'row')}</b> would be written to ${lastPart(value?.dataset)}.</p>${(value?.failed ?? []).map((each) => html`<p class="warn">! ${counted(each.rows, 'row')} ${each.rows === 1 ? 'fails' : 'fail'} again: ${each.reasons.join(', ')}.</p>`)}`;

function Rows({ pipeline, flow }) {
  const answer = useData(jobPath(pipeline, 'quarantine-rows', { flow, limit: 200 }));
  return html`<h2>Rows of ${lastPart(flow)}</h2><${Loaded} of=${answer} command=${`sluice quarantine show ${lastPart(flow)}`}>${(rows) => html`<${Table} label="Quarantined rows" rows=${rows} keyOf=${(row) => row.id} columns=${[
    ['state', (row) => html`<${Mark} state=${row.state === 'REPLAYED' ? 'completed' : 'degraded'} word=${String(row.state).toLowerCase()} />`], ['reasons', (row) => [].concat(row.reasons).join(', '), 'wrap'], ['since', (row) => html`<${Time} at=${row.quarantined_at} />`],
    ['file or position', (row) => row.file ?? (row.position == null ? '' : valueText(row.position)), 'wrap'], ['row', (row) => html`<code>${valueText(row.row)}</code>`, 'wrap']]} />`}<//>`;
}

export function Quarantine({ pipeline }) {
  const answer = useData(jobPath(pipeline, 'quarantine', {}));
  const [chosen] = useParam('flow');
  const [careful, setCareful] = useState(null);
  const columns = [
    ['flow', (each) => html`<a href=${`?flow=${encodeURIComponent(each.flow)}`} title=${each.flow}>${lastPart(each.flow)}</a>`, 'name'], ['reasons', (each) => each.reasons.join(', '), 'wrap'],
    ['state', (each) => html`<${Mark} state=${each.state === 'REPLAYED' ? 'completed' : 'degraded'} word=${each.state.toLowerCase()} />`], ['rows', (each) => number(each.rows), 'right'], ['first', (each) => html`<${Time} at=${each.first} />`], ['last', (each) => html`<${Time} at=${each.last} />`],
    ['', (each) => (each.state === 'OPEN' ? html`<span class="buttons">${['replay', 'drop'].filter((verb) => has(`jobs.quarantine-${verb}`)).map((verb) => html`<button type="button" class="small" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setCareful({ verb, flow: each.flow })}>${verb === 'replay' ? 'Replay…' : 'Drop…'}</button>`)}</span>` : ''), 'right'],
  ];
  return html`<${Loaded} of=${answer} command="sluice quarantine list">${(groups) => html`<div class="toolbar"><button type="button" onClick=${answer.reload}>Read again</button><span class="quiet">Read at ${when(answer.at)}</span><span class="spring"></span><${Command} text="sluice quarantine list" /></div>
    ${groups.length ? html`<${Table} label="Groups of quarantined rows" columns=${columns} rows=${groups} keyOf=${(each) => `${each.flow} ${each.reasons} ${each.state}`} selected=${(each) => each.flow === chosen} open=${(each) => setParams({ flow: each.flow })} />`
    : html`<${Empty} title="No row waits."><p>A streaming table with the property <code>sluice.quarantine</code> keeps the rows that its flows drop.</p><//>`}
    ${chosen && has('jobs.quarantine-rows') && html`<${Rows} key=${chosen} pipeline=${pipeline} flow=${chosen} />`}
    ${careful && html`<${Careful} kind=${`quarantine-${careful.verb}`} title=${`${careful.verb === 'replay' ? 'Replay' : 'Drop'} the open rows of ${lastPart(careful.flow)}`} verb=${careful.verb === 'replay' ? 'Replay' : 'Drop for good'} tone=${careful.verb === 'replay' ? 'main' : 'danger'} typed=${careful.verb === 'drop' ? lastPart(careful.flow) : undefined}
      cli=${`sluice quarantine ${careful.verb} ${lastPart(careful.flow)}`} close=${() => setCareful(null)} done=${answer.reload} show=${careful.verb === 'replay' ? (value) => html`<${Replayed} value=${value} />` : undefined}
      run=${(body) => post(apiOf(pipeline, 'jobs', `quarantine-${careful.verb}`), { flow: careful.flow, ...body })}><p>${careful.verb === 'replay' ? 'Checks the open rows again with the present expectations, and writes those that pass.' : 'Deletes the open rows for good.'}</p><//>`}`}<//>`;
}
