// The buckets of one histogram: as bars over their bounds, and as a table.

import { BucketScale } from './bucketscale.js';
import { el, svg } from './dom.js';
import { densest } from './heat.js';
import { bound, boundsText, isZero, mean, partText } from './histogram.js';
import { medium, short, ticks, value } from './number.js';
import { tiles } from './panel.js';

const width = 720, height = 220, side = 36, below = 26, above = 8, room = 48;

// bucketsOf shows a histogram with all that it says.
export function bucketsOf(h) {
  return el('div', { class: 'buckets' },
    tiles([['Observations', short(h.count)], ['Sum', short(h.sum)], ['Mean', short(mean(h))], ['Buckets', value(h.buckets.length), 'that are not empty']]),
    h.buckets.length === 0 ? null : el('div', { class: 'columns wide' }, el('figure', {}, drawing(h), el('figcaption', {}, 'The area of a bar is what was observed in its bucket.')), table(h)));
}

function drawing(h) {
  const scale = new BucketScale([h], width - 2 * side, room);
  const most = densest(scale, [h]), bottom = height - below;
  const bars = h.buckets.map((b) => {
    const [from, to] = scale.ends(b);
    const high = Math.max(0, scale.density(b) / most) * (bottom - above), space = to - from > 4 ? 1 : 0;
    return svg('rect', { class: isZero(b) ? 'zero' : null, x: side + from, y: bottom - high, width: Math.max(1, to - from - space), height: high },
      svg('title', {}, `${boundsText(b)}: ${value(b.count)}`));
  });
  const at = scale.ticks(64), texts = ticks(at, false);
  const marks = at.map((v, i) => svg('g', { class: 'tick' },
    svg('line', { x1: side + scale.at(v), x2: side + scale.at(v), y1: bottom, y2: bottom + 4 }),
    svg('text', { x: side + scale.at(v), y: height - 5, 'text-anchor': 'middle' }, texts[i])));
  return svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${h.buckets.length} buckets from ${bound(h.buckets[0].left, 6)} to ${bound(h.buckets.at(-1).right, 6)}` },
    bars, svg('line', { class: 'axis', x1: 0, x2: width, y1: bottom, y2: bottom }), marks);
}

function table(h) {
  const most = h.buckets.reduce((n, b) => Math.max(n, b.count), 0) || 1;
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Buckets' }, el('table', { class: 'values' },
    el('thead', {}, el('tr', {}, ['Bucket', 'Observations', 'Part'].map((t, i) => el('th', { scope: 'col', class: i ? 'number' : null }, t)), el('td', { class: 'bar' }))),
    el('tbody', {}, h.buckets.map((b) => el('tr', {},
      el('th', { scope: 'row' }, boundsText(b), isZero(b) ? el('small', {}, ' zero') : null),
      el('td', { class: 'number', title: value(b.count) }, medium(b.count)), el('td', { class: 'number' }, partText(b, h)), el('td', { class: 'bar' }, bar(b.count / most)))))));
}

function bar(part) {
  const node = el('i');
  node.style.width = `${Math.max(part * 100, 0.5)}%`;
  return node;
}
