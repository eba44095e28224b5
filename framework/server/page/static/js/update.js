// One update: its timeline, flows, plan, comparison with the one before, and the end of its log.
import { Choice, Empty, Loaded, Mark, Table, Tabs, Tile, Time, VirtualList, cls, html, useMemo, useNow, useParam, useState } from './ui.js';
import { post } from './api.js';
import { Careful } from './careful.js';
import { counted, dayAndTime, duration, number, shortNames, stopwatch } from './format.js';
import { EventList } from './events.js';
import { apiOf } from './live.js';
import { pathOf } from './router.js';
import { attention, isBad, isOpen, mark, rowsOf } from './states.js';
import { useData } from './store.js';
import { has, may, needs } from './features.js';

const ROW = 30;
// The time of a flow; while it runs, up to now.
const lasted = (flow, now) => {
  const open = isOpen(flow.state) && flow.spans.find((span) => !span.ended_at);
  if (open) return duration(Math.round((now - Date.parse(open.started_at)) / 1000));
  return flow.seconds == null ? '' : duration(flow.seconds);
};
const rowsText = (flow) => (flow.rows_upserted || flow.rows_deleted ? [flow.rows_upserted && `${number(flow.rows_upserted)} up`, flow.rows_deleted && `${number(flow.rows_deleted)} del`].filter(Boolean).join(', ') : flow.rows_written == null ? '' : number(flow.rows_written));

function Timeline({ update, pipeline, now, shorten, focused }) {
  const [by, setBy] = useParam('by', 'time');
  const start = Date.parse(update.created_at);
  const end = Math.max(start + 1000, update.ended_at ? Date.parse(update.ended_at) : now, ...update.flows.flatMap((flow) => flow.spans.map((span) => Date.parse(span.ended_at ?? span.started_at))));
  const share = (at) => (100 * (at - start)) / (end - start);
  const flows = useMemo(() => [...update.flows].sort(by === 'attention' ? (one, other) => attention(one.state) - attention(other.state)
    : (one, other) => Date.parse(one.spans[0]?.started_at ?? '9999') - Date.parse(other.spans[0]?.started_at ?? '9999')), [update.flows, by]);
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  const draw = (flow, style) => html`<div class=${cls('gantt-row', flow.flow === focused && 'selected')} style=${style} key=${`${flow.flow} ${flow.dataset}`} data-row>
    <a class="name" title=${flow.flow} href=${pathOf('p', pipeline, 'd', flow.dataset)}>${shorten(flow.flow)}</a>
    <div class="bars-area">${flow.spans.map((span) => {
      const [from, to] = [share(Date.parse(span.started_at)), share(span.ended_at ? Date.parse(span.ended_at) : now)];
      const found = mark(span.state ?? flow.state);
      return html`<i class=${cls('span', found.tone, found.key)} title=${`${found.word}, ${duration(((to - from) * (end - start)) / 100000)}`} style=${{ left: `${from}%`, width: `max(5px, ${to - from}%)` }}></i>`;
    })}</div><span class="num quiet">${lasted(flow, now)}</span><${Mark} state=${flow.state} title=${flow.reason} /><span class="num rows">${rowsText(flow)}</span></div>`;
  if (!flows.length) return html`<${Empty} title=${isOpen(update.state) ? 'No flow has started yet.' : 'No flow ran.'} />`;
  return html`<div class="toolbar"><${Choice} label="Order" value=${by} set=${setBy} of=${[['time', 'By start'], ['attention', 'By attention']]} /></div>
    <div class="gantt"><div class="gantt-axis" aria-hidden="true">${ticks.map((tick) => html`<span style=${{ left: `${tick * 100}%` }}>${duration((tick * (end - start)) / 1000)}</span>`)}</div>
      <${VirtualList} rows=${flows} height=${ROW} draw=${draw} most=${1e5} label="Timeline of the flows" focus=${focused ? (flow) => flow.flow === focused : null} /></div>`;
}

