// A dataset: columns, rows, quality over time, flows with their generations, history of versions, lineage.
import { Choice, Command, Copy, Empty, FaultBox, Loaded, Mark, Table, Tabs, Time, cls, html, useMemo, useParam, useState } from './ui.js';
import { post } from './api.js';
import { Careful } from './careful.js';
import { Chart } from './chart.js';
import { bytes, copied, counted, dayAndTime, duration, lastPart, number, shortNames, valueText, when } from './format.js';
import { Graph, nodeStates } from './graph.js';
import { closure, neighbours, partOf } from './layers.js';
import { apiOf } from './live.js';
import { go, pathOf, setParams } from './router.js';
import { jobPath, useData } from './store.js';
import { has, may, needs } from './features.js';
import { useLag } from './lag.js';

const ACTIONS = { __proto__: null, warn: 'are kept', drop: 'are dropped', fail: 'fail the update' };
const typeText = (type) => {
  if (typeof type === 'string') return type;
  if (type?.type === 'array') return `array<${typeText(type.elementType)}>`;
  if (type?.type === 'map') return `map<${typeText(type.keyType)},${typeText(type.valueType)}>`;
  return type?.type === 'struct' ? `struct<${type.fields.map((field) => `${field.name}:${typeText(field.type)}`).join(',')}>` : JSON.stringify(type);
};

function Columns({ dataset }) {
  const fields = dataset.schema?.fields ?? [];
  if (!dataset.schema) return html`<${Empty} title=${/sink/.test(dataset.kind) ? 'A sink has no columns of its own.' : 'Its columns are not known yet.'}>${/sink/.test(dataset.kind) ? null : html`<${Command} text="sluice validate" />`}<//>`;
  return html`<${Table} label="Columns" rows=${fields} keyOf=${(field) => field.name} columns=${[['column', (field) => html`${field.name}${dataset.keys?.includes(field.name) ? html` <span class="chip">key</span>` : ''}`, 'name'],
    ['type', (field) => html`<code>${typeText(field.type)}</code>`], ['null', (field) => (field.nullable ? 'allowed' : 'never')], ['comment', (field) => field.metadata?.comment ?? '', 'wrap quiet']]} />
    ${dataset.expectations.length ? html`<h3>Expectations</h3><${Table} label="Expectations" rows=${dataset.expectations} columns=${[['name', (each) => each.name, 'name'], ['condition', (each) => html`<code>${each.condition}</code>`, 'wrap'], ['rows that fail', (each) => (ACTIONS[each.action] ?? each.action)]]} />` : null}`;
}

function Cells({ rows, types }) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const numeric = (name) => rows.some((row) => row[name] != null) && rows.every((row) => row[name] == null || typeof row[name] === 'number');
  const columns = names.map((name) => [html`${name}<br /><span class="quiet type-name">${types.get(name) ?? ''}</span>`, (row) => (row[name] == null ? html`<i class="null">null</i>` : valueText(row[name])), numeric(name) ? 'right' : 'cell']);
  return html`<${Table} raw label="Rows" rows=${rows} columns=${columns} />`;
}

function Rows({ dataset, pipeline }) {
  const [version, setVersion] = useParam('version');
  const [limit, setLimit] = useParam('limit', '100');
  const [form, setForm] = useState('CSV');
  const body = { dataset: dataset.name, limit: Number(limit), ...(version ? { version: Number(version) } : {}) };
  const answer = useData(dataset.folder === null && /table|view/.test(dataset.kind) && !dataset.versions?.length && dataset.kind !== 'temporary_view' ? null : jobPath(pipeline, 'rows', body));
  const types = useMemo(() => new Map((dataset.schema?.fields ?? []).map((field) => [field.name, typeText(field.type)])), [dataset]);
  if (/sink/.test(dataset.kind)) return html`<${Empty} title="A sink has no rows to read back." />`;
  if (dataset.kind === 'temporary_view') return html`<${Empty} title="A view is not stored."><p>Its readers compute it.</p><${Command} text=${`sluice sql "SELECT * FROM ${lastPart(dataset.name)} LIMIT 10"`} /><//>`;
  if (!dataset.versions?.length && dataset.folder === null) return html`<${Empty} title="Not materialized yet."><p>The first update that runs it makes the table.</p><//>`;
  return html`<div class="toolbar">${has('jobs.rows.version') && html`<label>at version <select value=${version} onChange=${(event) => setVersion(event.target.value)}><option value="">newest</option>${(dataset.versions ?? []).map((each) => html`<option value=${each.version} selected=${String(each.version) === version}>${each.version}, ${when(each.timestamp)}</option>`)}</select></label>`}
      <${Choice} label="Number of rows" value=${limit} set=${setLimit} of=${[['100', '100'], ['1000', '1,000']]} /><button type="button" onClick=${answer.reload}>Read again</button><span class="spring"></span>
      <${Choice} label="Copy as" value=${form} set=${setForm} of=${[['CSV', 'CSV'], ['JSON', 'JSON'], ['VALUES', 'VALUES']]} />${answer.data && html`<${Copy} label="Copy rows" title=${`Copy as ${form}`} text=${() => { const rows = answer.data.rows ?? answer.data; return copied(rows, [...types.keys()].length ? [...types.keys()] : Object.keys(rows[0] ?? {}), form); }} />`}</div>
    ${answer.loading && html`<p class="quiet" role="status">Reading rows${answer.place ? `, place ${answer.place} in the queue` : ''}. The first read starts Spark, which takes some seconds.</p>`}
    <${Loaded} of=${answer} command=${`sluice show ${lastPart(dataset.name)}`}>${(data) => {
    const rows = data.rows ?? data;
    return rows.length ? html`<${Cells} rows=${rows} types=${types} /><p class="quiet">${counted(rows.length, 'row')}${rows.length >= Number(limit) ? ', there may be more' : ', all of it'}. The order is not defined. Read at ${when(answer.at)}.</p>` : html`<${Empty} title=${version ? `0 rows at version ${version}.` : '0 rows.'}><p>The table exists and is empty.</p><//>`;
  }}<//>`;
}

