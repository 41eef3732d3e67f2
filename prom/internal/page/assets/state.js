// What the page shows. It lives in the fragment of the address, so that a link shows the same, and the
// browser's way back works.

import { formatDuration, parseDuration } from './time.js';

export const views = ['graph', 'table', 'cardinality', 'blocks', 'health'];

const defaults = { query: '', view: 'graph', range: 3600, end: null, step: null, refresh: 0, stacked: false, exemplars: false, utc: false };

// readState reads a fragment. What is not understood is its default.
export function readState(fragment) {
  const p = new URLSearchParams(fragment.replace(/^#/, ''));
  const duration = (name, missing) => {
    const seconds = parseDuration(p.get(name) ?? '');
    return seconds > 0 ? seconds : missing;
  };
  const end = Date.parse(p.get('end') ?? '');
  return {
    query: p.get('q') ?? '',
    view: views.includes(p.get('view')) ? p.get('view') : defaults.view,
    range: duration('range', defaults.range),
    end: Number.isNaN(end) ? null : end,
    step: duration('step', null),
    refresh: Math.max(duration('refresh', 0), p.has('refresh') ? 1 : 0),
    stacked: p.has('stacked'),
    exemplars: p.has('exemplars'),
    utc: p.has('utc'),
  };
}

// writeState makes the fragment of a state. Defaults are left out.
export function writeState(s) {
  const p = new URLSearchParams();
  if (s.view !== defaults.view) p.set('view', s.view);
  if (s.query) p.set('q', s.query);
  if (s.range !== defaults.range) p.set('range', formatDuration(s.range));
  if (s.end !== null) p.set('end', new Date(s.end).toISOString());
  if (s.step !== null) p.set('step', formatDuration(s.step));
  if (s.refresh) p.set('refresh', formatDuration(s.refresh));
  for (const name of ['stacked', 'exemplars', 'utc']) if (s[name]) p.set(name, '');
  return '#' + p.toString().replaceAll('=&', '&').replace(/=$/, '');
}

// Store holds the state and tells who wants to know of changes.
export class Store {
  constructor() {
    this.state = readState(location.hash);
    this.listeners = [];
    window.addEventListener('popstate', () => this.#adopt());
  }

  onChange(listener) {
    this.listeners.push(listener);
  }

  // since is told when data begins. If that is less than an hour ago, the range is shorter where none is
  // given. It reports whether that changes what is shown.
  since(from) {
    const before = this.state.range;
    const range = Math.max(300, Math.ceil((Date.now() - from) / 60000) * 60);
    if (range < defaults.range) defaults.range = range;
    this.state = readState(location.hash);
    return this.state.range !== before;
  }

  // set changes a part of the state. It becomes a step of the browser's history, if it is one that
  // people go back to.
  set(part, step = true) {
    const before = this.state;
    this.state = { ...before, ...part };
    const fragment = writeState(this.state);
    if (step && fragment !== writeState(before)) history.pushState(null, '', fragment);
    else history.replaceState(null, '', fragment);
    this.#tell(before);
  }

  #adopt() {
    const before = this.state;
    this.state = readState(location.hash);
    this.#tell(before);
  }

  #tell(before) {
    for (const listener of this.listeners) listener(this.state, before);
  }
}
