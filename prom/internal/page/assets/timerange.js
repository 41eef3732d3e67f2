// The controls of a query: what is shown, which times, in which steps, how often anew.

import { byId, el } from './dom.js';
import { formatDuration, parseDuration } from './time.js';

const ranges = [300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
const refreshes = [0, 5, 15, 30, 60, 300];
const steps = [0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

const pointsWanted = 400; // of a line: more are finer than pixels on a usual screen

// autoStep is a round step, in seconds, for a range.
export function autoStep(range) {
  return steps.find((s) => range / s <= pointsWanted) ?? Math.ceil(range / pointsWanted / 86400) * 86400;
}

// TimeRange makes the controls and keeps them as the state is.
export class TimeRange {
  constructor(root, store, clock) {
    Object.assign(this, { root, store, clock, back: [] });
    this.#make();
  }

  get #state() {
    return this.store.state;
  }

  // zoom shows a part of the time; zoomBack what was shown before that.
  zoom(from, to) {
    const { range, end } = this.#state;
    this.back.push({ range, end });
    this.store.set({ range: Math.max(0.001, Math.round(to - from) / 1000), end: Math.round(to) });
  }

  zoomBack() {
    const before = this.back.pop();
    if (before) this.store.set(before);
  }

  #make() {
    const tab = (view, text) => el('button', { role: 'tab', id: `tab-${view}`, 'aria-controls': view, onclick: () => this.store.set({ view }), onkeydown: (e) => this.#tabKey(e) }, text);
    const choice = (id, label, ...children) => el('div', { class: 'field', id: `${id}-field` }, el('label', { for: id }, label), ...children);
    const button = (id, text, label, run) => el('button', { id, 'aria-label': label, title: label, onclick: run }, text);
    this.range = el('input', { id: 'range', list: 'ranges', size: 7, inputmode: 'text', onchange: () => this.#setRange(), onkeydown: onEnter(() => this.#setRange()) });
    this.end = el('input', { id: 'end', type: 'datetime-local', onchange: () => this.#setEnd() });
    this.step = el('input', { id: 'step', size: 8, onchange: () => this.#setStep(), onkeydown: onEnter(() => this.#setStep()) });
    this.refresh = el('select', { id: 'refresh', onchange: () => this.store.set({ refresh: Number(this.refresh.value) }, false) },
      refreshes.map((s) => el('option', { value: s }, s ? formatDuration(s) : 'off')));
    this.exemplars = el('input', { id: 'exemplars', type: 'checkbox', onchange: () => this.store.set({ exemplars: this.exemplars.checked }) });
    this.root.replaceChildren(
      el('div', { class: 'group tabs', role: 'tablist', 'aria-label': 'Result' }, tab('graph', 'Graph'), tab('table', 'Table')),
      el('div', { class: 'group', id: 'style-group' },
        button('lines', 'Lines', 'One line for each series', () => this.store.set({ stacked: false })),
        button('stacked', 'Stacked', 'Series on top of one another', () => this.store.set({ stacked: true }))),
      el('div', { class: 'group', id: 'range-group' }, choice('range', 'Range', el('span', { class: 'joined' },
        button('shorter', '−', 'Shorter range', () => this.#widen(-1)), this.range, button('longer', '+', 'Longer range', () => this.#widen(1)))),
      el('datalist', { id: 'ranges' }, ranges.map((s) => el('option', { value: formatDuration(s) })))),
      el('div', { class: 'group', id: 'end-group' }, choice('end', 'Until', el('span', { class: 'joined' },
        button('earlier', '‹', 'Earlier', () => this.#shift(-0.5)), this.end, button('later', '›', 'Later', () => this.#shift(0.5)),
        button('now', 'Now', 'Until now', () => this.#now())))),
      el('div', { class: 'group', id: 'step-group' }, choice('step', 'Step', this.step)),
      el('div', { class: 'group' }, choice('refresh', 'Refresh', this.refresh)),
      el('label', { class: 'field', id: 'exemplars-field', for: 'exemplars' }, this.exemplars, 'Exemplars'),
      button('zoom-back', '↩', 'Back to the times before', () => this.zoomBack()));
  }

  // show sets the controls to the state.
  show(clock) {
    this.clock = clock;
    const { view, range, end, step, refresh, stacked, exemplars } = this.#state;
    for (const name of ['graph', 'table']) {
      byId(`tab-${name}`).setAttribute('aria-selected', view === name);
      byId(`tab-${name}`).tabIndex = view === name ? 0 : -1;
    }
    for (const id of ['range-group', 'step-group', 'style-group', 'exemplars-field']) byId(id).hidden = view !== 'graph';
    byId('zoom-back').hidden = view !== 'graph' || this.back.length === 0;
    this.range.value = formatDuration(range);
    this.tick();
    byId('end-field').classList.toggle('now', end === null);
    byId('now').setAttribute('aria-pressed', end === null);
    this.step.value = step === null ? '' : formatDuration(step);
    this.step.placeholder = `auto ${formatDuration(autoStep(range))}`;
    if (![...this.refresh.options].some((o) => Number(o.value) === refresh)) this.refresh.add(new Option(formatDuration(refresh), refresh));
    this.refresh.value = String(refresh);
    byId('lines').setAttribute('aria-pressed', !stacked);
    byId('stacked').setAttribute('aria-pressed', stacked);
    this.exemplars.checked = exemplars;
    for (const input of [this.range, this.step]) input.setCustomValidity('');
  }

  // tick shows until when the result is; while that is now, the time goes on. A phone has no room for seconds.
  tick() {
    if (document.activeElement === this.end) return;
    const narrow = matchMedia('(max-width: 46rem)').matches;
    this.end.step = narrow ? 60 : 1;
    this.end.value = this.clock.input(this.#state.end ?? Date.now()).slice(0, narrow ? 16 : 19);
  }

  #setRange() {
    const range = parseDuration(this.range.value);
    if (!(range > 0)) complain(this.range, 'A range is like 15m, 2h or 1d12h.');
    else if (range !== this.#state.range) this.store.set({ range });
  }

  #setStep() {
    const text = this.step.value.trim();
    const step = text === '' ? null : parseDuration(text);
    if (text !== '' && !(step > 0)) complain(this.step, 'A step is like 15s or 5m. Leave it empty for a suitable one.');
    else if (step !== this.#state.step) this.store.set({ step });
  }

  #setEnd() {
    this.store.set({ end: this.end.value ? this.clock.read(this.end.value) : null });
  }

  #widen(by) {
    const { range } = this.#state;
    const next = by > 0 ? ranges.find((r) => r > range) : ranges.findLast((r) => r < range);
    this.store.set({ range: next ?? (by > 0 ? range * 2 : range / 2) });
  }

  #shift(part) {
    const { range, end, view } = this.#state;
    const span = view === 'graph' ? range : 600;
    const to = Math.round((end ?? Date.now()) + part * span * 1000);
    this.store.set({ end: to >= Date.now() ? null : to });
  }

  #now() {
    this.back = [];
    this.store.set({ end: null });
  }

  // tabKey goes from tab to tab, as tabs do everywhere.
  #tabKey(e) {
    if (e.key !== 'ArrowLeft' && e.key !== 'ArrowRight') return;
    const view = this.#state.view === 'graph' ? 'table' : 'graph';
    this.store.set({ view });
    byId(`tab-${view}`).focus();
  }
}

const onEnter = (run) => (e) => {
  if (e.key !== 'Enter') return;
  e.preventDefault();
  run();
};

function complain(input, text) {
  input.setCustomValidity(text);
  input.reportValidity();
}
