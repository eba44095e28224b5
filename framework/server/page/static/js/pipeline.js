// A pipeline: its header and tabs, and the screen of the selected tab.
import { Choice, Command, Empty, FaultBox, Loaded, Mark, Table, Time, cls, html, useEffect, useMemo, useParam, useState } from './ui.js';
import { post } from './api.js';
import { Careful } from './careful.js';
import { bytes, counted, duration, minute, number, short, shortNames, when } from './format.js';
import { Graph, nodeStates } from './graph.js';
import { Activity, LagText } from './home.js';
import { goAction, useActions } from './keys.js';
import { folded, partOf, selected } from './layers.js';
import { apiOf } from './live.js';
import { go, pathOf, setParams, useLocation } from './router.js';
import { attention, isOpen, mark, rowsOf } from './states.js';
import { jobPath, peek, useData } from './store.js';
import { watch } from './stream.js';
import { Lazy } from './lazy.js';
import { has, may, needs } from './features.js';
import { useLag } from './lag.js';

const SCREENS = {
  __proto__: null,
  updates: [() => import('./updates.js'), 'Updates'], u: [() => import('./update.js'), 'Update'], events: [() => import('./events.js'), 'Events'],
  d: [() => import('./dataset.js'), 'Dataset'], doctor: [() => import('./doctor.js'), 'Doctor'], quarantine: [() => import('./quarantine.js'), 'Quarantine'],
  ingest: [() => import('./ingest.js'), 'Ingestion'], plan: [() => import('./plan.js'), 'PlanScreen'],
};
const NEEDS = { __proto__: null, doctor: 'jobs.doctor', quarantine: 'jobs.quarantine', ingest: 'jobs.ingest-status', plan: 'jobs.plan' };
const offered = (tab) => !NEEDS[tab] || has(NEEDS[tab]);
const loadPlan = () => import('./plan.js');
const FOLD_ABOVE = 150;
// The panel beside a big graph lies over it, so that the graph is not drawn again for each click.
const SIDE_WIDTH = 360;

function Header({ row, name, tab, findings, runDialog, stopDialog }) {
  const path = pathOf('p', name);
  const tabs = [['', 'Graph'], ['updates', 'Updates'], ['events', 'Events'], ['doctor', 'Doctor', findings], ['quarantine', 'Quarantine', row.quarantine_rows], ['ingest', 'Ingestion']].filter(([key]) => offered(key));
  const open = isOpen(row.activity) || row.update;
  return html`<header class="pipeline-head"><div class="line"><h1><a href=${path}>${name}</a></h1><${Activity} row=${row} />
      ${row.update && html`<a class="quiet" href=${pathOf('p', name, 'u', row.update.update_id)}>update ${row.update.update_id.slice(0, 8)}</a>`}
      ${row.last && html`<span class="outcome"><span class="quiet">last</span><${Mark} state=${row.last.state} /><a class="quiet" href=${pathOf('p', name, 'u', row.last.update_id)}><${Time} at=${row.last.ended_at ?? row.last.created_at} /></a></span>`}
      <span class="outcome"><span class="quiet">lag</span><${LagText} lag=${row.lag} /></span>
      ${row.next_run && html`<a class="outcome" href="/schedules"><span class="quiet">next</span>${minute(row.next_run)}</a>`}
      <span class="spring"></span>${has('jobs.plan') && html`<button type="button" class="main" disabled=${!may('operate')} title=${needs('operate')} onClick=${runDialog}>Plan & run</button>`}<button type="button" disabled=${!open || !may('operate')} title=${needs('operate')} onClick=${stopDialog}>Stop</button></div>
    <nav class="tabs" aria-label=${`Pipeline ${name}`}>${tabs.map(([key, title, badge]) => html`<a href=${key ? `${path}/${key}` : path} aria-current=${tab === key || (key === 'updates' && tab === 'u') || (!key && tab === 'd') ? 'page' : null}>${title}${badge ? html`<span class=${cls('badge', key)}>${short(badge)}</span>` : null}</a>`)}</nav></header>`;
}

