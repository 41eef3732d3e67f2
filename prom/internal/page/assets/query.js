// The view of a query: it asks the server and shows graph or table.

import { ask, explain, isAbort, send } from './api.js';
import { Chart } from './chart.js';
import { Completion } from './completion.js';
import { byId, el } from './dom.js';
import { Editor } from './editor.js';
import { readExemplars, showList, withExemplars } from './exemplars.js';
import { HeatMaps } from './heats.js';
import { HistogramMatrix } from './histogram.js';
import { tellLines } from './hover.js';
import { Legend } from './legend.js';
import { answerNotes, empty, failureNote, note } from './notes.js';
import { Plot } from './plot.js';
import { Matrix } from './series.js';
import { Table } from './table.js';
import { autoStep, TimeRange } from './timerange.js';

const mostSeries = 2000; // of one graph: more cannot be told apart, and slow the browser down

const startingSeconds = 1; // until a server that is not ready is asked again

// QueryView runs the query of the state.
export class QueryView {
  constructor(store, clock) {
    Object.assign(this, { store, clock, running: null, timer: 0 });
    this.editor = new Editor(byId('query'), byId('echo'));
    this.completion = new Completion(this.editor, byId('completion-box'), byId('completion'));
    this.editor.listen(() => this.#submit());
    byId('query-form').addEventListener('submit', (e) => {
      e.preventDefault();
      this.#submit();
    });
    this.times = new TimeRange(byId('controls'), store, clock);
    this.notes = byId('notes');
    this.#makeResult();
    document.addEventListener('visibilitychange', () => { if (!document.hidden) this.#schedule(); });
  }

  #makeResult() {
    this.plot = el('div', { class: 'plot' });
    const legend = el('div', { class: 'legend', id: 'legend' });
    const heats = el('div', { class: 'heats', hidden: true });
    this.begin = el('div', { id: 'begin', hidden: true });
    this.lines = el('div', {}, this.plot, legend);
    this.exemplars = el('details', { class: 'exemplars', hidden: true });
    byId('graph').append(this.lines, heats, this.exemplars);
    byId('result').append(this.begin);
    const zooming = { onZoom: (from, to) => this.times.zoom(from, to), onBack: () => this.times.zoomBack() };
    this.chart = new Chart(this.plot, { id: 'chart', tell: withExemplars(tellLines), ...zooming });
    this.heats = new HeatMaps(heats, zooming);
    this.legend = new Legend(legend, { onChange: () => this.chart.redraw(), onPoint: (s) => this.chart.emphasise(s) });
    this.table = new Table(byId('table'));
  }

  #submit() {
    this.completion.close();
    const query = this.editor.text.trim();
    if (query === this.store.state.query) this.run();
    else this.store.set({ query });
  }

  // show sets everything to the state and runs the query.
  show(clock) {
    this.clock = clock;
    this.editor.text = this.store.state.query;
    this.times.show(clock);
    this.run();
  }

  // refit is for another range where none is given.
  refit() {
    const { view, query } = this.store.state;
    this.times.show(this.clock);
    if (view === 'graph' && query) this.run();
  }

  // stop ends what is under way, as another view is shown.
  stop() {
    clearTimeout(this.timer);
    this.running?.abort();
  }

  async run() {
    this.stop();
    this.completion.close();
    const { query, view } = this.store.state;
    if (!query) {
      this.#showBegin();
      return;
    }
    this.running = new AbortController();
    const { signal } = this.running;
    byId('result').setAttribute('aria-busy', 'true');
    this.times.tick();
    try {
      const shown = view === 'table' ? await this.#instant(query, signal) : await this.#range(query, signal);
      this.#arrived(shown);
    } catch (err) {
      if (isAbort(err) || signal.aborted) return;
      this.#failed(err);
    }
    byId('result').setAttribute('aria-busy', 'false');
    this.#schedule();
  }

  async #range(query, signal) {
    const { range, end, step: given, stacked, exemplars } = this.store.state;
    const step = (given ?? autoStep(range)) * 1000;
    // On whole steps, so that a graph does not flicker as time goes on.
    const last = Math.floor((end ?? Date.now()) / step) * step;
    const first = Math.ceil((last - range * 1000) / step) * step;
    const times = { query, start: first / 1000, end: last / 1000 };
    const [answer, { points, lack }] = await Promise.all([send('query_range', { ...times, step: step / 1000, limit: mostSeries }, signal), exemplars ? this.#points(times, signal) : { points: null, lack: [] }]);
    answer.warnings.push(...lack);
    if (answer.data.result.length === 0) return { answer, view: null };
    const make = (Kind, part) => {
      const some = answer.data.result.filter((r) => r[part]?.length);
      return some.length ? new Kind(some, first, last, step) : null;
    };
    const drawn = { query, points, floats: make(Matrix, 'values'), histograms: make(HistogramMatrix, 'histograms') };
    if (this.drawn?.query === query) {
      for (const part of ['floats', 'histograms']) if (this.drawn[part]) drawn[part]?.adopt(this.drawn[part]);
    }
    this.drawn = drawn;
    this.#reveal('graph');
    this.#draw(drawn, stacked);
    return { answer, view: 'graph' };
  }

  // points are the exemplars of a query, and why there are none: the graph stands without them.
  async #points(times, signal) {
    try {
      const { data } = await send('query_exemplars', times, signal);
      return { points: readExemplars(data), lack: [] };
    } catch (err) {
      if (isAbort(err) || signal.aborted) throw err;
      return { points: [], lack: [`There are no exemplars: ${explain(err).text}`] };
    }
  }

  // draw shows floats as lines and histograms as heat maps: those that there are.
  #draw({ floats, histograms, points }, stacked) {
    this.lines.hidden = floats === null;
    byId('style-group').hidden = floats === null;
    if (floats) {
      const { clock } = this;
      const what = `Graph of ${floats.series.length} series from ${clock.full(floats.start)} to ${clock.full(floats.end)}`;
      this.chart.show(floats, (width, height) => new Plot(floats, stacked, clock, width, height, points ?? []), what);
      this.legend.show(floats);
    }
    this.heats.show(histograms, this.clock, points ?? []);
    showList(this.exemplars, points, this.clock);
  }

