// Texts of numbers, times and states.
import assert from 'node:assert/strict';
import test from 'node:test';
import { ago, bytes, copied, counted, duration, number, shortNames, stopwatch, when } from '../../../framework/server/page/static/js/format.js';
import { attention, isBad, isOpen, legend, mark } from '../../../framework/server/page/static/js/states.js';

test('what is unknown is a question mark, never 0', () => {
  assert.deepEqual([number(null), bytes(null), duration(null), when(null), ago(undefined)], ['?', '?', '?', '?', '?']);
});

test('numbers have units', () => {
  assert.deepEqual([bytes(913), bytes(48e6), bytes(1.25e9)], ['913 B', '48.0 MB', '1.3 GB']);
  assert.deepEqual([duration(0), duration(4.25), duration(59.6), duration(95), duration(7200), duration(90000)], ['0 s', '4.3 s', '1 min', '1 min 35 s', '2 h', '1 d 1 h']);
  assert.deepEqual([stopwatch(42), stopwatch(3723), counted(1, 'row'), counted(1204, 'row')], ['0:42', '1:02:03', '1 row', '1,204 rows']);
  assert.equal(ago(Date.now() - 22 * 60e3), '22 min ago');
});

test('names are short where that is clear', () => {
  const shorten = shortNames(['main.a.orders', 'main.b.orders', 'main.a.users']);
  assert.deepEqual(['main.a.orders', 'main.a.users'].map(shorten), ['main.a.orders', 'users']);
});

test('rows are copied as CSV, JSON and VALUES, and null differs from a text', () => {
  const rows = [{ a: 1, b: 'x,"y"\n' }, { a: null, b: "it's" }];
  assert.equal(copied(rows, ['a', 'b'], 'CSV'), 'a,b\n1,"x,""y""\n"\n,it\'s');
  assert.deepEqual(JSON.parse(copied(rows, ['a', 'b'], 'JSON')), rows);
  assert.equal(copied(rows, ['a', 'b'], 'VALUES'), "VALUES\n  (1, 'x,\"y\"\n'),\n  (NULL, 'it''s')");
});

test('each state has a shape and a word of its own', () => {
  assert.equal(new Set(legend.map(({ word }) => word)).size, legend.length);
  for (const { key } of legend) for (const other of legend) assert.ok(key === other.key || mark(key).shape !== mark(other.key).shape, `${key} and ${other.key}`);
  assert.deepEqual(['COMPLETED', 'CANCELED', 'SETTING_UP_TABLES', 'LOST', 'SKIPPED'].map((each) => mark(each).word), ['completed', 'stopped', 'starting', 'lost', 'skipped']);
  assert.equal(mark('A_NEW_STATE').word, 'a new state');
  assert.ok(isOpen('QUEUED') && !isOpen('SKIPPED') && isBad('LOST') && !isBad('SKIPPED'));
  assert.ok(attention('FAILED') < attention('RUNNING') && attention('RUNNING') < attention('COMPLETED'));
});
