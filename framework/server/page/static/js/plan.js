// The plan as the dialog of Run: what would run, be skipped, refused or fail, and why, before anything starts.
import { Act, Choice, Command, Dialog, FaultBox, cls, html, say, useEffect, useMemo, useState } from './ui.js';
import { post } from './api.js';
import { counted, duration, lastPart, shortNames } from './format.js';
import { apiOf } from './live.js';
import { go, pathOf } from './router.js';
import { jobPath, useData } from './store.js';
import { has, fieldsOf } from './features.js';

const VERBS = {
  __proto__: null,
  create_table: ['▶', 'set up', 'run'], begin_generation: ['▶', 'begin', 'run'], run_flow: ['▶', 'run', 'run'], publish_rebuild: ['▶', 'publish', 'run'], refresh_view: ['▶', 'refresh', 'run'],
  skip_step: ['–', 'skip', 'quiet'], keep_stored: ['–', 'keep', 'quiet'], refuse_table: ['✕', 'refuse', 'bad'],
};
const isWork = (step) => ['run_flow', 'refresh_view'].includes(step.kind) && !step.broken;

export function verbOf(step) {
  if (step.broken) return ['✕', 'would fail', 'bad'];
  if (step.waits_for?.length) return ['◌', 'wait', 'warn'];
  if (step.excluded) return ['–', 'exclude', 'quiet'];
  const [shape, word, tone] = VERBS[step.kind] ?? ['·', String(step.kind).replaceAll('_', ' '), 'quiet'];
  return step.check ? [shape, `${word} if changed`, tone] : [shape, word, tone];
}

// Median and range of the seconds that each flow took in its last runs.
export function forecast(grid) {
  const found = new Map();
  (grid?.flows ?? []).forEach((flow, index) => {
    const seconds = grid.cells[index].filter((cell) => cell?.state === 'COMPLETED' && cell.seconds != null).map((cell) => cell.seconds).slice(-20).sort((one, other) => one - other);
    if (seconds.length) found.set(flow, { median: seconds[seconds.length >> 1], low: seconds[0], high: seconds.at(-1), runs: seconds.length });
  });
  return found;
}

export function Steps({ steps, times, pipeline, columns = true }) {
  const shorten = useMemo(() => shortNames(steps.map((step) => step.flow ?? step.dataset)), [steps]);
  return html`<ul class="steps">${steps.map((step, index) => {
    const [shape, word, tone] = verbOf(step);
    const time = isWork(step) && times?.get(step.flow ?? step.dataset);
    return html`<li key=${index} class=${tone}><span class=${cls('mark', tone)}><i aria-hidden="true">${shape}</i><span>${word}</span></span>
      <a class="what" href=${pathOf('p', pipeline, 'd', step.dataset)} title=${step.words ?? step.flow ?? step.dataset}>${step.kind === 'begin_generation' ? `generation ${step.generation} of ` : ''}${shorten(step.flow ?? step.dataset)}</a>
      <span class="reason">${step.broken ? html`${step.broken.problem} <span class="quiet">${step.broken.ways}</span> ${has('jobs.doctor') && html`<a href=${pathOf('p', pipeline, 'doctor')}>Ways out</a>`}` : step.reason}</span>
      ${columns && html`<span class="quiet num">${time ? `~${duration(time.median)}` : ''}</span>`}</li>`;
  })}</ul>`;
}

function summary(steps, times) {
  const work = steps.filter(isWork);
  const count = (test) => steps.filter(test).length;
  const known = work.map((step) => times.get(step.flow ?? step.dataset)).filter(Boolean);
  const sum = (name) => known.reduce((total, each) => total + each[name], 0);
  const parts = [
    [count((step) => step.kind === 'skip_step' && !step.waits_for?.length && !step.excluded), 'skipped'], [count((step) => step.excluded), 'excluded'],
    [count((step) => step.waits_for?.length), 'waiting'], [count((step) => step.kind === 'refuse_table'), 'refused'], [count((step) => step.broken), 'would fail'],
  ].filter(([number]) => number).map(([number, word]) => `${number} ${word}`);
  const time = known.length ? `~${duration(sum('median'))} one after another, ${duration(sum('low'))} to ${duration(sum('high'))} in the last ${Math.max(...known.map((each) => each.runs))} runs` : '';
  return { todo: steps.filter((step) => step.kind in VERBS && !['skip_step', 'keep_stored', 'refuse_table'].includes(step.kind) && !step.broken).length, text: parts.join(', '), time };
}

