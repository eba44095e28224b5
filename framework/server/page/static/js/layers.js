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

const GAP = { across: 56, down: 18 };
export const curve = (x1, y1, x2, y2) => {
  const bend = Math.max(18, (x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
};

// Positions of a part of a graph, or of its groups. `y` of the whole layout gives the order within a layer.
export function arranged(nodes, edges) {
  const rank = ranks(nodes.map((node) => node.id), edges);
  const layers = [];
  for (const node of [...nodes].sort((one, other) => one.y - other.y)) (layers[rank.get(node.id)] ??= []).push({ ...node });
  const { up } = neighbours(edges);
  const placed = new Map();
  let x = 0;
  let height = 0;
  for (const layer of layers.filter(Boolean)) {
    const wanted = (node) => {
      const above = [...(up.get(node.id) ?? [])].map((id) => placed.get(id)).filter(Boolean);
      return above.length ? above.reduce((sum, each) => sum + each.y + each.h / 2, 0) / above.length : null;
    };
    layer.forEach((node, index) => { node.wanted = wanted(node) ?? (index ? layer[index - 1].wanted : 0); });
    layer.sort((one, other) => one.wanted - other.wanted);
    let y = 0;
    for (const node of layer) {
      node.x = x;
      node.y = Math.max(y, node.wanted - node.h / 2);
      y = node.y + node.h + GAP.down;
      placed.set(node.id, node);
    }
    height = Math.max(height, y);
    x += Math.max(...layer.map((node) => node.w)) + GAP.across;
  }
  const lines = edges.filter(({ from, to }) => placed.has(from) && placed.has(to)).map((edge) => {
    const [from, to] = [placed.get(edge.from), placed.get(edge.to)];
    return { ...edge, path: curve(from.x + from.w, from.y + from.h / 2, to.x, to.y + to.h / 2) };
  });
  return { width: Math.max(0, x - GAP.across), height: Math.max(0, height - GAP.down), nodes: [...placed.values()], edges: lines };
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