function Flows({ update, pipeline, shorten }) {
  const rows = [...update.flows].sort((one, other) => attention(one.state) - attention(other.state));
  const columns = [
    ['flow', (each) => html`<a href=${pathOf('p', pipeline, 'd', each.dataset)}>${shorten(each.flow)}</a>`, 'name'], ['state', (each) => html`<${Mark} state=${each.state} />`], ['rows', rowsText, 'right'],
    ['time', (each) => (each.seconds == null ? '' : duration(each.seconds)), 'right'],
    ['failed', (each) => (each.records_failed ? html`<span class="warn">${number(each.records_failed)}</span>` : ''), 'right'], ['dropped', (each) => (each.rows_dropped ? html`<span class="warn">${number(each.rows_dropped)}</span>` : ''), 'right'], ['reason', (each) => each.reason, 'wrap quiet'],
  ];
  return html`<${Table} label="Flows" columns=${columns} rows=${rows} keyOf=${(each) => `${each.flow} ${each.dataset}`} />`;
}

function PlanHad({ update, pipeline, shorten }) {
  const options = Object.entries(update.options ?? {}).filter(([, value]) => value === true || value?.length);
  return html`${options.length ? html`<dl class="facts">${options.map(([name, value]) => html`<div><dt>${name.replaceAll('_', ' ')}</dt><dd>${value === true ? 'yes' : [].concat(value).join(', ')}</dd></div>`)}</dl>` : html`<p class="quiet">All datasets, refreshed.</p>`}
    ${update.plan?.length ? html`<${Table} label="Plan" rows=${update.plan} columns=${[['dataset', (each) => html`<a href=${pathOf('p', pipeline, 'd', each.dataset)}>${shorten(each.dataset)}</a>`, 'name'],
      ['flow', (each) => (each.flow && each.flow !== each.dataset ? shorten(each.flow) : '')], ['technique', (each) => each.technique ?? ''], ['reason', (each) => each.reason, 'wrap quiet']]} />` : html`<${Empty} title="The log has no plan of this update." />`}`;
}

// Where this update was slower or wrote other numbers than the one before, and which reasons of the plan differ.
export function compared(update, other) {
  const before = new Map(other.flows.map((flow) => [`${flow.flow} ${flow.dataset}`, flow]));
  const reasons = (each) => new Map((each.plan ?? []).map((step) => [step.flow ?? step.dataset, step.reason]));
  const [now, then] = [reasons(update), reasons(other)];
  const rows = update.flows.map((flow) => {
    const old = before.get(`${flow.flow} ${flow.dataset}`);
    before.delete(`${flow.flow} ${flow.dataset}`);
    return { flow, old, slower: flow.seconds != null && old?.seconds != null ? flow.seconds - old.seconds : null, why: now.get(flow.flow) !== then.get(flow.flow) ? now.get(flow.flow) : '', was: then.get(flow.flow) };
  });
  const gone = [...before.values()].map((old) => ({ flow: { ...old, state: null, seconds: null, rows_written: null }, old, slower: null, why: 'not in this update' }));
  return [...rows, ...gone].sort((one, two) => Math.abs(two.slower ?? 0) - Math.abs(one.slower ?? 0));
}

