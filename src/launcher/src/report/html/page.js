'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const at = id => document.getElementById(id);
const state = { kinds: new Set(), groups: new Set(), scale: 'linear' };

const number = n => n.toLocaleString('en-US');
const bytes = n => {
  if (n < 1024) return n + ' B';
  let unit = -1;
  do { n /= 1024; unit++; } while (n >= 1023.95 && unit < 5);
  return n.toFixed(1) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit];
};
const share = (part, whole) => {
  if (!whole) return '-';
  const percent = part * 100 / whole;
  return part && percent < 0.05 ? '<0.1%' : percent.toFixed(1) + '%';
};

function element(parent, name, attributes = {}, text) {
  const svg = parent.namespaceURI.endsWith('svg');
  const node = svg ? document.createElementNS(parent.namespaceURI, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return parent.appendChild(node);
}

// What is switched on, by kind and bucket.
function selected() {
  const sums = data.kinds.map(() => data.buckets.map(() => [0, 0]));
  const large = new Map();
  data.groups.forEach((group, g) => {
    if (!state.groups.has(g)) return;
    group.sums.forEach((rows, kind) => {
      if (!state.kinds.has(kind)) return;
      for (const [bucket, calls, size] of rows) {
        sums[kind][bucket][0] += calls;
        sums[kind][bucket][1] += size;
      }
    });
    if (!state.kinds.has(1)) return; // large callocs are callocs
    for (const row of group.large) {
      const sum = large.get(row.bucket) ?? { bucket: row.bucket };
      for (const key of Object.keys(row)) if (key !== 'bucket') sum[key] = (sum[key] ?? 0) + row[key];
      large.set(row.bucket, sum);
    }
  });
  return { sums, large: [...large.values()].sort((a, b) => a.bucket - b.bucket) };
}

const WIDTH = 560, LABEL = 64, VALUE = 84;

// A group of bars a bucket, a bar a kind. On a log scale the axis begins at 1, where a bar has a tenth of its room.
function bars(id, sums, which, format) {
  const svg = at(id);
  svg.replaceChildren();
  const kinds = data.kinds.map((_, k) => k).filter(k => state.kinds.has(k) && sums[k].some(s => s[0]));
  const buckets = data.buckets.map((_, b) => b).filter(b => kinds.some(k => sums[k][b][0]));
  const most = Math.max(1, ...kinds.flatMap(k => sums[k].map(s => s[which])));
  const room = WIDTH - LABEL - VALUE;
  const length = value => {
    if (!value) return 0;
    if (state.scale === 'linear') return Math.max(1, value / most * room);
    return room * (0.1 + 0.9 * Math.log10(value) / Math.max(1, Math.log10(most)));
  };
  const thick = 13, gap = 6;
  let y = 4;
  for (const bucket of buckets) {
    const present = kinds.filter(k => sums[k][bucket][0]);
    element(svg, 'text', { x: LABEL - 6, y: y + present.length * thick / 2 + 4, 'text-anchor': 'end' }, data.buckets[bucket]);
    for (const kind of present) {
      const value = sums[kind][bucket][which];
      const wide = length(value);
      const rect = element(svg, 'rect', { class: 'bar k' + kind, x: LABEL, y, width: wide.toFixed(1), height: thick - 1, rx: 2 });
      element(rect, 'title', {}, `${data.kinds[kind]} ${data.buckets[bucket]}: ${number(sums[kind][bucket][0])} calls, ${bytes(sums[kind][bucket][1])}`);
      element(svg, 'text', { class: 'faint', x: LABEL + wide + 5, y: y + thick - 2 }, format(value));
      y += thick;
    }
    y += gap;
  }
  if (!buckets.length) element(svg, 'text', { class: 'faint', x: LABEL, y: y + 12 }, 'nothing selected');
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${Math.max(y, 30)}`);
}

const PARTS = ['untouched', 'read', 'zeros', 'written'];

function touched(large) {
  const rows = large.filter(l => l.scanned);
  at('touched-figure').hidden = !rows.length;
  const svg = at('touched');
  svg.replaceChildren();
  const room = WIDTH - LABEL - VALUE;
  rows.forEach((l, i) => {
    const y = 4 + i * 22;
    const whole = PARTS.reduce((sum, part) => sum + l['all_' + part], 0);
    element(svg, 'text', { x: LABEL - 6, y: y + 12, 'text-anchor': 'end' }, data.buckets[l.bucket]);
    let x = LABEL;
    PARTS.forEach(part => {
      const size = l['all_' + part];
      if (!size) return;
      const wide = size / whole * room;
      const rect = element(svg, 'rect', { class: 'touch ' + part, x: x.toFixed(1), y, width: wide.toFixed(1), height: 16 });
      const about = l.scanned < l.frees ? 'about ' : '';
      element(rect, 'title', {}, `${part}: ${about}${bytes(size)}, ${share(size, whole)} of the blocks freed`);
      x += wide;
    });
    element(svg, 'text', { class: 'faint', x: LABEL + room + 5, y: y + 12 }, share(l.all_written, whole));
  });
  svg.setAttribute('viewBox', `0 0 ${WIDTH} ${4 + rows.length * 22}`);
}

function table(id, heads, rows) {
  const node = at(id);
  node.replaceChildren();
  const head = element(element(node, 'thead'), 'tr');
  heads.forEach(h => element(head, 'th', h === 'program' ? { class: 'text' } : {}, h));
  const body = element(node, 'tbody');
  rows.forEach(cells => {
    const row = element(body, 'tr');
    cells.forEach(c => element(row, 'td', {}, c));
  });
}

// How many of the frees were scanned, and what that found: of a sample what it comes to for all.
function sample(l) {
  const n = l.frees / l.scanned;
  const scanned = !l.frees ? '-' : !l.scanned ? 'none' : n <= 1 ? 'all' : n < 2 ? share(l.scanned, l.frees) : `1 in ${n.toFixed(n < 99.95 ? 1 : 0)}`;
  const part = name => !l.scanned ? '-' : n <= 1 ? bytes(l[name]) : `about ${bytes(l['all_' + name])}`;
  return [scanned, ...PARTS.map(part)];
}

function largeTable(large) {
  at('large-section').hidden = !large.length;
  table('large', ['size', 'fresh', 'reused', 'forwarded', 'clearing avoided', 'cleared', 'frees', 'scanned', 'untouched', 'only read', 'zeros', 'written'],
    large.map(l => [data.buckets[l.bucket], number(l.fresh), number(l.reused), number(l.forwarded), bytes(l.avoided), bytes(l.cleared),
      number(l.frees), ...sample(l)]));
}

function draw() {
  const { sums, large } = selected();
  bars('calls', sums, 0, number);
  bars('bytes', sums, 1, bytes);
  touched(large);
  largeTable(large);
  const total = which => sums.flat().reduce((sum, s) => sum + s[which], 0);
  at('selection').textContent = `Selected: ${number(total(0))} calls, ${bytes(total(1))}`;
}

function controls() {
  data.kinds.forEach((name, kind) => {
    const label = element(at('kinds'), 'label');
    const box = element(label, 'input', { type: 'checkbox', 'data-kind': kind });
    element(label, 'span', { class: 'key k' + kind });
    label.append(' ' + name);
    box.addEventListener('change', () => { toggle(state.kinds, kind, box.checked); });
  });
  document.querySelectorAll('input[name=scale]').forEach(radio =>
    radio.addEventListener('change', () => { state.scale = radio.value; changed(); }));
  table('processes', ['', 'pid', 'ended', 'calls', 'bytes', 'program'], []);
  const body = document.querySelector('#processes tbody');
  data.groups.forEach((group, g) => {
    const row = element(body, 'tr');
    const box = element(element(row, 'td'), 'input', { type: 'checkbox', 'data-group': g, 'aria-label': group.name });
    box.addEventListener('change', () => { toggle(state.groups, g, box.checked); });
    const sum = which => group.sums.flat().reduce((all, s) => all + s[which], 0);
    [group.pid ?? '', group.state, number(sum(1)), bytes(sum(2))].forEach(cell => element(row, 'td', {}, cell));
    element(row, 'td', { class: 'text' }, group.name);
  });
  at('all').addEventListener('click', () => { data.groups.forEach((_, g) => state.groups.add(g)); changed(); });
  at('none').addEventListener('click', () => { state.groups.clear(); changed(); });
  at('sizes-section').hidden = !data.sizes.length;
  table('sizes', ['size in bytes', 'bytes, at least', 'at most'],
    data.sizes.map(([size, least, most]) => [number(size), bytes(least), bytes(most)]));
}

function toggle(set, item, on) {
  if (on) set.add(item); else set.delete(item);
  changed();
}

function show() {
  document.querySelectorAll('[data-kind]').forEach(box => { box.checked = state.kinds.has(Number(box.dataset.kind)); });
  document.querySelectorAll('[data-group]').forEach(box => { box.checked = state.groups.has(Number(box.dataset.group)); });
  document.querySelectorAll('input[name=scale]').forEach(radio => { radio.checked = radio.value === state.scale; });
  draw();
}

// The address keeps the selection, so that a view can be passed on.
function changed() {
  const words = new URLSearchParams({
    scale: state.scale,
    kinds: [...state.kinds].sort((a, b) => a - b).map(k => data.kinds[k]).join(','),
    processes: [...state.groups].sort((a, b) => a - b).join(','),
  });
  history.replaceState(null, '', '#' + words);
  show();
}

function fromAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const list = (name, all, find) => {
    const text = words.get(name);
    if (text === null) return new Set(all);
    return new Set(text.split(',').map(find).filter(i => i >= 0 && i < all.length));
  };
  state.scale = words.get('scale') === 'log' ? 'log' : 'linear';
  state.kinds = list('kinds', data.kinds.map((_, k) => k), name => data.kinds.indexOf(name));
  state.groups = list('processes', data.groups.map((_, g) => g), text => text === '' ? -1 : Number(text));
  show();
}

controls();
fromAddress();
addEventListener('hashchange', fromAddress);
