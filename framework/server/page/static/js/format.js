// Texts of numbers, sizes, durations and times. Unknown is "?", never 0.
const numbers = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export const number = (value) => (value == null ? '?' : numbers.format(value));
export const short = (value) => (value == null ? '?' : compact.format(value));
export const counted = (count, noun, plural = `${noun}s`) => `${number(count)} ${count === 1 ? noun : plural}`;

export function bytes(value) {
  if (value == null) return '?';
  for (const [unit, size] of [['TB', 1e12], ['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (value >= size) return `${(value / size).toFixed(1)} ${unit}`;
  }
  return `${numbers.format(value)} B`;
}

export function duration(seconds) {
  if (seconds == null) return '?';
  if (seconds < 9.95) return `${seconds.toFixed(1).replace(/\.0$/, '')} s`;
  const total = Math.round(seconds);
  const two = (big, name, small, other) => `${big} ${name}${small ? ` ${small} ${other}` : ''}`;
  if (total < 60) return `${total} s`;
  if (total < 3600) return two(Math.floor(total / 60), 'min', total % 60, 's');
  if (total < 86400) return two(Math.floor(total / 3600), 'h', Math.floor((total % 3600) / 60), 'min');
  return two(Math.floor(total / 86400), 'd', Math.floor((total % 86400) / 3600), 'h');
}

// Time that runs on the page, such as 0:42 or 1:02:03.
export function stopwatch(seconds) {
  const total = Math.max(0, Math.floor(seconds));
  const pad = (value) => String(value).padStart(2, '0');
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60)];
  return hours ? `${hours}:${pad(minutes)}:${pad(total % 60)}` : `${minutes}:${pad(total % 60)}`;
}

export const millis = (value) => (value == null ? NaN : typeof value === 'number' ? value : Date.parse(value));
const pad2 = (value) => String(value).padStart(2, '0');

export function clock(value) {
  const date = new Date(millis(value));
  return Number.isNaN(+date) ? '?' : `${pad2(date.getHours())}:${pad2(date.getMinutes())}:${pad2(date.getSeconds())}`;
}

export function day(value) {
  const date = new Date(millis(value));
  return Number.isNaN(+date) ? '?' : `${date.getFullYear()}-${pad2(date.getMonth() + 1)}-${pad2(date.getDate())}`;
}

export const dayAndTime = (value) => (Number.isNaN(millis(value)) ? '?' : `${day(value)} ${clock(value)}`);

// The time of a coming run, to the minute.
export const minute = (value, now = Date.now()) => when(value, now).replace(/^(\d\d:\d\d):\d\d$/, '$1');

// The time without the day if it is today, and without the seconds if it is another day.
export function when(value, now = Date.now()) {
  if (Number.isNaN(millis(value))) return '?';
  return day(value) === day(now) ? clock(value) : dayAndTime(value).slice(0, 16);
}

export function ago(value, now = Date.now()) {
  const seconds = (now - millis(value)) / 1000;
  if (Number.isNaN(seconds)) return '?';
  const text = duration(Math.abs(seconds)).replace(/^(\d+ (?:d|h|min)) .*/, '$1');
  return seconds < 0 ? `in ${text}` : seconds < 2 ? 'now' : `${text} ago`;
}

// The last part of a full name, where it is the only one with it among `others`.
export const lastPart = (name) => (name == null ? '' : String(name).split('.').at(-1));

export function shortNames(names) {
  const seen = new Map();
  for (const name of new Set(names)) seen.set(lastPart(name), (seen.get(lastPart(name)) ?? 0) + 1);
  return (name) => (seen.get(lastPart(name)) > 1 ? name : lastPart(name));
}

// A value of a row as text; null has its own element, so that it differs from the text "null".
export function valueText(value) {
  if (typeof value === 'string') return value;
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const literal = (value) => {
  if (value == null) return 'NULL';
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : `'${valueText(value).replaceAll("'", "''")}'`;
};

// Rows for the clipboard: CSV, JSON, or a VALUES list of SQL.
export function copied(rows, columns, form) {
  if (form === 'JSON') return JSON.stringify(rows, null, 2);
  const lines = rows.map((row) => columns.map((name) => row[name]));
  if (form === 'VALUES') return `VALUES\n${lines.map((line) => `  (${line.map(literal).join(', ')})`).join(',\n')}`;
  return [columns.map(quoted), ...lines.map((line) => line.map((value) => (value == null ? '' : quoted(valueText(value)))))]
    .map((line) => line.join(',')).join('\n');
}