function Compare({ update, pipeline, shorten }) {
  const list = useData(`${apiOf(pipeline, 'updates')}?limit=50`).data;
  const [chosen, setChosen] = useParam('with');
  const others = (list?.requests ?? []).flatMap((each) => each.attempts).filter((each) => each.update_id !== update.update_id);
  const earlier = others.filter((each) => each.created_at < update.created_at && each.request_id !== update.request_id).sort((one, two) => (one.created_at < two.created_at ? 1 : -1));
  const other = chosen || earlier.find((each) => each.state === 'COMPLETED')?.update_id || earlier[0]?.update_id;
  const answer = useData(other ? apiOf(pipeline, 'updates', other) : null);
  if (list && !other) return html`<${Empty} title="There is no update before it." />`;
  const delta = (row) => (row.slower == null ? '' : Math.abs(row.slower) < 0.05 ? html`<span class="quiet">same</span>` : html`<span class=${row.slower > 0.5 && row.slower > row.old.seconds * 0.2 ? 'warn' : 'quiet'}>${row.slower >= 0 ? '+' : '−'}${duration(Math.abs(row.slower))}${row.old.seconds > 0 ? ` (${row.slower >= 0 ? '+' : '−'}${Math.abs(Math.round((100 * row.slower) / row.old.seconds))} %)` : ''}</span>`);
  return html`<div class="toolbar"><label>Compared with <select value=${other} onChange=${(event) => setChosen(event.target.value)}>${others.map((each) => html`<option value=${each.update_id} selected=${each.update_id === other}>${dayAndTime(each.created_at)} ${mark(each.state).word} ${each.update_id.slice(0, 8)}</option>`)}</select></label></div>
    <${Loaded} of=${answer}>${(before) => html`<p>This one took <b>${duration(update.seconds)}</b>, the other <b>${duration(before.seconds)}</b>.</p>
      <${Table} label="Comparison" rows=${compared(update, before)} keyOf=${(row) => row.flow.flow} columns=${[['flow', (row) => html`<span title=${row.flow.flow}>${shorten(row.flow.flow)}</span>`, 'name'],
    ['state', (row) => html`${row.flow.state ? html`<${Mark} state=${row.flow.state} />` : ''}${row.old && row.old.state !== row.flow.state ? html` <span class="quiet">was ${mark(row.old.state).word}</span>` : ''}`],
    ['time', (row) => (row.flow.seconds == null ? '' : duration(row.flow.seconds)), 'right'], ['before', (row) => (row.old?.seconds == null ? '' : duration(row.old.seconds)), 'right'], ['slower', delta, 'right'],
    ['rows', (row) => rowsText(row.flow), 'right'], ['before', (row) => (row.old ? rowsText(row.old) : ''), 'right'], ['why', (row) => (row.why ? html`${row.why}${row.was ? html`<br /><span class="quiet">before: ${row.was}</span>` : ''}` : ''), 'wrap quiet']]} />`}<//>`;
}

function Log({ update, pipeline }) {
  const answer = useData(apiOf(pipeline, 'updates', update.update_id, 'log'));
  return html`<${Loaded} of=${answer}>${(log) => html`${log.is_cut && html`<p class="quiet">The last 64 kB.</p>`}<pre class="log" tabindex="0">${log.text || 'It wrote nothing.'}</pre>`}<//>`;
}

function Lost({ update, pipeline }) {
  const answer = useData(update.log && may('read') ? apiOf(pipeline, 'updates', update.update_id, 'log') : null);
  const lines = answer.data?.text.trimEnd().split('\n').slice(-40).join('\n');
  return html`<div class="note bad" role="alert"><p><b>? lost</b> Its process ended without a word${update.host ? ` on ${update.host}` : ''}${update.pid ? ` (process ${update.pid})` : ''}. Checkpoints are consistent: the next update continues.</p>${lines && html`<details open><summary>Last lines</summary><pre class="log">${lines}</pre></details>`}</div>`;
}

function Head({ update, pipeline, now, rewind }) {
  const attempts = update.request?.attempts ?? [];
  const seconds = update.ended_at ? update.seconds : (now - Date.parse(update.created_at)) / 1000;
  const written = update.flows.reduce((sum, flow) => sum + (rowsOf(flow) ?? 0), 0);
  return html`<div class="line update-head"><h2>Update <code>${update.update_id.slice(0, 8)}</code></h2><${Mark} state=${update.state} />
      ${attempts.length > 1 && html`<span class="attempts quiet">attempt ${update.attempt} of ${attempts.length}: ${attempts.map((each) => html`<a href=${pathOf('p', pipeline, 'u', each.update_id)} aria-current=${each.update_id === update.update_id ? 'true' : null}><${Mark} state=${each.state} bare title=${`attempt ${each.attempt}`} /></a>`)}</span>`}
      <span class="spring"></span>${update.state === 'COMPLETED' && has('jobs.rewind') && html`<button type="button" disabled=${!may('operate')} title=${needs('operate')} onClick=${rewind}>Rewind to its end…</button>`}</div>
    <div class="tiles"><${Tile} label=${isOpen(update.state) ? 'running for' : 'took'}>${isOpen(update.state) ? stopwatch(seconds) : duration(seconds)}<//><${Tile} label="rows written">${number(written)}<//>
      <${Tile} label="flows" sub=${update.flows.filter((flow) => isBad(flow.state)).length ? html`<span class="bad">✕ ${update.flows.filter((flow) => isBad(flow.state)).length} failed</span>` : ''}>${update.flows.length}<//>
      <${Tile} label="started" sub=${update.kind?.toLowerCase().replaceAll('_', ' ')}><${Time} at=${update.created_at} /><//>
      <${Tile} label="by" sub=${update.started_by === 'server' ? update.cause?.toLowerCase().replaceAll('_', ' ') : `sluice run in a terminal${update.host ? `, ${update.host}` : ''}`}>${update.user ?? '?'}<//></div>`;
}