// What a plan or an examination of this pipeline says that would fail, by dataset.
function useForetold(name) {
  const plan = peek(jobPath(name, 'plan', {}));
  const doctor = useData(has('jobs.doctor') ? apiOf(name, 'doctor') : null).data;
  return useMemo(() => {
    const found = new Map();
    for (const step of plan?.steps ?? []) if (step.broken) found.set(step.dataset, step.broken.problem);
    for (const step of plan?.steps ?? []) if (step.kind === 'refuse_table') found.set(step.dataset, step.reason);
    for (const finding of doctor?.examination?.findings ?? []) if (finding.dataset) found.set(finding.dataset, finding.meaning);
    return found;
  }, [plan, doctor]);
}

const GRAPH_HINT = '+orders   orders+   schema:silver   state:failed';

function useShown(graph, states, text) {
  const [group] = useParam('group');
  const [fold] = useParam('fold');
  const { layout } = graph;
  const big = layout.nodes.length > FOLD_ABOVE;
  const stateOf = (id) => (states.get(id)?.broken ? 'failed' : mark(states.get(id)?.state).key);
  const stateWords = /state:/.test(text) ? states : null;
  const ids = useMemo(() => selected(text, layout.nodes, layout.edges, stateOf), [text, layout, stateWords]);
  const shown = useMemo(() => {
    if (group) return partOf(layout, new Set(layout.nodes.filter((node) => (node.group || 'other') === group).map((node) => node.id)), { around: true });
    if (ids?.size && ids.size < layout.nodes.length && (big || /[+:]/.test(text))) return partOf(layout, ids);
    return big && fold !== '0' ? folded(layout) : layout;
  }, [layout, group, ids, big, fold]);
  return { shown, ids, big, group, isFolded: shown.nodes[0]?.kind === 'group' };
}

function groupStates(shown, states) {
  const found = new Map();
  for (const node of shown.nodes) {
    const inside = node.members.map((id) => states.get(id)).filter(Boolean);
    const worst = inside.sort((one, other) => attention(one.state) - attention(other.state))[0];
    if (worst) found.set(node.id, { state: worst.state, broken: inside.find((each) => each.broken)?.broken });
  }
  return found;
}

function FlowList({ graph, states, lags, foretold, name, ids, short: shorten }) {
  const rows = graph.graph.flows.filter((flow) => !ids || ids.has(flow.target)).map((flow) => ({ flow, state: states[flow.name], lag: lags.get(flow.name) }))
    .sort((one, other) => Number(foretold.has(other.flow.target)) - Number(foretold.has(one.flow.target)) || attention(one.state?.state) - attention(other.state?.state));
  const columns = [
    ['flow', ({ flow }) => html`<a href=${pathOf('p', name, 'd', flow.target)}>${flow.name === flow.target ? shorten(flow.name) : `${shorten(flow.name)} into ${shorten(flow.target)}`}</a>`, 'name'],
    ['state', ({ state, flow }) => (foretold.has(flow.target) && !state?.state?.includes('FAIL') ? html`<${Mark} state="failed" word="would fail" />` : html`<${Mark} state=${state?.state ?? 'never'} />`)],
    ['rows', ({ state }) => (rowsOf(state) == null ? '' : number(rowsOf(state))), 'right'],
    ['unread', ({ lag }) => (lag ? `${number(lag.records)} rows` : html`<span class="quiet">?</span>`), 'right'],
    ['reason', ({ state, flow }) => foretold.get(flow.target) || state?.reason || '', 'wrap quiet'],
  ];
  return html`<${Table} label="Flows by attention" columns=${columns} rows=${rows} keyOf=${({ flow }) => `${flow.name} ${flow.target}`} open=${({ flow }) => go(pathOf('p', name, 'd', flow.target))} />`;
}

