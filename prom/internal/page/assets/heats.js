// The part of a graph for histograms: a heat map for each series that is chosen, and the list of all.

import { Chart } from './chart.js';
import { el, put } from './dom.js';
import { pointsOf, withExemplars } from './exemplars.js';
import { HeatMap, tellBucket } from './heat.js';
import { mean, onlyRises } from './histogram.js';
import { Legend } from './legend.js';
import { short } from './number.js';

const mostMaps = 6; // at once: more are slow, and nobody compares them

// HeatMaps shows a matrix of histograms.
export class HeatMaps {
  constructor(root, { onZoom, onBack }) {
    Object.assign(this, { root, zooming: { onZoom, onBack }, maps: [] });
    this.list = el('div', { class: 'maps' });
    this.scale = el('p', { class: 'ramp' });
    const legend = el('div', { class: 'legend', id: 'heat-legend' });
    root.append(this.list, this.scale, legend);
    this.legend = new Legend(legend, {
      onChange: () => this.redraw(), apart: true, swatch: () => 'square',
      columns: [['Last', (s) => s.last.count], ['Sum', (s) => s.last.sum], ['Mean', (s) => mean(s.last)]],
    });
  }

  // show draws a matrix; of series that were not there before, the first is chosen. null: there is none.
  show(matrix, clock, points) {
    this.root.hidden = matrix === null;
    Object.assign(this, { matrix, clock, points });
    if (!matrix) return;
    this.legend.show(matrix);
    this.redraw();
  }

  get busy() {
    return this.maps.some((m) => m.chart.busy);
  }

  redraw() {
    if (!this.matrix) return;
    const shown = this.matrix.visible.slice(0, mostMaps);
    while (this.maps.length > shown.length) this.maps.pop().element.remove();
    while (this.maps.length < shown.length) this.#add();
    const { matrix, clock } = this;
    shown.forEach((s, i) => {
      const { title, chart } = this.maps[i];
      title.textContent = matrix.series.length > 1 ? s.name : s.text;
      const what = `Heat map of ${s.text} from ${clock.full(matrix.start)} to ${clock.full(matrix.end)}. Arrow keys up and down go through buckets`;
      chart.show(matrix, (w, h) => new HeatMap(matrix, s, shown, clock, w, h, pointsOf(this.points, s.labels)), what);
    });
    const left = matrix.visible.length - shown.length;
    put(this.scale, this.#ramp(), left > 0 ? ` ${left} more of the chosen series are not drawn.` : null,
      shown.every(onlyRises) ? ' These counts only rise: rate(name[5m]) shows when they did.' : null);
  }

  #add() {
    const title = el('h2', {});
    const plot = el('div', { class: 'plot' });
    const element = el('div', { class: 'heat' }, title, plot);
    this.list.append(element);
    this.maps.push({ element, title, chart: new Chart(plot, { id: `heat-${this.maps.length}`, tell: withExemplars(tellBucket), ...this.zooming }) });
  }

  // ramp says what colours mean. They go by the root, so that the middle stands for a quarter.
  #ramp() {
    const most = this.maps[0]?.chart.plot?.most;
    if (!most) return null;
    return ['0 ', el('i', { class: 'colours', 'aria-hidden': 'true' }), ` ${short(most)} observations per doubling of the value; half way is ${short(most / 4)}.`];
  }
}