function Quality({ dataset, pipeline }) {
  const charts = useMemo(() => (dataset.quality ?? []).map((each) => ({ ...each, bars: each.points.map((point) => ({ at: point.timestamp, value: point.failed, href: pathOf('p', pipeline, 'u', point.update_id), text: `${dayAndTime(point.timestamp).slice(0, 16)}: ${number(point.failed)} failed, ${number(point.passed)} passed` })) })), [dataset.quality]);
  if (!charts.length) return html`<${Empty} title="No expectation has checked rows yet."><p>An expectation is declared with <code>@expect("name", "condition")</code>.</p><//>`;
  return charts.map((each) => {
    const [passed, failed] = [each.points.reduce((sum, point) => sum + point.passed, 0), each.points.reduce((sum, point) => sum + point.failed, 0)];
    const share = passed + failed ? passed / (passed + failed) : null;
    return html`<section class="quality" key=${each.expectation}><h3>${each.expectation} <${Mark} state=${failed ? 'degraded' : 'completed'} word=${failed ? `${number(failed)} failed` : 'all passed'} /></h3>
      <p class="quiet">${number(passed)} passed${share == null ? '' : ` (${(share * 100).toFixed(share < 1 ? 2 : 0)} %)`} in ${counted(each.points.length, 'update')}; rows that fail ${ACTIONS[each.action] ?? each.action}. ${each.action === 'drop' && has('jobs.quarantine') && html`<a href=${pathOf('p', pipeline, 'quarantine')}>Quarantine</a>`}</p>
      ${each.points.length > 1 && failed ? html`<${Chart} points=${each.bars} tone="bad" label=${`Rows that failed ${each.expectation}, by update`} format=${number} />` : null}</section>`;
  });
}

const kindOf = (careful) => (careful.generation ? 'checkpoints-rollback' : 'checkpoints-reset');
const generationText = (each) => (each.start ? `from ${each.start}` : '');