function Side({ node, graph, states, lags, foretold, name, close, shorten }) {
  const dataset = graph.graph.datasets.find((each) => each.name === node);
  const flows = graph.graph.flows.filter((flow) => flow.target === node || `flow ${flow.name}` === node);
  const readers = graph.graph.flows.filter((flow) => flow.reads.some((read) => read.name === node));
  const title = dataset ? shorten(dataset.name) : node.replace(/^(external|folder|flow|source of) /, '');
  return html`<aside class="side" aria-label=${`Selected: ${title}`}><header><h2 title=${node}>${title}</h2><button type="button" class="quiet-button" aria-label="Close" onClick=${close}>✕</button></header>
    <p class="quiet">${dataset ? dataset.kind.replaceAll('_', ' ') : 'outside of the pipeline'}${dataset?.comment ? html`<br />${dataset.comment}` : null}</p>
    ${foretold.has(node) && html`<div class="note bad"><p><b>✕ would fail</b> ${foretold.get(node)}</p>${offered('doctor') && html`<a href=${pathOf('p', name, 'doctor')}>Ways out</a>`}</div>`}
    ${dataset?.error && html`<div class="note bad"><pre>${dataset.error}</pre></div>`}
    ${flows.map((flow) => {
      const [state, lag] = [states[flow.name], lags.get(flow.name)];
      return html`<section key=${flow.name}>${flow.name !== node && html`<h3>${shorten(flow.name)}</h3>`}<${Mark} state=${state?.state ?? 'never'} />
        <dl class="facts">${state?.rows_written != null && !state.rows_upserted && html`<div><dt>written</dt><dd>${counted(state.rows_written, 'row')}</dd></div>`}
          ${state?.rows_upserted ? html`<div><dt>upserted</dt><dd>${counted(state.rows_upserted, 'row')}</dd></div>` : null}${state?.rows_deleted ? html`<div><dt>deleted</dt><dd>${counted(state.rows_deleted, 'row')}</dd></div>` : null}${state?.rows_dropped ? html`<div><dt>dropped</dt><dd class="warn">${counted(state.rows_dropped, 'row')}</dd></div>` : null}
          ${state?.seconds != null && html`<div><dt>time</dt><dd>${duration(state.seconds)}</dd></div>`}<div><dt>unread</dt><dd>${lag ? `${number(lag.records)} rows, ${bytes(lag.bytes)}, ${duration(lag.seconds)}` : '?'}</dd></div>
          ${flow.declared_at && html`<div><dt>declared at</dt><dd><code>${flow.declared_at}</code></dd></div>`}</dl>${state?.reason && html`<p class="quiet">${state.reason}</p>`}</section>`;
    })}
    ${readers.length ? html`<p class="quiet">Read by ${readers.map((flow, index) => html`${index ? ', ' : ''}<button type="button" class="link" onClick=${() => setParams({ d: flow.target })}>${shorten(flow.target)}</button>`)}</p>` : null}
    ${dataset && html`<p class="buttons"><a class="button main" href=${pathOf('p', name, 'd', node)}>Open</a>
      ${has('jobs.rows') && may('read') && html`<a class="button" href=${`${pathOf('p', name, 'd', node)}?tab=rows`}>Rows</a>`}<a class="button" href=${`${pathOf('p', name, 'd', node)}?tab=quality`}>Quality</a>
      <a class="button" href=${`${pathOf('p', name, 'events')}?dataset=${encodeURIComponent(node)}`}>Events</a>${has('jobs.plan') && html`<button type="button" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setParams({ run: node, d: null })}>Run only this</button>`}</p>`}</aside>`;
}

function tally(graph, states, foretold) {
  const words = new Map();
  for (const flow of graph.graph.flows) {
    const word = foretold.has(flow.target) ? 'would fail' : mark(states[flow.name]?.state ?? 'never').word;
    words.set(word, (words.get(word) ?? 0) + 1);
  }
  return `${counted(graph.graph.flows.length, 'flow')}: ${[...words].map(([word, count]) => `${count} ${word}`).join(', ')}`;
}

function GraphScreen({ name, row, runDialog }) {
  const answer = useData(apiOf(name, 'graph'));
  const lag = useLag(name);
  const foretold = useForetold(name);
  if (answer.fault?.status === 404 && answer.data === undefined) {
    return html`<${Empty} title=${row.last ? 'No graph is stored yet.' : 'Never run.'}>${has('jobs.plan') && may('operate') && html`<p>The plan shows what the first run does; nothing is started by it.</p><p class="buttons"><button type="button" class="main" onClick=${runDialog}>Plan</button></p>`}<${Command} text="sluice validate" /><//>`;
  }
  return html`<${Loaded} of=${answer} lines=${8} command="sluice graph">${(graph) => html`<${GraphView} graph=${graph} lag=${lag} foretold=${foretold} name=${name} />`}<//>`;
}

