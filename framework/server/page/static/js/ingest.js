// Ingestion: gateways, the tables with their state and lag, and the chunk map of a snapshot.
import { Act, Command, Copy, Empty, Loaded, Mark, Table, cls, html, useCanvas, useMemo, useParam, useState } from './ui.js';
import { post } from './api.js';
import { Careful } from './careful.js';
import { bytes, clock, counted, duration, lastPart, number, when } from './format.js';
import { apiOf } from './live.js';
import { setParams } from './router.js';
import { jobPath, useData } from './store.js';
import { has, may, needs } from './features.js';

const CHUNKS = { __proto__: null, DONE: ['■', 'committed', 'good'], FLIGHT: ['▓', 'in flight, read again after a kill', 'run'], STAGED: ['▒', 'staged', 'accent'], AGAIN: ['↻', 'read again', 'warn'], TODO: ['□', 'to do', 'line'] };

// The runs of equal chunks as [state, first chunk, count].
export function expanded(runs) {
  let first = 0;
  return runs.map(({ state, count }) => { const run = [state, first, count]; first += count; return run; });
}

function ChunkMap({ data }) {
  const runs = useMemo(() => expanded(data.runs ?? []), [data.runs]);
  const total = Math.max(1, runs.reduce((sum, [, , count]) => sum + count, 0));
  const canvas = useCanvas((context, width, height, palette) => {
    const size = Math.max(4, Math.min(18, Math.floor(Math.sqrt((width * height) / total))));
    const across = Math.max(1, Math.floor(width / size));
    const gap = size > 5 ? 1.5 : 0.5;
    for (const [state, first, count] of runs) {
      const [, , tone] = CHUNKS[state] ?? CHUNKS.TODO;
      context.fillStyle = palette[tone];
      context.strokeStyle = palette.quiet;
      for (let chunk = first; chunk < first + count; chunk += 1) {
        const [x, y] = [(chunk % across) * size, Math.floor(chunk / across) * size];
        if (y > height) break;
        context.fillRect(x, y, size - gap, size - gap);
        if (state === 'FLIGHT') { context.fillStyle = palette.panel; context.fillRect(x + size / 3, y + size / 3, size / 3 - gap, size / 3 - gap); context.fillStyle = palette[tone]; }
        if (state === 'TODO' && size > 6) context.clearRect(x + 1, y + 1, size - gap - 2, size - gap - 2);
      }
    }
    for (const { chunk } of data.killed ?? []) {
      context.fillStyle = palette.bad;
      const [x, y] = [(chunk % across) * size + size / 2, Math.floor(chunk / across) * size];
      context.beginPath(); context.moveTo(x, y - 1); context.lineTo(x + 5, y + 8); context.lineTo(x - 5, y + 8); context.fill();
    }
  }, [runs, data.killed]);
  const share = data.chunks ? data.done / data.chunks : null;
  const label = `${number(data.done)} of ${number(data.chunks)} chunks committed`;
  return html`<section class="chunks"><p><b>${label}</b>${share == null ? '' : `, ${(share * 100).toFixed(1)} %`}</p><canvas ref=${canvas} role="img" aria-label=${label}></canvas>
    <ul class="legend">${Object.entries(CHUNKS).filter(([state]) => runs.some(([each]) => each === state)).map(([state, [shape, word, tone]]) => html`<li key=${state}><i class=${`swatch sw-${tone}`} aria-hidden="true">${shape}</i>${word} <b>${number(runs.filter(([each]) => each === state).reduce((sum, [, , count]) => sum + count, 0))}</b></li>`)}
      ${(data.killed ?? []).map((each) => html`<li key=${each.at}><i class="swatch sw-bad" aria-hidden="true">▲</i>killed here ${clock(each.at)}</li>`)}</ul></section>`;
}

