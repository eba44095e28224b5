// Requests to /api/sluice/v1. A long call answers 202 with a job, whose result `post` waits for.
export const API = '/api/sluice/v1';

export class Fault extends Error {
  constructor(status, body) {
    const detail = body?.details?.find?.((each) => each.condition) ?? {};
    super(body?.message || `The server answered ${status}.`);
    this.status = status;
    this.code = body?.error_code;
    this.condition = detail.condition;
    this.remedy = detail.remedy;
    this.details = body?.details;
  }
}

const signInListeners = new Set();
export const onSignIn = (listener) => signInListeners.add(listener);

export async function request(path, { method = 'GET', body, signal } = {}) {
  const headers = { Accept: 'application/json' };
  if (method !== 'GET') {
    headers['X-Sluice-Request'] = '1';
    headers['Content-Type'] = 'application/json';
    if (!body?.dry_run) headers['Idempotency-Key'] = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  }
  let answer;
  try {
    answer = await fetch(API + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Fault(0, { message: 'The server does not answer. It may have been stopped: `sluice serve` starts it.' });
  }
  const text = await answer.text();
  let value = null;
  try { value = text ? JSON.parse(text) : null; } catch { /* a proxy may answer with HTML */ }
  if (answer.status === 401) signInListeners.forEach((each) => each());
  if (!answer.ok) throw new Fault(answer.status, value);
  return { status: answer.status, value };
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// The result of a job; `onPlace` gets each answer while the job waits or runs.
export async function finished(job, onPlace = () => {}, signal) {
  for (let wait = 80; ; wait = Math.min(1000, wait * 1.4)) {
    const { value } = await request(`/jobs/${encodeURIComponent(job)}`, { signal });
    if (value.state === 'DONE' || value.state === 'COMPLETED') return value.result;
    if (value.state === 'FAILED' || value.error) throw new Fault(200, value.error ?? { message: 'The job failed.' });
    if (value.state === 'CANCELED') throw new Fault(200, { message: 'The job was canceled.' });
    onPlace(value);
    await pause(wait);
  }
}

export async function post(path, body = {}, { onPlace, method = 'POST', signal } = {}) {
  const { status, value } = await request(path, { method, body, signal });
  return status === 202 && value?.job ? finished(value.job, onPlace, signal) : value;
}

// Like `request`, for reads that may answer with a job (rows, a doctor's examination).
export async function read(path, { signal } = {}) {
  const { status, value } = await request(path, { signal });
  return status === 202 && value?.job ? finished(value.job, () => {}, signal) : value;
}
