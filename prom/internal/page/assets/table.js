// The values of an instant query as a table: a column for each label that differs.

import { bucketsOf } from './buckets.js';
import { el, put } from './dom.js';
import { readHistogram, summary } from './histogram.js';
import { count, value } from './number.js';
import { labelText, number, own, shared } from './series.js';

const most = 500; // rows at first
const openAtFirst = 2; // histograms of which the buckets are shown at once, if there are no more

// Table shows what an instant query gives.
export class Table {
  constructor(root) {
    this.root = root;
    this.open = new Map(); // whether the buckets of a series are shown, of those where a person has said so
  }

  show({ resultType, result }, clock) {
    this.clock = clock;
    if (resultType === 'scalar' || resultType === 'string') this.#single(resultType, result);
    else this.#rows(resultType === 'matrix' ? result.map(many) : result.map(one));
  }

  #single(type, [t, v]) {
    put(this.root, el('p', { class: 'caption' }, `One ${type} at ${this.clock.full(t * 1000)}`),
      el('p', { class: 'single' }, type === 'string' ? v : value(number(v))));
  }

  #rows(rows) {
    this.rows = rows;
    this.common = rows.length > 1 ? shared(rows.map((r) => r.labels)) : {};
    const names = new Set(rows.flatMap((r) => Object.keys(own(r.labels, this.common))));
    this.names = [...names].sort((a, b) => (b === '__name__') - (a === '__name__') || a.localeCompare(b));
    this.limit = most;
    // The order stays when the same query is run again.
    if (this.sort && this.sort.name !== null && !names.has(this.sort.name)) this.sort = null;
    this.#order();
    this.#draw();
  }

  #draw() {
    const rows = this.rows.slice(0, this.limit);
    const common = labelText(this.common), left = this.rows.length - rows.length;
    const times = new Set(this.rows.map((r) => r.t));
    put(this.root,
      el('p', { class: 'caption' }, el('strong', {}, `${count(this.rows.length)} series`), times.size === 1 ? ` at ${this.clock.full([...times][0] * 1000)}` : null,
        common ? el('span', {}, ' all with ', el('code', {}, common)) : null),
      el('div', { class: 'scroll' }, el('table', { class: 'values' },
        el('thead', {}, el('tr', {}, this.names.map((n) => this.#head(n, n === '__name__' ? 'metric' : n)), this.#head(null, 'Value'))),
        el('tbody', {}, rows.flatMap((r) => [this.#row(r), this.#detail(r)])))),
      left > 0 ? el('button', { class: 'quiet', onclick: () => { this.limit = Infinity; this.#draw(); } }, `Show ${count(left)} more`) : null);
  }

  #head(name, text) {
    const sorted = this.sort?.name === name ? (this.sort.down ? 'descending' : 'ascending') : null;
    return el('th', { scope: 'col', class: name === null ? 'number' : null, 'aria-sort': sorted },
      el('button', { title: 'Sort', onclick: () => this.#sortBy(name) }, text, el('span', { 'aria-hidden': 'true' }, sorted ? (this.sort.down ? ' ↓' : ' ↑') : '')));
  }

  #row(r) {
    return el('tr', {}, this.names.map((n) => el('td', {}, r.labels[n] ?? '')),
      el('td', { class: 'number', title: r.raw }, r.samples ? this.#list(r.samples) : shownValue(r), r.histogram ? this.#opener(r) : null));
  }

  // opener shows and hides the buckets of a histogram, which stand in a row of their own.
  #opener(r) {
    const open = this.#isOpen(r);
    return el('button', { class: 'open', 'aria-expanded': String(open), 'aria-label': `Buckets of ${labelText(r.labels)}`, onclick: () => {
      this.open.set(labelText(r.labels), !open);
      const at = [...this.root.querySelectorAll('.open')].findIndex((b) => b === document.activeElement);
      this.#draw();
      this.root.querySelectorAll('.open')[at]?.focus();
    } }, open ? 'Hide buckets' : 'Buckets');
  }

  #isOpen(r) {
    return this.open.get(labelText(r.labels)) ?? this.rows.filter((o) => o.histogram).length <= openAtFirst;
  }

  #detail(r) {
    if (!r.histogram || !this.#isOpen(r)) return null;
    return el('tr', { class: 'detail' }, el('td', { colspan: this.names.length + 1 }, bucketsOf(r.histogram)));
  }

  // list is the samples of a range, each with its time.
  #list(samples) {
    return el('ul', {}, samples.map((s) => el('li', {}, shownValue(s), el('span', { class: 'when' }, ` ${this.clock.full(s.t * 1000)}`))));
  }

  // sortBy sorts by a label, or by the value for null; numbers the largest first.
  #sortBy(name) {
    const down = this.sort?.name === name ? !this.sort.down : name === null;
    this.sort = { name, down };
    this.#order();
    this.#draw();
    const at = name === null ? this.names.length : this.names.indexOf(name);
    this.root.querySelectorAll('thead button')[at].focus();
  }

  #order() {
    if (!this.sort) return;
    const { name, down } = this.sort;
    const order = name === null ? (a, b) => a.v - b.v : (a, b) => (a.labels[name] ?? '').localeCompare(b.labels[name] ?? '', undefined, { numeric: true });
    this.rows.sort((a, b) => (down ? -order(a, b) : order(a, b)));
  }
}

const shownValue = (sample) => sample.text ?? value(sample.v);

// said is a sample as a row has it: of a histogram the count is what rows are sorted by.
function said([t, v]) {
  if (typeof v === 'string') return { t, raw: v, v: number(v) };
  const histogram = readHistogram(v);
  return { t, raw: `${value(histogram.count)} observations, sum ${value(histogram.sum)}`, v: histogram.count, text: summary(histogram), histogram };
}

function one(r) {
  return { labels: r.metric, ...said(r.value ?? r.histogram) };
}

function many(r) {
  const samples = [...(r.values ?? []), ...(r.histograms ?? [])].sort((a, b) => a[0] - b[0]).map(said);
  return { labels: r.metric, ...samples.at(-1), samples, histogram: null };
}