const command = (verb, body) => ['sluice', verb, body.refresh_selection?.length ? `--refresh ${body.refresh_selection.map(lastPart).join(',')}` : '',
  body.full_refresh ? '--full-refresh-all' : '', body.full_refresh_selection?.length ? `--full-refresh ${body.full_refresh_selection.map(lastPart).join(',')}` : '',
  body.sluice?.keep_history ? '--keep-history' : '', ...(body.reset_checkpoint_selection ?? []).map((flow) => `--reset-checkpoint ${lastPart(flow)}`)].filter(Boolean).join(' ');

function Options({ names, option, set, shorten }) {
  const [text, setText] = useState('');
  const list = names.filter((name) => name.toLowerCase().includes(text.toLowerCase())).slice(0, 300);
  const toggle = (name) => set({ ...option, chosen: option.chosen.includes(name) ? option.chosen.filter((each) => each !== name) : [...option.chosen, name] });
  return html`<div class="plan-options"><${Choice} label="What to update" value=${option.what} set=${(what) => set({ ...option, what })} of=${[['all', 'All datasets'], ['chosen', `Selected (${option.chosen.length})`]]} />
    <${Choice} label="How" value=${option.how} set=${(how) => set({ ...option, how })} of=${[['refresh', 'Refresh', 'Reads what is new'], ['full', 'Full refresh', 'Clears the tables and reads the sources from their start'], ['reset', 'Reset checkpoints', 'Reads the sources again; the tables keep their rows']]} />
    ${option.how === 'full' && html`<label class="check"><input type="checkbox" checked=${option.keep} onChange=${() => set({ ...option, keep: !option.keep })} />keep history: rows that the sources no longer have are put back</label>`}
    ${option.what === 'chosen' && html`<div class="picker"><input type="search" placeholder="Filter datasets" aria-label="Filter datasets" value=${text} onInput=${(event) => setText(event.target.value)} />
      <ul>${list.map((name) => html`<li key=${name} data-row><label class="check"><input type="checkbox" checked=${option.chosen.includes(name)} onChange=${() => toggle(name)} />${shorten(name)}</label></li>`)}</ul></div>`}</div>`;
}

function bodyOf(option, flowsOf) {
  const some = option.what === 'chosen' ? option.chosen : [];
  if (option.how === 'full') return { ...(some.length ? { full_refresh_selection: some } : { full_refresh: true }), ...(option.keep ? { sluice: { keep_history: true } } : {}) };
  if (option.how === 'reset') return { reset_checkpoint_selection: flowsOf(some) };
  return some.length ? { refresh_selection: some } : {};
}

// What a plan is asked for: the same as an update, without what only records it.
const planned = ({ sluice, ...body }) => fieldsOf('plan', { ...body, keep_history: sluice?.keep_history });

function usePlan(pipeline, selection) {
  const graph = useData(apiOf(pipeline, 'graph')).data?.graph;
  const grid = useData(`${apiOf(pipeline, 'grid')}?limit=20`).data;
  const given = selection === 'all' ? [] : selection.split(',');
  const [option, set] = useState({ what: given.length ? 'chosen' : 'all', chosen: given, how: 'refresh', keep: false });
  const flowsOf = (names) => (graph?.flows ?? []).filter((flow) => !names.length || names.includes(flow.target)).map((flow) => flow.name);
  const wanted = JSON.stringify(bodyOf(option, flowsOf));
  const [body, setBody] = useState(wanted);
  useEffect(() => { const timer = setTimeout(() => setBody(wanted), 350); return () => clearTimeout(timer); }, [wanted]);
  const incomplete = option.what === 'chosen' && !option.chosen.length;
  const answer = useData(incomplete ? null : jobPath(pipeline, 'plan', planned(JSON.parse(body))));
  useEffect(() => { if (answer.data && Date.now() - answer.at > 15000) answer.reload(); }, [body]);
  const times = useMemo(() => forecast(grid), [grid]);
  const shorten = useMemo(() => shortNames((graph?.datasets ?? []).map((each) => each.name)), [graph]);
  return { graph, option, set, body: JSON.parse(body), settled: body === wanted, answer, times, shorten, incomplete };
}

