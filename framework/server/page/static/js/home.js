// Home: what runs, how it last ended, how far it is behind, and what needs a person.
import { Command, Empty, Loaded, Mark, Time, cls, html, useNow, useParam } from './ui.js';
import { bytes, counted, duration, minute, number, stopwatch } from './format.js';
import { pathOf } from './router.js';
import { isBad, isOpen, mark } from './states.js';
import { useData } from './store.js';
import { has } from './features.js';

const needs = (row) => Boolean(row.fault || row.attention || isBad(row.last?.state));
const FILTERS = [['', 'All', () => true], ['attention', 'Needs you', needs], ['running', 'Running', (row) => isOpen(row.activity)], ['quarantine', 'Quarantine', (row) => row.quarantine_rows > 0]];

// The last requests as bars: height = duration, shape and colour = outcome.
export function Bars({ recent, to }) {
  const longest = Math.max(1, ...recent.map((each) => each.seconds ?? 0));
  const words = recent.map((each) => mark(each.outcome).word);
  const label = recent.length ? `Last ${recent.length} runs: ${[...new Set(words)].map((word) => `${words.filter((each) => each === word).length} ${word}`).join(', ')}` : 'No run yet';
  return html`<a class="bars" href=${to} aria-label=${label} title=${label}>${recent.map((each) => {
    const found = mark(each.outcome);
    const height = 6 + Math.round(18 * Math.sqrt((each.seconds ?? 0) / longest));
    return html`<i class=${cls(found.tone, found.key)} style=${{ height: `${height}px` }}
      title=${`${found.word}, ${duration(each.seconds)}${each.attempts > 1 ? `, ${each.attempts} attempts` : ''}`}>${isBad(each.outcome) || found.key === 'stopped' ? html`<b aria-hidden="true">${found.shape}</b>` : null}</i>`;
  })}</a>`;
}

export function Activity({ row }) {
  const now = useNow(Boolean(row.update));
  if (row.fault) return html`<${Mark} state="failed" word="not readable" />`;
  const start = row.update?.created_at;
  return html`<span class="activity"><${Mark} state=${row.activity} />${row.update && start ? html`<span class="quiet num">${stopwatch((now - Date.parse(start)) / 1000)}</span>` : null}
    ${row.parked?.since && html`<span class="quiet"><${Time} at=${row.parked.since} relative /></span>`}</span>`;
}

export function LagText({ lag }) {
  if (!lag) return html`<span class="quiet" title="Not known without reading the sources">?</span>`;
  const health = mark(lag.health);
  const text = lag.seconds == null ? '?' : lag.seconds ? duration(lag.seconds) : '0 s';
  const title = `${number(lag.records)} rows, ${bytes(lag.bytes)} unread`;
  return html`<span class=${health.tone === 'bad' || health.key === 'behind' ? health.tone : 'quiet'} title=${title}>${['stuck', 'behind'].includes(health.key) ? html`<${Mark} state=${lag.health} word=${`${health.word} ${text}`} />` : text}</span>`;
}

function Row({ row }) {
  const path = pathOf('p', row.name);
  const last = row.last;
  const worst = row.fault ?? (needs(row) ? { what: row.attention || `The last update ${mark(last.state).word === 'lost' ? 'ended without a word' : 'failed'}.` } : null);
  const attempts = row.recent?.at(-1)?.attempts;
  return html`<li class="pipeline-row" data-row>
    <a class="name" href=${path}>${row.name}</a>
    <${Activity} row=${row} />
    <span class="outcome">${last ? html`<span class="quiet">last</span><${Mark} state=${last.state} /><span class="quiet"><${Time} at=${last.ended_at ?? last.created_at} relative /></span>`
    : row.fault ? null : html`<${Mark} state="never" />`}</span>
    <${Bars} recent=${row.recent ?? []} to=${`${path}/updates`} />
    <span class="lag">${row.fault ? null : html`<span class="quiet">lag</span><${LagText} lag=${row.lag} />`}</span>
    <span class="next">${row.next_run ? html`<span class="quiet">next</span>${minute(row.next_run)}` : html`<span class="quiet">${row.fault ? '' : row.continuous ? 'continuous' : row.parked ? 'on data' : 'by hand'}</span>`}</span>
    <span class="row-end">${row.quarantine_rows > 0 && has('jobs.quarantine') && html`<a class="chip warn" href=${`${path}/quarantine`}>${counted(row.quarantine_rows, 'row')} in quarantine</a>`}
      ${needs(row) && !row.fault && has('jobs.doctor') && html`<a class="chip bad" href=${`${path}/doctor`}>Doctor</a>`}</span>
    ${worst && html`<p class="why"><span aria-hidden="true">└</span> ${worst.condition && html`<b>${worst.condition}</b>`} ${worst.what}${attempts > 1 ? html`<span class="quiet"> (${attempts} attempts of 1 request)</span>` : null}
      ${worst.remedy && html`<br /><span class="quiet">${worst.remedy}</span>`}</p>`}</li>`;
}

