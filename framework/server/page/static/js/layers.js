// Pure functions on graphs: what a selection selects, how a big graph is folded, where a part of it is drawn.

// Adjacent ids by direction.
export function neighbours(edges) {
  const up = new Map();
  const down = new Map();
  const add = (map, key, value) => { if (!map.has(key)) map.set(key, new Set()); map.get(key).add(value); };
  for (const { from, to } of edges) { add(down, from, to); add(up, to, from); }
  return { up, down };
}

export function closure(start, next) {
  const found = new Set(start);
  const open = [...start];
  while (open.length) for (const id of next.get(open.pop()) ?? []) if (!found.has(id)) { found.add(id); open.push(id); }
  return found;
}

// The ids that a selection names: `orders`, `+orders` (and what it reads), `orders+` (and what reads it),
// `schema:shop`, `state:failed`; words add up. `stateOf(id)` is a word of the status grammar.
export function selected(text, nodes, edges, stateOf = () => '') {
  const words = text.trim().split(/[\s,]+/).filter(Boolean);
  if (!words.length) return null;
  const { up, down } = neighbours(edges);
  const result = new Set();
  for (const word of words) {
    const [, before, middle, after] = /^(\+?)(.*?)(\+?)$/.exec(word);
    const [kind, value] = /^(schema|state|kind):(.*)$/.exec(middle)?.slice(1) ?? ['', middle.toLowerCase()];
    const fits = (node) => {
      if (kind === 'schema') return String(node.group ?? '').split('.').at(-1) === value || node.group === value;
      if (kind === 'state') return stateOf(node.id) === value;
      if (kind === 'kind') return String(node.kind).replaceAll(' ', '_').includes(value.replaceAll(' ', '_'));
      const title = node.title.toLowerCase();
      return before || after ? title === value || node.id.toLowerCase() === value : title.includes(value) || node.id.toLowerCase().includes(value);
    };
    const start = nodes.filter(fits).map((node) => node.id);
    start.forEach((id) => result.add(id));
    if (before) closure(start, up).forEach((id) => result.add(id));
    if (after) closure(start, down).forEach((id) => result.add(id));
  }
  return result;
}

// Layers from left to right by the longest path; edges that close a circle are left out.
export function ranks(ids, edges) {
  const { down } = neighbours(edges.filter(({ from, to }) => from !== to));
  const state = new Map();
  const order = [];
  for (const root of ids) {
    const stack = [[root, null]];
    while (stack.length) {
      const top = stack.at(-1);
      const [id] = top;
      if (top[1] === null) {
        if (state.has(id)) { stack.pop(); continue; }
        state.set(id, 1);
        top[1] = [...(down.get(id) ?? [])];
      }
      const next = top[1].pop();
      if (next === undefined) { state.set(id, 2); order.push(id); stack.pop(); } else if (!state.has(next)) stack.push([next, null]);
    }
  }
  const place = new Map(order.reverse().map((id, index) => [id, index]));
  const rank = new Map(order.map((id) => [id, 0]));
  for (const id of order) for (const to of down.get(id) ?? []) if (place.get(to) > place.get(id)) rank.set(to, Math.max(rank.get(to), rank.get(id) + 1));
  return rank;
}

const GAP = { across: 56, down: 20 };
const LANE = 8;
const SWEEPS = 6;

// The tops of boxes in this order that are nearest to the wanted ones (least squares) without overlapping.
export function packed(boxes, wanted) {
  let offset = 0;
  const blocks = [];
  boxes.forEach((box, index) => {
    blocks.push({ sum: wanted[index] - offset, count: 1 });
    while (blocks.length > 1 && blocks.at(-2).sum / blocks.at(-2).count >= blocks.at(-1).sum / blocks.at(-1).count) {
      const last = blocks.pop();
      blocks.at(-1).sum += last.sum;
      blocks.at(-1).count += last.count;
    }
    offset += box.h + GAP.down;
  });
  const tops = [];
  offset = 0;
  for (const { sum, count } of blocks) for (let place = 0; place < count; place += 1) { tops.push(sum / count + offset); offset += boxes[tops.length - 1].h + GAP.down; }
  return tops;
}

// The layers with a narrow lane in each layer that a long edge passes, and the edges as chains through them.
function laned(nodes, edges) {
  const rank = ranks(nodes.map((node) => node.id), edges);
  const { up } = neighbours(edges);
  for (const node of nodes) {
    // A source stands directly before its first reader.
    const readers = up.has(node.id) ? [] : edges.filter(({ from }) => from === node.id).map(({ to }) => rank.get(to));
    if (readers.length) rank.set(node.id, Math.max(0, Math.min(...readers) - 1));
  }
  const layers = [];
  const add = (at, node) => { (layers[at] ??= []).push(node); return node; };
  const copies = new Map([...nodes].sort((one, other) => one.y - other.y).map((node) => [node.id, add(rank.get(node.id), { ...node })]));
  const chains = edges.filter(({ from, to }) => copies.has(from) && copies.has(to) && from !== to).map((edge) => {
    const [from, to] = [copies.get(edge.from), copies.get(edge.to)];
    const steps = [from];
    for (let at = rank.get(edge.from) + 1; at < rank.get(edge.to); at += 1) steps.push(add(at, { id: `${edge.from}\n${edge.to}\n${at}`, w: 0, h: LANE, y: (from.y + to.y) / 2, lane: true }));
    return { edge, steps: [...steps, to] };
  });
  return { layers: layers.filter(Boolean), chains };
}