export function PlanDialog({ pipeline, row, selection, close }) {
  const { graph, option, set, body, settled, answer, times, shorten, incomplete } = usePlan(pipeline, selection);
  const [word, setWord] = useState('');
  const [reason, setReason] = useState('');
  const [fault, setFault] = useState(null);
  const plan = answer.data;
  const numbers = plan && summary(plan.steps, times);
  const risky = option.how === 'full';
  const running = Boolean(row.update);
  const ready = plan && settled && !incomplete && !answer.fault && numbers.todo > 0 && (!risky || word === pipeline);
  const start = async () => {
    setFault(null);
    try {
      const accepted = await post(apiOf(pipeline, 'updates'), { ...body, cause: 'USER_ACTION', sluice: { ...body.sluice, ...(reason ? { reason } : {}), ...(running ? { queue: true } : {}) } });
      say(accepted.place ? `It waits at place ${accepted.place}.` : 'The update starts.');
      go(pathOf('p', pipeline, 'u', accepted.update_id));
    } catch (found) { setFault(found); }
  };
  return html`<${Dialog} wide title=${`Plan of ${pipeline}`} close=${close} foot=${html`
      <${Act} tone=${risky ? 'danger' : 'main'} disabled=${!ready} act=${start} title=${risky && word !== pipeline ? `Type ${pipeline} to confirm` : null}>${numbers ? (numbers.todo ? `${running ? 'Queue' : 'Run'} ${counted(numbers.todo, 'step')}` : 'Nothing to do') : 'Run'}<//>
      <${Command} text=${command('run', body)} /><span class="spring"></span><button type="button" onClick=${close}>Cancel</button>`}>
    <p class="quiet">Nothing has been started. ${running ? 'An update runs now: this one waits until it ends.' : ''}</p>
    ${graph && html`<${Options} names=${graph.datasets.map((each) => each.name)} option=${option} set=${set} shorten=${shorten} />`}
    ${incomplete && html`<p class="empty">Select datasets above.</p>`}
    ${!incomplete && answer.fault && html`<${FaultBox} fault=${answer.fault} retry=${answer.reload} command=${command('plan', body)} />`}
    ${!incomplete && !plan && !answer.fault && html`<div class="placeholder" aria-busy="true"><p class="quiet">Planning${answer.place ? `, place ${answer.place} in the queue` : ''}: the definitions and sources are read…</p><i></i><i></i><i></i><i></i></div>`}
    ${!incomplete && plan && html`<div class=${cls((!settled || answer.busy) && 'stale')}>${plan.fault && html`<div class="note bad"><p><b>The storage can't be written.</b> ${plan.fault.reason ?? plan.fault.problem ?? ''}</p></div>`}
      ${(plan.warnings ?? []).map((each) => html`<div class="note warn"><p>${each.reason ?? each.problem ?? JSON.stringify(each)}</p></div>`)}
      <p class="plan-summary"><b>${numbers.todo ? counted(numbers.todo, 'step') : 'Nothing to do'}</b>${numbers.text ? `, ${numbers.text}` : ''}. ${numbers.time && html`<span class="quiet">${numbers.time}.</span>`} <button type="button" class="link" onClick=${answer.reload}>Plan again</button></p>
      <${Steps} steps=${plan.steps} times=${times} pipeline=${pipeline} /></div>`}
    <${FaultBox} fault=${fault} />
    ${numbers?.todo ? html`<label class="field">Reason, for the event log<input value=${reason} onInput=${(event) => setReason(event.target.value)} /></label>` : null}
    ${risky && html`<label class="field danger-field">A full refresh deletes the rows of ${option.what === 'all' ? 'all tables that allow it' : counted(option.chosen.length, 'table')} and reads the sources from their start.${option.keep ? '' : ' Rows that the sources no longer have are lost.'}
      Type <b>${pipeline}</b> to confirm<input value=${word} autocomplete="off" onInput=${(event) => setWord(event.target.value)} /></label>`}<//>`;
}

// The address /p/shop/plan: the pipeline's graph with the dialog open.
export function PlanScreen({ pipeline }) {
  useEffect(() => go(`${pathOf('p', pipeline)}?run=all`, { replace: true }), [pipeline]);
  return null;
}
