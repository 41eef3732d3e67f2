// A view of facts: it loads what the server says, and shows that or why there is nothing.

import { explain, isAbort } from './api.js';
import { el } from './dom.js';
import { failureNote } from './notes.js';

// Panel is the frame of a view. load gets the data with a signal, draw makes elements of it.
export class Panel {
  constructor(root, title, lead, load, draw) {
    Object.assign(this, { root, load, draw, running: null });
    this.body = el('div', { class: 'panel-body', 'aria-busy': 'false' });
    root.append(el('div', { class: 'panel-head' }, el('div', {}, el('h1', {}, title), el('p', { class: 'lead' }, lead)),
      el('button', { class: 'quiet', onclick: () => this.show(this.clock) }, 'Load again')), this.body);
  }

  stop() {
    this.running?.abort();
  }

  async show(clock) {
    this.clock = clock;
    this.stop();
    this.running = new AbortController();
    const { signal } = this.running;
    this.body.setAttribute('aria-busy', 'true');
    try {
      const data = await this.load(signal);
      this.body.replaceChildren(...this.draw(data, clock).filter(Boolean));
    } catch (err) {
      if (isAbort(err) || signal.aborted) return;
      this.body.replaceChildren(failureNote(explain(err), () => this.show(clock)));
    }
    this.body.setAttribute('aria-busy', 'false');
  }
}

// tiles are a few numbers that are read first: [name, text, note].
export function tiles(list) {
  return el('dl', { class: 'tiles' }, list.filter(Boolean).map(([name, text, small]) => el('div', {}, el('dt', {}, name), el('dd', {}, text, small ? el('small', {}, small) : null))));
}

// facts are names with what is said of them: [name, text, kind]; kind "bad" is to be looked at.
export function facts(title, list) {
  return el('section', { class: 'facts' }, el('h2', {}, title),
    el('dl', {}, list.filter(Boolean).map(([name, text, kind]) => el('div', { class: kind ?? null }, el('dt', {}, name), el('dd', {}, text)))));
}

// bars are a list of what there is most of, each with its part of the first.
export function bars(title, lead, list, show, choose = null) {
  const most = list[0]?.value || 1;
  const name = (item) => (choose ? el('button', { class: 'name', title: 'Show it', onclick: () => choose(item.name) }, item.name || '(empty)') : item.name || '(empty)');
  return el('section', { class: 'bars' }, el('h2', {}, title), el('p', { class: 'lead' }, lead),
    list.length === 0 ? el('p', { class: 'none' }, 'None') : el('table', {}, el('tbody', {}, list.map((item) => el('tr', {},
      el('th', { scope: 'row' }, name(item)), el('td', { class: 'bar' }, bar(item.value / most)), el('td', { class: 'number' }, show(item.value)))))));
}

function bar(part) {
  const node = el('i');
  node.style.width = `${Math.max(part * 100, 0.5)}%`;
  return node;
}