function Body({ update, pipeline }) {
  const [tab] = useParam('tab', 'timeline');
  const [focused] = useParam('flow');
  const [rewinding, setRewinding] = useState(false);
  const now = useNow(isOpen(update.state));
  const shorten = useMemo(() => shortNames(update.flows.map((flow) => flow.flow)), [update.flows]);
  const shared = { update, pipeline, shorten };
  const screens = {
    timeline: () => html`<${Timeline} ...${shared} now=${now} focused=${focused} />`, flows: () => html`<${Flows} ...${shared} />`, events: () => html`<${EventList} pipeline=${pipeline} fixed=${{ update_id: update.update_id }} />`,
    plan: () => html`<${PlanHad} ...${shared} />`, compare: () => html`<${Compare} ...${shared} />`, log: () => html`<${Log} ...${shared} />`,
  };
  const cli = `sluice rewind --to ${update.update_id}`;
  return html`<${Head} update=${update} pipeline=${pipeline} now=${now} rewind=${() => setRewinding(true)} />
    ${update.state === 'LOST' ? html`<${Lost} ...${shared} />` : update.error && html`<div class="note bad" role="alert"><pre>${update.error}</pre>${isBad(update.state) && has('jobs.doctor') && html`<a class="button" href=${pathOf('p', pipeline, 'doctor')}>Ways out</a>`}</div>`}
    <${Tabs} label="Parts of the update" selected=${tab} of=${[['timeline', 'Timeline'], ['flows', 'Flows'], ['events', 'Events'], ['plan', 'Plan it had'], ['compare', 'Compare'], ...(update.log && may('read') ? [['log', 'Log']] : [])]} />
    ${(screens[tab] ?? screens.timeline)()}
    ${rewinding && html`<${Careful} title="Rewind to the end of this update" cli=${cli} kind="rewind" verb="Rewind" tone="danger" close=${() => setRewinding(false)} show=${(plan) => html`<${RewindPlan} plan=${plan} />`} run=${(body) => post(apiOf(pipeline, 'jobs', 'rewind'), { to: update.update_id, datasets: [], ...body })}>
      <p>Restores all streaming tables to their versions at ${dayAndTime(update.ended_at)}, and lets their flows continue from there. The next update reads again, with the present code, what they have read since.</p><//>`}`;
}

function RewindPlan({ plan }) {
  if (!plan?.tables) return html`<p>${JSON.stringify(plan)}</p>`;
  return html`<p>${counted(plan.tables.length, 'table')} and ${counted(plan.flows.length, 'flow')} go back to ${dayAndTime(plan.time)}.</p>
    <${Table} label="Tables" rows=${plan.tables} columns=${[['table', (each) => each.table, 'name'], ['version', (each) => `${each.version_before} → ${each.version_after}`, 'right'], ['rows', (each) => `${number(each.rows_before)} → ${number(each.rows_after)}`, 'right']]} />
    ${plan.flows.map((each) => html`<p class="quiet">${each.flow}: ${each.reads.join('; ')}</p>`)}`;
}

export function Update({ pipeline, parts }) {
  const answer = useData(parts[0] ? apiOf(pipeline, 'updates', parts[0]) : null);
  if (answer.fault?.status === 404) return html`<${Empty} title="This pipeline has no such update."><a href=${pathOf('p', pipeline, 'updates')}>All updates</a><//>`;
  return html`<${Loaded} of=${answer} lines=${8}>${(update) => html`<${Body} key=${update.update_id} update=${update} pipeline=${pipeline} />`}<//>`;
}