function GraphView({ graph, lag, foretold, name }) {
  const [text, setText] = useParam('select');
  const [chosen, setChosen] = useParam('d');
  const [view, setView] = useParam('view', matchMedia('(max-width: 640px)').matches ? 'list' : 'graph');
  const states = useMemo(() => nodeStates(graph.graph, graph.states ?? {}, foretold), [graph, foretold]);
  const lags = useMemo(() => new Map(lag.flows.map((each) => [each.flow, each])), [lag.flows]);
  const { shown, ids, big, group, isFolded } = useShown(graph, states, text);
  const shorten = useMemo(() => shortNames(graph.graph.datasets.map((each) => each.name)), [graph.graph]);
  const flowOf = useMemo(() => {
    const byPair = new Map(graph.graph.flows.flatMap((flow) => flow.reads.map((read) => [`${read.name}\n${flow.target}`, flow.name])));
    const byTarget = new Map(graph.graph.flows.map((flow) => [flow.target, flow.name]));
    return (edge) => edge.flow ?? (edge.kind === 'stream' ? byPair.get(`${edge.from}\n${edge.to}`) ?? byTarget.get(edge.to) : null);
  }, [graph.graph]);
  const shownStates = useMemo(() => (isFolded ? groupStates(shown, states) : states), [shown, states]);
  const choose = useMemo(() => (id) => (id?.startsWith('group ') ? setParams({ group: id.slice(6) }, { push: true }) : setParams({ d: id })), []);
  const open = useMemo(() => (id) => graph.graph.datasets.some((each) => each.name === id) && go(pathOf('p', name, 'd', id)), [graph.graph, name]);
  const faults = graph.graph.datasets.filter((each) => each.error);
  const dimmed = ids && shown === graph.layout ? ids : null;
  if (!graph.layout.nodes.length) return html`<${Empty} title="This pipeline declares no dataset."><p>A function with <code>@table</code> declares one.</p><//>`;
  return html`<div class="toolbar"><input type="search" class="wide-field" placeholder=${GRAPH_HINT} aria-label="Select datasets" title=${`Search, or select: ${GRAPH_HINT}`} value=${text} onInput=${(event) => setText(event.target.value)} />
      ${text && html`<span class="quiet" role="status">${ids?.size ?? 0} selected</span>`}
      ${ids?.size && has('jobs.plan') ? html`<button type="button" disabled=${!may('operate')} onClick=${() => setParams({ run: [...ids].filter((id) => graph.graph.datasets.some((each) => each.name === id)).join(',') })}>Run these</button>` : null}
      ${group && html`<span class="chip">group ${group} <button type="button" class="quiet-button" aria-label="Show all groups" onClick=${() => setParams({ group: null })}>✕</button></span>`}
      ${big && !group && view === 'graph' && html`<button type="button" onClick=${() => setParams({ fold: isFolded ? '0' : null })}>${isFolded ? `Show all ${number(graph.layout.nodes.length)} nodes` : 'Fold into groups'}</button>`}
      <span class="spring"></span><${Choice} label="View" value=${view} set=${setView} of=${[['graph', 'Graph'], ['list', 'List']]} /></div>
    ${faults.length ? html`<div class="note bad" role="alert"><p><b>✕ ${counted(faults.length, 'definition')} can't be resolved.</b> Its nodes have a dashed red border.</p>${faults.map((each) => html`<pre key=${each.name}>${each.error}</pre>`)}</div>` : null}
    <div class=${cls('graph-row', chosen && 'with-side', big && view !== 'list' && 'over')}>${view === 'list'
    ? html`<div class="grow"><${FlowList} graph=${graph} states=${graph.states ?? {}} lags=${lags} foretold=${foretold} name=${name} ids=${ids} short=${shorten} /></div>`
    : html`<${Graph} layout=${shown} states=${shownStates} lags=${lags} foretold=${foretold} chosen=${chosen} dimmed=${dimmed} choose=${choose} open=${open} flowOf=${flowOf} covered=${big ? SIDE_WIDTH : 0} label=${`Graph of ${name}`} />`}
      ${chosen && html`<${Side} node=${chosen} graph=${graph} states=${graph.states ?? {}} lags=${lags} foretold=${foretold} name=${name} shorten=${shorten} close=${() => setChosen('')} />`}</div>
    <p class="quiet graph-foot">${tally(graph, graph.states ?? {}, foretold)}${lag.at ? html`. Unread rows measured at ${when(lag.at)}` : ''}${lag.measure ? html`. <button type="button" class="link" onClick=${lag.measure} disabled=${lag.busy}>${lag.busy ? 'Measuring…' : 'Measure unread rows'}</button>` : ''}</p><${FaultBox} fault=${lag.fault} />`;
}

function StopDialog({ name, row, close }) {
  return html`<${Careful} title=${`Stop ${name}`} verb="Stop" tone="danger" hasDryRun=${false} cli="sluice stop" close=${close} run=${({ reason }) => post(apiOf(name, 'stop'), { reason: reason ?? '', update_id: row.update?.update_id })}>
    <p>The flows end after their present batch, and their checkpoints stay consistent. The next update continues from there: nothing is lost or repeated.</p>
    ${row.update && html`<p class="quiet">Update ${row.update.update_id.slice(0, 8)}, started by ${row.update.user ?? 'someone'}${row.update.host ? ` on ${row.update.host}` : ''}</p>`}<//>`;
}