function Generations({ pipeline, dataset }) {
  const answer = useData(jobPath(pipeline, 'checkpoints', {}));
  const [careful, setCareful] = useState(null);
  const [start, setStart] = useState('');
  return html`<${Loaded} of=${answer} command="sluice checkpoints list">${(all) => {
    const mine = all.filter((each) => each.dataset === dataset.name);
    if (!mine.length) return html`<p class="quiet">No checkpoint: its flows read no stream, or have not run.</p>`;
    const flows = [...new Set(mine.map((each) => each.flow))];
    return flows.map((flow) => {
      const list = mine.filter((each) => each.flow === flow);
      const most = Math.max(1, ...list.map((each) => each.batches));
      return html`<section key=${flow}><h3>Generations${flows.length > 1 ? ` of ${lastPart(flow)}` : ''} ${has('jobs.checkpoints-reset') && html`<button type="button" class="small" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setCareful({ flow })}>Reset…</button>`}</h3>
        <ol class="generations">${list.map((each) => html`<li key=${each.number} class=${each.state === 'CURRENT' ? 'current' : ''}><b>gen ${each.number}</b><div class="generation-bar"><i style=${{ width: `${Math.max(3, (100 * each.batches) / most)}%` }}></i></div>
          <span>${counted(each.batches, 'batch', 'batches')}</span><${Mark} state=${each.state === 'CURRENT' ? 'running' : 'skipped'} word=${each.state === 'CURRENT' ? 'current' : each.state.toLowerCase()} />
          <span class="quiet"><${Time} at=${each.begun_at} /> ${each.reason} ${generationText(each)}${each.undone_by ? `; its rows have left the table (${each.undone_by})` : ''}</span>
          ${each.state !== 'CURRENT' && each.state !== 'BUILDING' && has('jobs.checkpoints-rollback') && html`<button type="button" class="small" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setCareful({ flow, generation: each.number })}>Roll back…</button>`}
          ${each.sources?.length ? html`<details><summary>positions</summary><pre class="log">${JSON.stringify(each.sources, null, 2)}</pre></details>` : null}</li>`)}</ol></section>`;
    }).concat(careful && html`<${Careful} key="dialog" title=${careful.generation ? `Roll back to generation ${careful.generation} of ${lastPart(careful.flow)}` : `Reset ${lastPart(careful.flow)}`} close=${() => setCareful(null)} done=${answer.reload}
      kind=${kindOf(careful)} typed=${has(`jobs.${kindOf(careful)}.dry_run`) ? undefined : lastPart(careful.flow)} verb=${careful.generation ? 'Roll back' : 'Reset'} tone="danger" cli=${careful.generation ? `sluice checkpoints rollback ${lastPart(careful.flow)} ${careful.generation}` : `sluice checkpoints reset ${lastPart(careful.flow)}${start ? ` --from ${start}` : ''}`}
      run=${(body) => post(apiOf(pipeline, 'jobs', kindOf(careful)), { flow: careful.flow, ...(careful.generation ? { generation: careful.generation } : { start: start || undefined }), ...body })}>
      <p>${careful.generation ? 'The next update continues from the last batch of this generation. What later generations read is read again, and may be repeated in the table.' : 'The next update reads the sources again, from where its code or the field below says. The table keeps its rows.'}</p>
      ${careful.generation ? null : html`<label class="field">Start, such as startingVersion=12<input value=${start} onInput=${(event) => setStart(event.target.value)} placeholder="as in the code" /></label>`}<//>`);
  }}<//>`;
}

function Flows({ dataset, pipeline }) {
  const lag = useLag(pipeline);
  const lags = new Map(lag.flows.map((each) => [each.flow, each]));
  return html`<${Table} label="Flows" rows=${dataset.flows} columns=${[['flow', (flow) => lastPart(flow.name), 'name'], ['reads', (flow) => flow.reads.map((read, index) => html`${index ? ', ' : ''}${lastPart(read.name)}${read.streaming ? html` <span class="quiet">stream</span>` : ''}`), 'wrap'],
    ['kind', (flow) => [flow.auto_cdc && 'AUTO CDC', flow.once && 'once', flow.streaming ? 'stream' : 'batch'].filter(Boolean).join(', ')],
    ['health', (flow) => (lags.has(flow.name) ? html`<${Mark} state=${lags.get(flow.name).health} />` : html`<span class="quiet">?</span>`)],
    ['unread', (flow) => { const lag = lags.get(flow.name); return lag ? `${number(lag.records)} rows, ${bytes(lag.bytes)}, ${duration(lag.seconds)}` : '?'; }, 'right'],
    ['declared at', (flow) => (flow.declared_at ? html`<code>${flow.declared_at}</code>` : '')]]} />
    ${lag.measure && html`<p><button type="button" class="link" onClick=${lag.measure} disabled=${lag.busy}>${lag.busy ? 'Measuring…' : 'Measure unread rows'}</button></p>`}<${FaultBox} fault=${lag.fault} />${has('jobs.checkpoints') && html`<${Generations} pipeline=${pipeline} dataset=${dataset} />`}`;
}

function History({ dataset }) {
  if (!dataset.versions?.length) return html`<${Empty} title="No version yet." />`;
  const count = (value) => (value == null ? '' : number(Number(value)));
  const metric = (each, ...names) => names.map((name) => each.metrics?.[name]).find((value) => value != null);
  return html`<${Table} label="Versions" rows=${dataset.versions} keyOf=${(each) => each.version} columns=${[['version', (each) => each.version, 'right'], ['committed', (each) => html`<${Time} at=${each.timestamp} />`], ['operation', (each) => each.operation],
    ['rows', (each) => { const rows = metric(each, ...(each.operation === 'MERGE' ? ['numTargetRowsInserted'] : ['numOutputRows'])); return rows == null ? '' : `+${number(Number(rows))}`; }, 'right'], ['updated', (each) => count(metric(each, 'numTargetRowsUpdated', 'numUpdatedRows')), 'right'], ['deleted', (each) => count(metric(each, 'numTargetRowsDeleted', 'numDeletedRows')), 'right'],
    ['files', (each) => count(metric(each, 'numFiles', 'numAddedFiles', 'numTargetFilesAdded')), 'right'], ...(has('jobs.rows.version') && may('read') ? [['', (each) => html`<a href=${`?tab=rows&version=${each.version}`}>rows at ${each.version}</a>`]] : [])]} />`;
}