function Machine({ pipelines }) {
  const { data } = useData('/machine');
  const running = pipelines.filter((row) => isOpen(row.activity)).length;
  const bad = pipelines.filter(needs).length;
  const used = data?.memory && data.memory.total_bytes - data.memory.available_bytes;
  return html`<div class="summary"><h1>${counted(pipelines.length, 'pipeline')}</h1><span>${running} running</span>
    ${bad ? html`<a class="bad" href="/?show=attention"><b>✕ ${bad} ${bad === 1 ? 'needs' : 'need'} you</b></a>` : html`<span class="good">✓ none needs you</span>`}
    ${data && html`<span class="machine quiet"><span title=${data.host}>engines <b>${data.engines.running}</b> of ${data.engines.most}${data.engines.queued ? html`, <b>${data.engines.queued}</b> waiting` : ''}</span>
      ${used != null && html`<span>memory <b>${bytes(used)}</b> of ${bytes(data.memory.total_bytes)}</span>`}
      ${data.reader_of && html`<span class="warn">reads only: ${data.reader_of} serves this storage</span>`}</span>`}</div>`;
}

function Upcoming({ pipelines }) {
  const soon = pipelines.filter((row) => row.next_run).sort((one, other) => (one.next_run < other.next_run ? -1 : 1)).slice(0, 6);
  if (!soon.length) return null;
  return html`<section><h2>Next runs</h2><ul class="upcoming">${soon.map((row) => html`<li key=${row.pipeline_id}><b>${minute(row.next_run)}</b> <a href=${pathOf('p', row.name)}>${row.name}</a> <span class="quiet"><${Time} at=${row.next_run} relative /></span></li>`)}</ul></section>`;
}

export function Home() {
  const answer = useData('/pipelines');
  const machine = useData('/machine');
  const [text, setText] = useParam('q');
  const [show, setShow] = useParam('show');
  return html`<${Loaded} of=${answer} lines=${6}>${({ pipelines, faults = [] }) => {
    const kept = pipelines.filter((row) => row.name.toLowerCase().includes(text.toLowerCase())).filter(FILTERS.find(([key]) => key === show)?.[2] ?? (() => true));
    const folders = machine.data?.folders?.join(', ') || 'the folders of this server';
    return html`<${Machine} pipelines=${pipelines} />
      ${faults.map((each) => html`<div class="note bad" key=${each.file}><p><b>${each.condition}</b> ${each.what}</p><p class="quiet">${each.file} ${each.remedy ?? ''}</p></div>`)}
      ${pipelines.length ? html`<div class="toolbar"><input type="search" placeholder="Filter" aria-label="Filter pipelines" value=${text} onInput=${(event) => setText(event.target.value)} />
        <span class="choice" role="group" aria-label="Show">${FILTERS.map(([key, title, test]) => html`<button type="button" aria-pressed=${key === show} onClick=${() => setShow(key)}>${title} <span class="quiet">${pipelines.filter(test).length}</span></button>`)}</span></div>
      <ul class="pipelines">${kept.map((row) => html`<${Row} key=${row.pipeline_id} row=${row} />`)}</ul>
      ${kept.length ? null : html`<${Empty} title="No pipeline fits."><button type="button" onClick=${() => { setText(''); setShow(''); }}>Show all</button><//>`}
      <${Upcoming} pipelines=${pipelines} />`
    : html`<${Empty} title=${`No pipeline.yml below ${folders}.`}><p>This makes one that runs:</p><${Command} text="sluice init shop" /><//>`}`;
  }}<//>`;
}
