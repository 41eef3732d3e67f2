// Exemplars: points over a graph that refer to traces.

import { el, plural, put } from './dom.js';
import { count, medium, short } from './number.js';
import { labelText, number } from './series.js';

const most = 3; // of those near a place that are told
const reach = 10; // pixels
const mostRows = 100; // of the list

// readExemplars makes points {t, v, labels, series} of an answer, the newest first.
export function readExemplars(data) {
  const points = (data ?? []).flatMap(({ seriesLabels, exemplars }) => exemplars.map((e) => ({ t: e.timestamp * 1000, v: number(e.value), labels: e.labels, series: seriesLabels })));
  return points.sort((a, b) => b.t - a.t);
}

// pointsOf are the exemplars of one series of a result, whose labels may have lost some on the way.
export function pointsOf(points, labels) {
  return points.filter((p) => Object.entries(labels).every(([name, v]) => name === '__name__' || p.series[name] === v));
}

// placed are points with their places on a plot. Those beyond its values stand at its edge.
const placed = (plot, points) => points.map((point) => ({ point, x: plot.x(point.t), y: Math.max(plot.top, Math.min(plot.bottom, plot.y(point.v))) }))
  .filter(({ x, y }) => x >= plot.left && x <= plot.right && Number.isFinite(y));

// drawExemplars draws points as squares that stand on a corner.
export function drawExemplars(ctx, plot, points) {
  ctx.strokeStyle = plot.palette.ground;
  ctx.fillStyle = plot.palette.exemplar;
  ctx.lineWidth = 1.5;
  for (const { x, y } of placed(plot, points)) diamond(ctx, x, y, 5.5);
}

function diamond(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y - size);
  ctx.lineTo(x + size, y);
  ctx.lineTo(x, y + size);
  ctx.lineTo(x - size, y);
  ctx.closePath();
  ctx.fill();
  ctx.stroke();
}

// nearest are the points near a place, the nearest first. By keys there is no height to point at.
function nearest(plot, at, points) {
  return placed(plot, points).map(({ point, x, y }) => ({ point, far: Math.hypot(x - at.x, at.byKey ? 0 : y - at.y) }))
    .filter(({ far }) => far <= reach).sort((a, b) => a.far - b.far).slice(0, most).map(({ point }) => point);
}

// withExemplars adds the exemplars near a place to what is told of it.
export function withExemplars(tell) {
  return (plot, at) => {
    const told = tell(plot, at), near = nearest(plot, at, plot.points);
    if (near.length === 0) return told;
    const said = near.map((p) => `exemplar ${medium(p.v)} ${labelText(p.labels)}`).join(', ');
    const blocks = near.map((p) => el('div', { class: 'exemplar' }, el('p', {}, el('i', {}), ` Exemplar ${short(p.v)} `, el('span', { class: 'when' }, plot.clock.second(p.t))),
      el('table', {}, Object.entries(p.labels).map(([name, v]) => el('tr', {}, el('td', {}, name), el('td', { class: 'name' }, v))))));
    return { text: `${told.text}, ${said}`, nodes: [...told.nodes, ...blocks] };
  };
}

// showList lists exemplars below a graph, so that their labels can be copied.
export function showList(root, points, clock) {
  root.hidden = points === null;
  if (points === null) return;
  const rows = points.slice(0, mostRows), names = [...new Set(rows.flatMap((p) => Object.keys(p.labels)))];
  put(root, el('summary', {}, `${plural(count(points.length), points.length, 'exemplar')}${rows.length < points.length ? `, the newest ${rows.length}` : ''}`),
    rows.length === 0 ? el('p', {}, 'The series of this query have none at these times.') : el('div', { class: 'scroll' }, el('table', { class: 'values' },
      el('thead', {}, el('tr', {}, ['Time', ...names, 'Series'].map((n) => el('th', { scope: 'col' }, n)), el('th', { scope: 'col', class: 'number' }, 'Value'))),
      el('tbody', {}, rows.map((p) => el('tr', {}, el('td', { class: 'when' }, clock.full(p.t)), names.map((n) => el('td', {}, p.labels[n] ?? '')),
        el('td', {}, labelText(p.series)), el('td', { class: 'number' }, medium(p.v))))))));
}