export function Pipeline({ name, parts }) {
  const answer = useData(apiOf(name));
  const list = useData('/pipelines').data?.pipelines;
  const row = answer.data ?? list?.find((each) => each.name === name || each.pipeline_id === name);
  const doctor = useData(has('jobs.doctor') ? apiOf(name, 'doctor') : null).data;
  const { query } = useLocation();
  const [stopping, setStopping] = useState(false);
  const tab = parts[0] ?? '';
  const path = pathOf('p', name);
  const runDialog = () => setParams({ run: 'all' });
  useEffect(() => watch(row?.pipeline_id), [row?.pipeline_id]);
  useActions([
    has('jobs.plan') && may('operate') && { key: 'r', title: `Plan and run ${name}`, cli: 'sluice plan', run: runDialog },
    row?.update && may('operate') && { key: 's', title: `Stop ${name}`, cli: 'sluice stop', run: () => setStopping(true) },
    { ...goAction('g p', `Graph of ${name}`, path), cli: 'sluice graph' }, goAction('g u', `Updates of ${name}`, `${path}/updates`), { ...goAction('g e', `Events of ${name}`, `${path}/events`), cli: 'sluice events' },
    offered('doctor') && { ...goAction('g d', `Doctor of ${name}`, `${path}/doctor`), cli: 'sluice doctor' }, offered('quarantine') && { ...goAction('g q', `Quarantine of ${name}`, `${path}/quarantine`), cli: 'sluice quarantine list' },
    offered('ingest') && { ...goAction('g i', `Ingestion of ${name}`, `${path}/ingest`), cli: 'sluice ingest status' },
  ], [name, row?.update?.update_id]);
  if (!row) return answer.fault ? html`<${FaultBox} fault=${answer.fault} retry=${answer.reload} />` : html`<div class="placeholder" aria-busy="true"><i></i><i></i><i></i></div>`;
  const screen = offered(tab) ? SCREENS[tab] : null;
  if (tab && !screen) return html`<${Empty} title=${`There is nothing at ${location.pathname}.`}><a href=${path}>${name}</a><//>`;
  return html`<${Header} row=${row} name=${name} tab=${tab} findings=${doctor?.examination?.findings?.length} runDialog=${runDialog} stopDialog=${() => setStopping(true)} />
    ${row.fault && html`<div class="note bad" role="alert"><p><b>${row.fault.condition}</b> ${row.fault.what}</p><p>${row.fault.remedy}</p></div>`}
    ${screen ? html`<${Lazy} key=${tab} load=${screen[0]} name=${screen[1]} pipeline=${name} row=${row} parts=${parts.slice(1)} />` : html`<${GraphScreen} name=${name} row=${row} runDialog=${runDialog} />`}
    ${query.get('run') && has('jobs.plan') && may('operate') && html`<${Lazy} load=${loadPlan} name="PlanDialog" pipeline=${name} row=${row} selection=${query.get('run')} close=${() => setParams({ run: null })} />`}
    ${stopping && html`<${StopDialog} name=${name} row=${row} close=${() => setStopping(false)} />`}`;
}
