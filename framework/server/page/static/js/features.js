// What this server answers and what this user may do: the page offers nothing else.
import { peek, useData } from './store.js';

const ORDER = ['view', 'read', 'operate', 'manage'];
const listed = new WeakMap();

function setOf(machine) {
  if (!machine) return new Set();
  if (!listed.has(machine)) listed.set(machine, new Set(machine.features ?? []));
  return listed.get(machine);
}

// Whether the server names all these features, such as `jobs.rows.version`.
export const has = (...names) => names.every((name) => setOf(peek('/machine')).has(name));

// Whether the user has this role; a screen without it shows what can be read.
export function may(role) {
  const mine = peek('/whoami')?.role;
  return mine === undefined || ORDER.indexOf(mine) >= ORDER.indexOf(role);
}

// Draws the caller again when the features or the role are known.
export function useFeatures() {
  const [machine, whoami] = [useData('/machine'), useData('/whoami')];
  return { known: Boolean(machine.data ?? machine.fault) && Boolean(whoami.data ?? whoami.fault) };
}

export const needs = (role) => (may(role) ? null : `Needs the role ${role}.`);

// The fields of a job that the server knows.
export const fieldsOf = (kind, body) => Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== undefined && has(`jobs.${kind}.${name}`)));