function Lineage({ dataset, pipeline }) {
  const answer = useData(apiOf(pipeline, 'graph'));
  const layout = useMemo(() => {
    if (!answer.data) return null;
    const { up, down } = neighbours(answer.data.layout.edges);
    return partOf(answer.data.layout, new Set([...closure([dataset.name], up), ...closure([dataset.name], down)]));
  }, [answer.data?.layout, dataset.name]);
  const none = useMemo(() => new Map(), []);
  const states = useMemo(() => (answer.data ? nodeStates(answer.data.graph, answer.data.states ?? {}, none) : none), [answer.data]);
  const choose = useMemo(() => (id) => id && answer.data?.graph.datasets.some((each) => each.name === id) && go(`${pathOf('p', pipeline, 'd', id)}?tab=lineage`), [answer.data, pipeline]);
  return html`<${Loaded} of=${answer}>${() => html`<div class="lineage"><${Graph} layout=${layout} states=${states} lags=${none} foretold=${none} chosen=${dataset.name} dimmed=${null} choose=${choose} open=${choose} flowOf=${() => null} label=${`Lineage of ${lastPart(dataset.name)}`} /></div>
    <p class="quiet">Reads ${dataset.reads.length ? dataset.reads.map(lastPart).join(', ') : 'nothing of this pipeline'}. Read by ${dataset.read_by.length ? dataset.read_by.map(lastPart).join(', ') : 'nothing here'}.</p>`}<//>`;
}

const TABS = { __proto__: null, columns: Columns, rows: Rows, quality: Quality, flows: Flows, history: History, lineage: Lineage };

export function Dataset({ pipeline, parts }) {
  const [tab] = useParam('tab', 'columns');
  const answer = useData(parts[0] ? apiOf(pipeline, 'datasets', parts[0]) : null);
  const graph = useData(apiOf(pipeline, 'graph')).data;
  const states = graph?.states ?? {};
  if (answer.fault?.status === 404) return html`<${Empty} title=${`${pipeline} declares no dataset ${parts[0]}.`}><a href=${pathOf('p', pipeline)}>The graph</a><//>`;
  return html`<${Loaded} of=${answer} lines=${8}>${(dataset) => {
    const flow = dataset.flows.find((each) => states[each.name]);
    const Part = tab === 'rows' && !(has('jobs.rows') && may('read')) ? Columns : TABS[tab] ?? Columns;
    const shorten = shortNames(graph?.graph.datasets.map((each) => each.name) ?? []);
    return html`<div class="line dataset-head"><h2 title=${dataset.name}>${shorten(dataset.name)}</h2><span class="quiet">${dataset.kind.replaceAll('_', ' ')}</span>${flow && html`<${Mark} state=${states[flow.name].state} />`}${dataset.private && html`<span class="chip">private</span>`}
        <span class="spring"></span>${has('jobs.plan') && html`<button type="button" disabled=${!may('operate')} title=${needs('operate')} onClick=${() => setParams({ run: dataset.name })}>Run only this</button>`}<a class="button" href=${`${pathOf('p', pipeline, 'events')}?dataset=${encodeURIComponent(dataset.name)}`}>Events</a></div>
      <p class="quiet dataset-facts"><code>${dataset.name}</code>${dataset.comment && html`<br />${dataset.comment}`}${dataset.declared_at && html`<br />declared at <code>${dataset.declared_at}</code> <${Copy} text=${dataset.declared_at} />`}${dataset.folder && html`<br />stored in <code>${dataset.folder}</code> <${Copy} text=${dataset.folder} />`}</p>
      ${dataset.error && html`<div class="note bad"><pre>${dataset.error}</pre></div>`}
      <${Tabs} label="Parts of the dataset" selected=${tab} of=${[['columns', 'Columns', dataset.schema?.fields?.length], ...(has('jobs.rows') && may('read') ? [['rows', 'Rows']] : []), ['quality', 'Quality'], ['flows', 'Flows', dataset.flows.length], ['history', 'History'], ['lineage', 'Lineage']]} />
      <div class=${cls('tab-body', tab)}><${Part} dataset=${dataset} pipeline=${pipeline} /></div>`;
  }}<//>`;
}