const middle = (node) => node.y + node.h / 2;

function settle(layers, chains) {
  const before = new Map();
  const after = new Map();
  const add = (map, key, value) => { if (!map.has(key)) map.set(key, []); map.get(key).push(value); };
  for (const { steps } of chains) for (let at = 1; at < steps.length; at += 1) { add(before, steps[at], steps[at - 1]); add(after, steps[at - 1], steps[at]); }
  for (const layer of layers) packed(layer, layer.map(() => 0)).forEach((top, index) => { layer[index].y = top; });
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const [beside, order] = sweep % 2 ? [after, [...layers].reverse()] : [before, layers];
    for (const layer of order) {
      const goals = new Map(layer.map((node) => [node, beside.has(node) ? beside.get(node).reduce((sum, each) => sum + middle(each), 0) / beside.get(node).length : middle(node)]));
      if (sweep < SWEEPS - 2) layer.sort((one, other) => goals.get(one) - goals.get(other));
      packed(layer, layer.map((node) => goals.get(node) - node.h / 2)).forEach((top, index) => { layer[index].y = top; });
    }
  }
}

// A line through the lanes of its chain: it turns only between the layers, so that it crosses no box.
function lineOf(steps) {
  let path = `M${steps[0].x + steps[0].w} ${middle(steps[0])}`;
  for (let at = 1; at < steps.length; at += 1) {
    const [last, next] = [steps[at - 1], steps[at]];
    const bend = (next.x - last.right) / 2;
    path += `H${last.right}C${last.right + bend} ${middle(last)} ${next.x - bend} ${middle(next)} ${next.x} ${middle(next)}`;
  }
  return path;
}

// Positions of a part of a graph, or of its groups. `y` of the whole layout gives the first order within a layer.
export function arranged(nodes, edges) {
  const { layers, chains } = laned(nodes, edges);
  settle(layers, chains);
  const all = layers.flat();
  const highest = Math.min(...all.map((node) => node.y));
  let x = 0;
  for (const layer of layers) {
    const width = Math.max(...layer.map((node) => node.w));
    for (const node of layer) Object.assign(node, { x, y: node.y - highest, right: x + width });
    x += width + GAP.across;
  }
  return {
    width: Math.max(0, x - GAP.across), height: Math.max(0, ...all.map((node) => node.y + node.h)), nodes: all.filter((node) => !node.lane),
    edges: chains.map(({ edge, steps }) => ({ ...edge, path: lineOf(steps) })),
  };
}

// The groups of a graph as one box each, with the number of members and of edges between them.
export function folded(layout) {
  const members = new Map();
  const groupOf = new Map();
  for (const node of layout.nodes) {
    const name = node.group || (node.kind === 'external' ? 'external' : 'other');
    groupOf.set(node.id, name);
    if (!members.has(name)) members.set(name, []);
    members.get(name).push(node);
  }
  const nodes = [...members].map(([name, inside]) => ({
    id: `group ${name}`, kind: 'group', title: name, note: `${inside.length} ${inside.length === 1 ? 'node' : 'nodes'}`, members: inside.map((node) => node.id), group: name,
    w: Math.max(150, 40 + name.length * 8), h: 56, x: 0, y: inside.reduce((sum, node) => sum + node.y, 0) / inside.length,
  }));
  const between = new Map();
  for (const { from, to, kind } of layout.edges) {
    const [one, other] = [`group ${groupOf.get(from)}`, `group ${groupOf.get(to)}`];
    if (one === other) continue;
    const key = `${one}\n${other}`;
    between.set(key, { from: one, to: other, kind: between.get(key)?.kind === 'stream' ? 'stream' : kind, count: (between.get(key)?.count ?? 0) + 1 });
  }
  return arranged(nodes, [...between.values()]);
}

// A part of a graph with the nodes directly beside it.
export function partOf(layout, ids, { around = false } = {}) {
  const kept = new Set(ids);
  if (around) for (const { from, to } of layout.edges) { if (ids.has(from)) kept.add(to); if (ids.has(to)) kept.add(from); }
  return arranged(layout.nodes.filter((node) => kept.has(node.id)), layout.edges.filter(({ from, to }) => kept.has(from) && kept.has(to)));
}
