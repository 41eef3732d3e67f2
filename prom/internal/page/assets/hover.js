// The box beside the cursor of a graph: the time, and the values of the series that are near.

import { el, put } from './dom.js';
import { medium, value } from './number.js';
import { classOf } from './palette.js';
import { roughDuration } from './time.js';

const most = 10; // rows: more hide the graph

export class HoverBox {
  constructor() {
    this.element = el('div', { class: 'hover', hidden: true, 'aria-hidden': 'true' });
    this.text = '';
  }

  hide() {
    this.element.hidden = true;
  }

  // show is for a place {index, x, y} of a plot, of which {text, nodes} are told. choice is the part of the time
  // that is being chosen, or null.
  show(plot, at, { text, nodes }, choice) {
    const time = plot.clock.full(plot.matrix.time(at.index));
    this.text = `${time}: ${text}`;
    const head = choice ? `${roughDuration(Math.abs(choice[1] - choice[0]) / 1000)} from ${plot.clock.full(Math.min(...choice))}` : time;
    put(this.element, el('p', { class: 'when' }, head), nodes);
    this.element.hidden = false;
    this.#place(plot, at);
  }

  #place(plot, { x, y }) {
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const left = x + 16 + width < plot.width ? x + 16 : Math.max(0, x - 16 - width);
    this.element.style.left = `${left}px`;
    this.element.style.top = `${Math.max(0, Math.min(y - height / 2, plot.height - height))}px`;
  }
}

// tellLines says which values are near a place.
export function tellLines(plot, at) {
  const { rows, nearest, more } = near(plot, at);
  return {
    text: rows.map((r) => `${r.series.name} ${value(r.v)}`).join(', '),
    nodes: [
      el('table', {}, rows.map((r) => el('tr', { class: r === nearest ? 'nearest' : null },
        el('td', {}, el('i', { class: `swatch ${classOf(r.series.index)}` })),
        el('td', { class: 'name' }, r.series.name), el('td', { class: 'number' }, medium(r.v))))),
      rows.length === 0 ? el('p', {}, 'No values here') : null,
      more > 0 ? el('p', { class: 'more' }, `and ${more} more`) : null,
    ],
  };
}

// near are the series with a value at a place: those nearest to it, in the order in which they are drawn.
function near(plot, at) {
  const all = [];
  for (const { series, tops } of plot.lines) {
    const v = series.values[at.index];
    if (!Number.isNaN(v)) all.push({ series, v, y: plot.y(tops[at.index]) });
  }
  all.sort((a, b) => Math.abs(a.y - at.y) - Math.abs(b.y - at.y));
  const rows = all.slice(0, most);
  const nearest = rows[0];
  rows.sort((a, b) => a.y - b.y);
  return { rows, nearest, more: all.length - rows.length };
}
