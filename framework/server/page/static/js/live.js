// Messages of the stream change the known answers. Messages of one flow that come between two frames count once.
import { API } from './api.js';
import { onMessage, opened } from './stream.js';
import { patch, refresh } from './store.js';

const enc = encodeURIComponent;
const names = new Map();
export const eventListeners = new Set();
const flows = new Map();
let planned = false;
const SLACK = 500;
const ENDED = ['COMPLETED', 'FAILED', 'CANCELED', 'LOST'];

const known = (id) => [id, names.get(id)].filter(Boolean).map((each) => `/pipelines/${enc(each)}`);

function keepRow(row) {
  names.set(row.pipeline_id, row.name);
  patch('/pipelines', (data) => {
    const found = data.pipelines.some((each) => each.pipeline_id === row.pipeline_id);
    const pipelines = found ? data.pipelines.map((each) => (each.pipeline_id === row.pipeline_id ? row : each)) : [...data.pipelines, row];
    return { ...data, pipelines };
  });
  for (const path of known(row.pipeline_id)) patch(path, (data) => ({ ...data, ...row }));
}

function flush() {
  planned = false;
  const byPipeline = Map.groupBy ? Map.groupBy(flows.values(), (each) => each.pipeline_id)
    : [...flows.values()].reduce((map, each) => map.set(each.pipeline_id, [...(map.get(each.pipeline_id) ?? []), each]), new Map());
  for (const [id, messages] of byPipeline) {
    const states = Object.fromEntries(messages.map((each) => [each.flow.flow, each.flow]));
    for (const path of known(id)) {
      patch(`${path}/graph`, (data) => ({ ...data, states: { ...data.states, ...states } }));
      for (const update of new Set(messages.map((each) => each.update_id))) {
        patch(`${path}/updates/${update}`, (data) => ({
          ...data, flows: data.flows.map((each) => (states[each.flow] ? { ...each, ...states[each.flow] } : each)),
        }));
      }
    }
  }
  flows.clear();
}

const handlers = {
  snapshot(data) {
    if (data.pipelines) {
      data.pipelines.forEach((row) => names.set(row.pipeline_id, row.name));
      patch('/pipelines', (before) => ({ ...before, pipelines: data.pipelines }));
    }
    if (data.machine) patch('/machine', () => data.machine);
    // What was asked for when this stream began is as new as the stream.
    refresh((path) => !(data.pipelines && path === '/pipelines') && !(data.machine && path === '/machine'), opened() - SLACK);
  },
  pipeline: keepRow,
  machine: (data) => patch('/machine', () => data),
  update(data) {
    const roots = known(data.pipeline_id);
    const parts = ['/updates', '/grid', ...(ENDED.includes(data.state) ? ['/graph', '/datasets', '/lag'] : [])];
    refresh((path) => roots.some((root) => parts.some((part) => path.startsWith(root + part))));
  },
  flow(data) {
    flows.set(`${data.pipeline_id} ${data.flow.flow}`, data);
    if (!planned) { planned = true; setTimeout(flush, 100); }
  },
  event: (data) => eventListeners.forEach((each) => each(data)),
  lag: (data) => known(data.pipeline_id).forEach((root) => patch(`${root}/lag`, () => ({ read_at: new Date().toISOString(), flows: data.flows }))),
  chunk(data) {
    const query = `gateway=${enc(data.gateway)}&table=${enc(data.table)}`;
    known(data.pipeline_id).forEach((root) => patch(`${root}/chunks?${query}`, (before) => ({ ...before, ...data })));
  },
  schedule: () => refresh((path) => path.startsWith('/schedules')),
  alert: () => refresh((path) => path.startsWith('/alerts')),
  job(data) {
    if (data.kind === 'doctor' && data.state === 'DONE') {
      const roots = known(data.pipeline_id);
      refresh((path) => roots.some((root) => path === `${root}/doctor`));
    }
  },
};

export function startLive() {
  onMessage((name, data) => handlers[name]?.(data));
}
export const nameOf = (id) => names.get(id);
export const learn = (rows) => rows.forEach((row) => names.set(row.pipeline_id, row.name));
export const apiOf = (pipeline, ...parts) => `/pipelines/${[pipeline, ...parts].map(enc).join('/')}`;
export { API };
