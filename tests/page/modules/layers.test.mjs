// Pure functions on graphs.
import assert from 'node:assert/strict';
import test from 'node:test';
import { arranged, folded, packed, partOf, ranks, selected } from '../../../framework/server/page/static/js/layers.js';

const node = (id, more = {}) => ({ id, title: id.split('.').at(-1), kind: 'streaming table', group: 'main.a', x: 0, y: 0, w: 120, h: 46, ...more });
const edge = (from, to) => ({ from, to, kind: 'stream' });

// The same numbers in each run: a small generator with a seed.
function random(seed) {
  let state = seed;
  return (below) => { state = (state * 1103515245 + 12345) % 2147483648; return state % below; };
}

function drawn(seed) {
  const next = random(seed);
  const nodes = Array.from({ length: 2 + next(30) }, (each, index) => node(`n${index}`, { y: next(500), w: 80 + next(160) }));
  const edges = Array.from({ length: next(60) }, () => [next(nodes.length), next(nodes.length)]).filter(([from, to]) => from !== to).map(([from, to]) => edge(`n${from}`, `n${to}`));
  return { nodes, edges };
}

// Points of a path of M, H and C commands.
function points(path) {
  const found = [];
  let [x, y] = [0, 0];
  for (const [, command, rest] of path.matchAll(/([MHC])([^MHC]*)/g)) {
    const numbers = rest.trim().split(/[\s,]+/).map(Number);
    if (command === 'M') [x, y] = numbers;
    else if (command === 'H') { for (let part = 0; part <= 1; part += 0.1) found.push([x + (numbers[0] - x) * part, y]); [x] = numbers; } else {
      const [ax, ay, bx, by, ex, ey] = numbers;
      const at = (part, one, two, three, four) => (1 - part) ** 3 * one + 3 * (1 - part) ** 2 * part * two + 3 * (1 - part) * part ** 2 * three + part ** 3 * four;
      for (let part = 0; part <= 1; part += 0.05) found.push([at(part, x, ax, bx, ex), at(part, y, ay, by, ey)]);
      [x, y] = [ex, ey];
    }
  }
  return found;
}

const inside = ([x, y], box) => x > box.x + 0.5 && x < box.x + box.w - 0.5 && y > box.y + 0.5 && y < box.y + box.h - 0.5;

test('no line crosses a box, and no two boxes overlap', () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const { nodes, edges } = drawn(seed);
    const layout = arranged(nodes, edges);
    assert.equal(layout.nodes.length, nodes.length);
    assert.equal(layout.edges.length, edges.length);
    for (const each of layout.nodes) {
      assert.ok(each.x >= 0 && each.y >= 0 && each.x + each.w <= layout.width + 1 && each.y + each.h <= layout.height + 1);
      for (const other of layout.nodes) assert.ok(each === other || each.x + each.w <= other.x || other.x + other.w <= each.x || each.y + each.h <= other.y + 1e-6 || other.y + other.h <= each.y + 1e-6, `seed ${seed}: ${each.id} and ${other.id}`);
    }
    const ranked = ranks(nodes.map(({ id }) => id), edges);
    for (const line of layout.edges.filter(({ from, to }) => ranked.get(from) < ranked.get(to))) {
      for (const point of points(line.path)) for (const box of layout.nodes) assert.ok(!inside(point, box), `seed ${seed}: ${line.from} to ${line.to} crosses ${box.id} at ${point}`);
    }
  }
});

test('boxes are packed as near to their wanted places as their order allows', () => {
  const boxes = [{ h: 10 }, { h: 10 }, { h: 10 }];
  assert.deepEqual(packed(boxes, [0, 100, 200]), [0, 100, 200]);
  assert.deepEqual(packed(boxes, [50, 50, 50]), [20, 50, 80]);
});

test('an edge leads to a later layer, and a circle is drawn too', () => {
  const ranked = ranks(['a', 'b', 'c'], [edge('a', 'b'), edge('b', 'c'), edge('c', 'a')]);
  assert.deepEqual([...ranked.values()].sort(), [0, 1, 2]);
  assert.equal(arranged([node('a'), node('b')], [edge('a', 'b'), edge('b', 'a')]).nodes.length, 2);
});

test('a graph is folded into its groups, with edges between them', () => {
  const layout = { nodes: [node('a'), node('b'), node('c', { group: 'main.z' })], edges: [edge('a', 'b'), edge('b', 'c'), edge('a', 'c')] };
  const shown = folded(layout);
  assert.deepEqual(shown.nodes.map(({ id, note }) => [id, note]), [['group main.a', '2 nodes'], ['group main.z', '1 node']]);
  assert.deepEqual(shown.edges.map(({ from, to, count }) => [from, to, count]), [['group main.a', 'group main.z', 2]]);
});

test('a part of a graph has the chosen nodes, and those beside them where asked', () => {
  const layout = { nodes: ['a', 'b', 'c', 'd'].map((id) => node(id)), edges: [edge('a', 'b'), edge('b', 'c'), edge('c', 'd')] };
  assert.deepEqual(partOf(layout, new Set(['b'])).nodes.map(({ id }) => id), ['b']);
  assert.deepEqual(partOf(layout, new Set(['b']), { around: true }).nodes.map(({ id }) => id).sort(), ['a', 'b', 'c']);
});

test('the selection grammar selects by name, direction, schema, kind and state', () => {
  const nodes = [node('main.a.orders'), node('main.a.users'), node('main.b.daily', { group: 'main.b', kind: 'materialized view' })];
  const edges = [edge('main.a.orders', 'main.b.daily'), edge('main.a.users', 'main.b.daily')];
  const of = (text) => [...selected(text, nodes, edges, (id) => (id === 'main.a.users' ? 'failed' : 'completed')) ?? []].sort();
  assert.deepEqual(of('  '), []);
  assert.deepEqual(of('ord'), ['main.a.orders']);
  assert.deepEqual(of('orders+'), ['main.a.orders', 'main.b.daily']);
  assert.deepEqual(of('+daily'), ['main.a.orders', 'main.a.users', 'main.b.daily']);
  assert.deepEqual(of('schema:b'), ['main.b.daily']);
  assert.deepEqual(of('kind:materialized_view'), ['main.b.daily']);
  assert.deepEqual(of('state:failed users'), ['main.a.users']);
});
