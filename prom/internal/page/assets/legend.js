// The legend of a graph: which series there are, and which are shown.

import { el, put } from './dom.js';
import { count, distinct, value } from './number.js';
import { classOf } from './palette.js';
import { labelText } from './series.js';

const most = 200; // rows at first: more are slow to make and nobody reads them

const ofLines = [['Last', (s) => s.last], ['Min', (s) => s.min], ['Max', (s) => s.max]];

// Legend lists the series of a matrix. A name shows its series alone, or all again; a swatch hides and
// shows one. Of series that are drawn apart, one stays shown.
export class Legend {
  constructor(root, { onChange, onPoint = () => {}, columns = ofLines, swatch = (s) => `swatch ${classOf(s.index)}`, apart = false }) {
    Object.assign(this, { root, onChange, onPoint, columns, swatch, apart });
  }

  show(matrix, limit = most) {
    const focus = this.#focused();
    this.matrix = matrix;
    this.rows = matrix.series.slice(0, limit).map((s) => this.#row(s));
    const common = labelText(matrix.common);
    const left = matrix.series.length - this.rows.length;
    this.root.classList.toggle('apart', this.apart);
    put(this.root,
      el('p', { class: 'caption' }, el('strong', {}, `${count(matrix.series.length)} series`), common ? el('span', {}, ' all with ', el('code', {}, common)) : null),
      el('div', { class: 'scroll' }, el('table', {},
        el('thead', {}, el('tr', {}, ['', 'Series', ...this.columns.map(([t]) => t)].map((t, i) => el('th', { scope: 'col', class: i > 1 ? `number ${t.toLowerCase()}` : null }, t)))),
        el('tbody', {}, this.rows.map((r) => r.element)))),
      left > 0 ? el('button', { class: 'quiet', onclick: () => this.show(matrix, Infinity) }, `Show ${count(left)} more`) : null);
    this.#refresh();
    this.rows.find((r) => r.series.text === focus?.text)?.[focus.part].focus({ preventScroll: true });
  }

  // focused is the button that has the focus, so that the next legend can give it back.
  #focused() {
    for (const row of this.rows ?? []) {
      for (const part of ['toggle', 'name']) {
        if (row[part] === document.activeElement) return { text: row.series.text, part };
      }
    }
    return null;
  }

  #row(s) {
    const toggle = el('button', { class: 'toggle', 'aria-label': `Show ${s.name}`, title: 'Hide or show', onclick: () => this.#toggle(s) },
      el('i', { class: this.swatch(s) }));
    const name = el('button', { class: 'name', title: `${s.text}\nShow only this series${this.apart ? '' : ', or all again'}`, onclick: (e) => (e.ctrlKey || e.metaKey || e.shiftKey ? this.#toggle(s) : this.#isolate(s)) }, s.name);
    const values = this.columns.map(([, of]) => of(s)), texts = distinct(values);
    const number = ([t], i) => el('td', { class: `number ${t.toLowerCase()}`, title: value(values[i]) }, Number.isNaN(values[i]) ? '–' : texts[i]);
    const element = el('tr', { onpointerenter: () => this.onPoint(s), onpointerleave: () => this.onPoint(null) },
      el('td', {}, toggle), el('td', {}, name), this.columns.map(number));
    return { series: s, element, toggle, name };
  }

  #toggle(s) {
    if (this.apart && s.shown && this.matrix.visible.length === 1) return;
    s.shown = !s.shown;
    this.#changed();
  }

  #isolate(s) {
    const alone = !this.apart && s.shown && this.matrix.visible.length === 1;
    for (const other of this.matrix.series) other.shown = alone || other === s;
    this.#changed();
  }

  #changed() {
    this.#refresh();
    this.onChange();
  }

  #refresh() {
    const alone = this.matrix.visible.length === 1;
    for (const { series, element, toggle, name } of this.rows) {
      element.classList.toggle('off', !series.shown);
      toggle.setAttribute('aria-pressed', series.shown);
      name.setAttribute('aria-pressed', series.shown && alone && this.matrix.series.length > 1);
    }
  }
}
