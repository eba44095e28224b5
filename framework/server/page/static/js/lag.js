// How far the flows of a pipeline are behind: as the server knows it, or measured by a job when someone asks.
import { useMemo, useState } from './ui.js';
import { has } from './features.js';
import { apiOf } from './live.js';
import { jobPath, useData } from './store.js';

const asked = new Set();
const NONE = [];

export function useLag(pipeline) {
  const [, draw] = useState(0);
  const served = has('lag');
  const answer = useData(served ? apiOf(pipeline, 'lag') : has('jobs.lag') && asked.has(pipeline) ? jobPath(pipeline, 'lag') : null);
  const measure = () => {
    if (asked.has(pipeline)) answer.reload();
    asked.add(pipeline);
    draw((count) => count + 1);
  };
  const flows = (served ? answer.data?.flows : answer.data) ?? NONE;
  const at = served ? answer.data?.read_at : answer.data && answer.at;
  return useMemo(() => ({ flows, at, fault: answer.fault, busy: Boolean(answer.busy || answer.loading), measure: !served && has('jobs.lag') ? measure : null }), [flows, at, answer.fault, answer.busy, answer.loading, served]);
}