  // redraw is for other colours.
  redraw() {
    this.chart.redraw();
    this.heats.redraw();
  }

  async #instant(query, signal) {
    const { end } = this.store.state;
    const answer = await send('query', { query, time: (end ?? Date.now()) / 1000 }, signal);
    if (answer.data.result.length === 0) return { answer, view: null };
    this.#reveal('table');
    this.table.show(answer.data, this.clock);
    return { answer, view: 'table' };
  }

  #arrived({ answer, view }) {
    this.starting = false;
    this.editor.clearMark();
    const notes = answerNotes(answer);
    if (view === null) {
      this.#reveal(null);
      const { end, range } = this.store.state;
      const when = this.store.state.view === 'table' ? `at ${end === null ? 'this time' : this.clock.full(end)}` : `from ${this.clock.seconds((end ?? Date.now()) - range * 1000)} to ${end === null ? 'now' : this.clock.full(end)}`;
      notes.push(note('info', 'There is nothing to show', `No series of this query has samples ${when}. Try other times, or another name.`));
    }
    this.notes.replaceChildren(...notes);
  }

  // failed leaves an older result on the page, faint, so that a short trouble does not take it away.
  #failed(err) {
    let words = explain(err);
    if (words.column) words = this.editor.markError(words);
    const again = ['unreachable', 'starting', 'strange', 'timeout', 'internal', 'canceled'].includes(err.kind);
    this.notes.replaceChildren(failureNote(words, again ? () => this.run() : null));
    if (!again) this.#reveal(null);
    byId('result').classList.toggle('old', again);
    this.starting = err.kind === 'starting';
  }

  #reveal(view) {
    byId('result').classList.remove('old');
    byId('graph').hidden = view !== 'graph';
    byId('table').hidden = view !== 'table';
    this.begin.hidden = view !== 'begin';
  }

  #schedule() {
    clearTimeout(this.timer);
    const { query, view } = this.store.state;
    const refresh = this.starting ? startingSeconds : this.store.state.refresh;
    if (refresh && query && (view === 'graph' || view === 'table') && !document.hidden) this.timer = setTimeout(() => (this.chart.busy || this.heats.busy ? this.#schedule() : this.run()), refresh * 1000);
  }

  // showBegin says how to begin, with metrics that are there.
  async #showBegin() {
    this.#reveal('begin');
    this.editor.clearMark();
    byId('result').setAttribute('aria-busy', 'false');
    try {
      const { data } = await ask('status/tsdb', { limit: 8 });
      this.notes.replaceChildren();
      this.begin.replaceChildren(data.seriesCountByMetricName.length ? this.#invitation(data.seriesCountByMetricName) : noSamples());
    } catch (err) {
      this.notes.replaceChildren(failureNote(explain(err), () => this.run()));
      this.begin.replaceChildren();
    }
  }

  #invitation(metrics) {
    return empty('Type a query, or begin with a metric',
      el('p', {}, 'Names complete while you type. Enter runs the query.'),
      el('p', { class: 'chips' }, metrics.map((m) => el('button', { onclick: () => this.store.set({ query: m.name }) }, m.name))));
  }
}

function noSamples() {
  return empty('The head has no samples yet', el('p', {}, 'When the program has appended some, their metrics can be chosen here. What is in blocks can be queried by name; the view Blocks shows which times there are.'));
}
