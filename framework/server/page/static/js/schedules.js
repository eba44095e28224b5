// Schedules: the next days as a strip, the next runs, what was missed, pause and run.
import { Act, Empty, Loaded, Mark, Time, html, say } from './ui.js';
import { post } from './api.js';
import { counted, dayAndTime, when } from './format.js';
import { pathOf } from './router.js';
import { useData } from './store.js';

const HOURS = 48;

function Strip({ schedules }) {
  const start = new Date();
  start.setMinutes(0, 0, 0);
  const share = (at) => ((Date.parse(at) - start) / (HOURS * 36e5)) * 100;
  const hours = Array.from({ length: HOURS / 6 + 1 }, (each, index) => new Date(+start + index * 6 * 36e5));
  return html`<div class="strip" role="img" aria-label="Runs of the next 48 hours">
    <div class="strip-axis">${hours.map((each, index) => html`<span style=${{ left: `${(index * 600) / HOURS}%` }}>${dayAndTime(+each).slice(index && each.getHours() >= 6 ? 11 : 5, 16)}</span>`)}</div>
    ${schedules.map((each) => html`<div class="strip-row" key=${each.schedule}><span>${[each.pipeline, each.name].filter(Boolean).join(' · ')}</span><div>${each.next.filter((at) => share(at) <= 100).map((at) => html`<i style=${{ left: `${share(at)}%` }} title=${dayAndTime(at)}></i>`)}</div></div>`)}</div>`;
}

function Schedule({ each, reload }) {
  const act = (verb) => async () => { await post(`/schedules/${encodeURIComponent(each.schedule)}/${verb}`, { reason: '' }); say(`${each.pipeline}: ${verb === 'run' ? 'a run is asked for' : `${verb}d`}.`); reload(); };
  return html`<li class="schedule" data-row><div class="line"><a class="name" href=${pathOf('p', each.pipeline)}>${each.pipeline}</a>${each.paused ? html`<${Mark} state="stopped" word="paused" />` : html`<${Mark} state=${each.kind === 'on_data' ? 'parked' : 'waiting'} word=${each.kind === 'on_data' ? 'on data' : 'on time'} />`}
      <b>${each.name ?? ''}</b>${each.cron ? html`<code>${each.cron}</code><span class="quiet">${each.timezone}</span>` : html`<span>${each.text}</span>`}<span class="spring"></span><${Act} small act=${act(each.paused ? 'resume' : 'pause')}>${each.paused ? 'Resume' : 'Pause'}<//><${Act} small act=${act('run')}>Run now<//></div>
    <p class="quiet">${each.next.length && !each.paused ? html`next ${each.next.map((at, index) => html`${index ? ' · ' : ''}<${Time} at=${at} />`)}` : each.kind === 'on_data' ? 'runs when a source has something new' : 'no next run'}</p>
    ${each.last && html`<p class="quiet">last <${Mark} state=${each.last.outcome} /> ${each.last.update_id ? html`<a href=${pathOf('p', each.pipeline, 'u', each.last.update_id)}><${Time} at=${each.last.at} /></a>` : html`<${Time} at=${each.last.at} />`} ${each.last.reason ?? ''}</p>`}
    <p class="quiet">missed runs: ${each.misfire === 'skip' ? 'skipped' : 'at most one is made up'}; while one runs: ${each.overlap === 'queue' ? 'the next waits' : 'the next is skipped'}${each.retries ? `; ${each.retries} retries` : ''}</p>
    ${each.missed ? html`<p class="warn">! missed ${counted(each.missed, 'run')}${each.last_missed ? html`, the last one at ${when(each.last_missed)}` : ''}</p>` : null}</li>`;
}

export function Schedules() {
  const answer = useData('/schedules');
  return html`<h1>Schedules</h1><${Loaded} of=${answer} command="sluice schedule explain">${({ schedules, faults = [] }) => {
    const timed = schedules.filter((each) => each.next.length && !each.paused);
    return html`${faults.map((each) => html`<div class="note bad" key=${each.pipeline}><p><b>${each.condition}</b> ${each.pipeline}: ${each.what}</p><p>${each.remedy}</p></div>`)}${schedules.length ? html`${timed.length ? html`<${Strip} schedules=${timed} />` : null}<ul class="schedules">${schedules.map((each) => html`<${Schedule} key=${each.schedule} each=${each} reload=${answer.reload} />`)}</ul>`
      : html`<${Empty} title="No pipeline has a schedule."><p>In <code>pipeline.yml</code>:</p><pre class="log">${'trigger:\n  cron:\n    quartz_cron_schedule: "0 30 5 * * ?"\n    timezone_id: Europe/Oslo'}</pre><//>`}`;
  }}<//>`;
}
