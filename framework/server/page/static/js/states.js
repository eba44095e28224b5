// The status grammar: each state has a shape, a word and a tone, everywhere the same.
// A name of data such as `__proto__` must find nothing here.
const GRAMMAR = {
  __proto__: null,
  running: ['●', 'running', 'run'],
  starting: ['◔', 'starting', 'run'],
  waiting: ['◌', 'waiting', 'quiet'],
  behind: ['◐', 'behind', 'warn'],
  idle: ['○', 'idle', 'quiet'],
  parked: ['▣', 'parked', 'quiet'],
  completed: ['✓', 'completed', 'good'],
  skipped: ['–', 'skipped', 'quiet'],
  degraded: ['!', 'degraded', 'warn'],
  stopped: ['■', 'stopped', 'warn'],
  stopping: ['◫', 'stopping', 'warn'],
  failed: ['✕', 'failed', 'bad'],
  stuck: ['✕', 'stuck', 'bad'],
  lost: ['?', 'lost', 'bad'],
  unknown: ['·', 'unknown', 'quiet'],
  never: ['·', 'never run', 'quiet'],
};

const WORDS = {
  __proto__: null,
  queued: 'waiting', created: 'waiting', waiting_for_resources: 'waiting', waiting: 'waiting',
  initializing: 'starting', setting_up_tables: 'starting', resetting: 'starting', starting: 'starting', deploying: 'starting', recovering: 'starting',
  running: 'running', following: 'running', snapshot: 'running', confirming: 'running', resync: 'waiting', building: 'running',
  completed: 'completed', done: 'completed', success: 'completed', good: 'completed', current: 'completed',
  failed: 'failed', bad: 'failed', gap: 'failed', error: 'failed',
  canceled: 'stopped', cancelled: 'stopped', stopped: 'stopped', stopping: 'stopping', paused: 'stopped',
  skipped: 'skipped', excluded: 'skipped', unchanged: 'skipped',
};

export function mark(state) {
  const word = String(state ?? 'unknown').toLowerCase();
  const key = GRAMMAR[word] ? word : WORDS[word] ?? 'unknown';
  const [shape, name, tone] = GRAMMAR[key];
  return { key, shape, tone, word: key === 'unknown' && word !== 'unknown' ? word.replaceAll('_', ' ') : name };
}

// The rows that a flow wrote: those that it upserted are among the written ones.
export const rowsOf = (flow) => flow?.rows_written ?? (flow?.rows_upserted || null);
export const isOpen = (state) => ['running', 'starting', 'waiting', 'stopping'].includes(mark(state).key);
export const isBad = (state) => ['failed', 'lost', 'stuck'].includes(mark(state).key);

// Rank for "by attention": what needs a person comes first.
const RANKS = ['failed', 'stuck', 'lost', 'degraded', 'behind', 'stopped', 'running', 'starting', 'stopping', 'waiting', 'parked', 'skipped', 'completed', 'idle'];
export const attention = (state) => {
  const rank = RANKS.indexOf(mark(state).key);
  return rank < 0 ? RANKS.length : rank;
};
export const legend = ['running', 'behind', 'idle', 'parked', 'completed', 'skipped', 'degraded', 'failed', 'lost'].map((key) => ({ key, shape: GRAMMAR[key][0], word: GRAMMAR[key][1], tone: GRAMMAR[key][2] }));