function Chosen({ pipeline, gateway, table, ask }) {
  const answer = useData(!has('chunks') ? null : `${apiOf(pipeline, 'chunks')}?gateway=${encodeURIComponent(gateway.gateway)}&table=${encodeURIComponent(table.table)}`);
  const left = table.remaining_seconds ? `${duration(table.remaining_seconds)} left` : '';
  return html`<article class="finding"><header><h2>${gateway.gateway} › ${table.table}</h2><${Mark} state=${table.state} word=${table.state.toLowerCase()} /><span class="quiet">${[table.percent == null ? '' : `${table.percent.toFixed(0)} %`, left, gateway.retained_bytes == null ? '' : `${gateway.position_name || 'the source'} keeps ${bytes(gateway.retained_bytes)} of log`].filter(Boolean).join(' · ')}</span></header>
    ${table.error && html`<div class="note bad"><p><b>${table.error}</b> ${table.way_out ? html`<${Command} text=${table.way_out} />` : ''}</p></div>`}
    ${has('chunks') && html`<${Loaded} of=${answer} lines=${2}>${(data) => html`<${ChunkMap} data=${data} />`}<//>`}
    <p class="buttons">${[table.state === 'PAUSED' ? ['resume', 'Resume…'] : ['pause', 'Pause…'], ['resync', 'Resync…'], ['skip-snapshot', 'Skip snapshot…'], ['cancel', 'Cancel snapshot…']].filter(([verb]) => has(`jobs.ingest-${verb}`))
    .map(([verb, title]) => html`<button key=${verb} type="button" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => ask(verb)}>${title}</button>`)}</p></article>`;
}

const TEXTS = { pause: 'Its flows stop after their present batch. The source keeps its log meanwhile.', resume: 'It continues where it was.', resync: 'The table is read again while the others keep flowing. Rows that the source no longer has are deleted.', 'skip-snapshot': 'No snapshot is taken, because its rows were loaded otherwise. Only changes from now on are applied.', cancel: 'The snapshot ends where it is. Rows that were not read stay missing until a resync.' };

function Preflight({ pipeline }) {
  const [result, set] = useState(null);
  return html`<h2>Preflight</h2><p><${Act} act=${async () => set(await post(apiOf(pipeline, 'jobs', 'ingest-preflight'), {}))}>Check the databases<//> <span class="quiet">reads only</span></p>
    ${(result ?? []).map((each) => html`<section key=${each.gateway}><h3>${each.gateway} <${Mark} state=${each.failed ? 'failed' : 'completed'} word=${each.failed ? 'not ready' : 'ready'} /></h3>
      ${each.findings.length ? html`<${Table} label="Findings" rows=${each.findings} columns=${[['', (one) => html`<${Mark} state=${{ error: 'failed', warning: 'degraded' }[one.severity] ?? 'idle'} word=${one.severity} />`], ['table', (one) => one.table ?? ''], ['finding', (one) => one.what, 'wrap'],
    ['mended by', (one) => html`${one.remedy}${one.statement && html`<br /><code>${one.statement}</code> <${Copy} text=${one.statement} />`}`, 'wrap']]} />` : html`<p class="quiet">Nothing found in ${counted(each.tables.length, 'table')}.</p>`}</section>`)}`;
}

export function Ingestion({ pipeline, row }) {
  const answer = useData(jobPath(pipeline, 'ingest-status', {}));
  const [chosen] = useParam('table');
  const [careful, setCareful] = useState(null);
  return html`<${Loaded} of=${answer} command="sluice ingest status">${(gateways) => {
    if (!gateways.length) return html`<${Empty} title="Declares no ingestion."><p>A gateway in the spec copies the tables of a database.</p><${Command} text="sluice init --template ingestion" /><//>`;
    const found = gateways.flatMap((gateway) => gateway.tables.map((table) => ({ gateway, table }))).find(({ table }) => table.table === chosen);
    const columns = (gateway) => [
      ['table', (each) => html`<a href=${`?table=${encodeURIComponent(each.table)}`}>${each.table}</a>`, 'name'], ['target', (each) => html`<span title=${each.target}>${lastPart(each.target)}</span>`], ['state', (each) => html`<${Mark} state=${each.state} word=${each.state.toLowerCase()} />`],
      ['snapshot', (each) => html`<span class="meter" title=${counted(each.chunks, 'chunk')}><i style=${{ width: `${each.percent ?? 0}%` }}></i><span>${each.percent == null ? '?' : `${each.percent.toFixed(0)} %`}</span></span>`], ['left', (each) => (each.remaining_seconds ? duration(each.remaining_seconds) : each.percent === 100 ? '' : '?'), 'right'],
      ['lag', (each) => bytes(each.lag_bytes), 'right'], ['behind', (each) => duration(each.lag_seconds), 'right'], ['error', (each) => html`${each.error ?? ''}${each.not_copied_children.length ? html` <span class="quiet">without the rows of ${each.not_copied_children.join(', ')}, which inherit from it</span>` : ''}`, 'wrap'],
    ];
    return html`<div class="toolbar"><button type="button" onClick=${answer.reload}>Read again</button><span class="quiet">Read at ${when(answer.at)}</span><span class="spring"></span><${Command} text="sluice ingest status" /></div>
      ${gateways.map((gateway) => html`<section key=${gateway.gateway} class=${cls(gateway.error && 'stale-source')}><div class="line"><h2>${gateway.gateway}</h2>${gateway.paused ? html`<${Mark} state="stopped" word="paused" />` : html`<${Mark} state=${gateway.error ? 'unknown' : gateway.gap ? 'failed' : gateway.is_read ? 'running' : 'idle'} word=${gateway.error ? 'the source gave no answer' : gateway.gap ? `gap: ${gateway.gap}` : gateway.is_read ? 'reading' : 'not read now'} />`}
          ${gateway.position_name && html`<span class="quiet">${gateway.position_name}${gateway.retained_bytes == null ? '' : ` keeps ${bytes(gateway.retained_bytes)} of log`}</span>`}${gateway.position && html`<span class="quiet">staged up to <code>${gateway.position}</code></span>`}<span class="spring"></span>
          ${has('jobs.ingest-pause', 'jobs.ingest-resume') && html`<button type="button" class="small" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setCareful({ verb: gateway.paused ? 'resume' : 'pause', gateway: gateway.gateway, table: null })}>${gateway.paused ? 'Resume all…' : 'Pause all…'}</button>`}</div>
        ${gateway.error && html`<p class="bad">${gateway.error}. What follows is the last known state.</p>`}${gateway.waits_for.map((each) => html`<p class="warn" key=${each}>! ${each} <${Copy} text=${each} /></p>`)}
        <${Table} label=${`Tables of ${gateway.gateway}`} rows=${gateway.tables} keyOf=${(each) => each.table} columns=${columns(gateway)} selected=${(each) => each.table === chosen} open=${(each) => setParams({ table: each.table })} /></section>`)}
      ${found && html`<${Chosen} key=${chosen} pipeline=${pipeline} ...${found} ask=${(verb) => setCareful({ verb, gateway: found.gateway.gateway, table: found.table.table })} />`}
      ${has('jobs.ingest-preflight') && html`<${Preflight} pipeline=${pipeline} row=${row} />`}
      ${careful && html`<${Careful} kind=${`ingest-${careful.verb}`} title=${`${careful.verb.replace('-', ' ').replace(/^./, (letter) => letter.toUpperCase())} ${careful.table ?? careful.gateway}`} verb=${careful.verb.replace('-', ' ')} tone=${['pause', 'resume'].includes(careful.verb) ? 'main' : 'danger'}
        typed=${['skip-snapshot', 'cancel'].includes(careful.verb) ? careful.table : undefined} cli=${`sluice ingest ${careful.verb} ${careful.table ?? '--all'}`} close=${() => setCareful(null)} done=${answer.reload}
        run=${(body) => post(apiOf(pipeline, 'jobs', `ingest-${careful.verb}`), { gateway: careful.gateway, ...(careful.table ? { table: careful.table } : {}), ...body })}><p>${TEXTS[careful.verb]}</p><//>`}`;
  }}<//>`;
}
