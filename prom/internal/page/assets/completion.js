// The list of completions under the cursor, and its keys.

import { candidates } from './candidates.js';
import { el } from './dom.js';
import { contextAt } from './promql.js';

// Completion shows what can complete the text of an editor.
export class Completion {
  constructor(editor, box, list) {
    Object.assign(this, { editor, box, list, found: [], chosen: -1, context: null, asked: 0 });
    editor.input.addEventListener('input', () => this.#suggest(false));
    editor.input.addEventListener('keydown', (e) => this.#key(e));
    editor.input.addEventListener('blur', () => this.close());
    editor.input.addEventListener('pointerdown', () => this.close());
    list.addEventListener('pointerdown', (e) => this.#pick(e));
  }

  get isOpen() {
    return !this.box.hidden;
  }

  close() {
    this.asked++;
    this.box.hidden = true;
    this.editor.input.removeAttribute('aria-activedescendant');
  }

  async #suggest(wanted) {
    const asked = ++this.asked;
    const { text, cursor } = this.editor;
    const context = contextAt(text, cursor);
    if (!wanted && !this.#worth(context, text[cursor - 1])) {
      this.close();
      return;
    }
    const found = await candidates(context);
    if (asked !== this.asked) return; // something was typed since
    if (found.length === 0) this.close();
    else this.#show(context, found);
  }

  // worth reports whether a list helps without being asked for: while a word is typed, and behind what
  // labels and values follow.
  #worth(context, last) {
    if (context.kind === 'none') return false;
    if (context.prefix) return true;
    return context.kind === 'value' || context.kind === 'duration' || (context.kind === 'label' && '{(,'.includes(last));
  }

  #show(context, found) {
    Object.assign(this, { context, found, chosen: -1 });
    this.list.replaceChildren(...found.map((c, i) => this.#item(c, i)));
    this.list.scrollTop = 0;
    this.box.hidden = false;
    this.#place();
    this.#choose(-1);
  }

  #item(c, i) {
    const p = this.context.prefix;
    const at = c.text.toLowerCase().indexOf(p.toLowerCase());
    return el('li', { role: 'option', id: `completion-${i}`, 'data-index': i, 'aria-selected': 'false' },
      el('span', { class: `kind ${c.kind}`, title: c.kind }, c.kind[0]),
      el('span', { class: 'word' }, c.text.slice(0, at), el('b', {}, c.text.slice(at, at + p.length)), c.text.slice(at + p.length)),
      c.note ? el('span', { class: 'what' }, c.note) : null);
  }

  #place() {
    const { left, bottom } = this.editor.caret(this.context.from);
    const width = this.box.offsetWidth;
    const room = this.box.offsetParent.clientWidth;
    this.box.style.left = `${Math.max(0, Math.min(left, room - width))}px`;
    this.box.style.top = `${bottom + 6}px`;
  }

  #choose(i) {
    this.list.children[this.chosen]?.setAttribute('aria-selected', 'false');
    this.chosen = i;
    const item = this.list.children[i];
    if (!item) {
      this.editor.input.removeAttribute('aria-activedescendant');
      return;
    }
    item.setAttribute('aria-selected', 'true');
    item.scrollIntoView({ block: 'nearest' });
    this.editor.input.setAttribute('aria-activedescendant', item.id);
  }

  #key(e) {
    if (e.key === ' ' && e.ctrlKey) {
      e.preventDefault();
      this.#suggest(true);
    } else if (this.isOpen && this.#openKey(e)) {
      e.preventDefault();
      e.stopImmediatePropagation();
    }
  }

  // openKey handles a key while the list is open, and reports whether it was one for it. Enter is only so
  // when something is chosen: else it runs the query.
  #openKey(e) {
    const n = this.found.length;
    switch (e.key) {
      case 'ArrowDown': this.#choose((this.chosen + 1) % n); return true;
      case 'ArrowUp': this.#choose((this.chosen <= 0 ? n : this.chosen) - 1); return true;
      case 'PageDown': this.#choose(Math.min(this.chosen + 8, n - 1)); return true;
      case 'PageUp': this.#choose(Math.max(this.chosen - 8, 0)); return true;
      case 'Escape': this.close(); return true;
      case 'Tab':
        if (e.shiftKey) return false;
        this.#take(Math.max(this.chosen, 0));
        return true;
      case 'Enter':
        if (this.chosen < 0 || e.shiftKey) return false;
        this.#take(this.chosen);
        return true;
      default: return false;
    }
  }

  #pick(e) {
    const item = e.target.closest('li');
    e.preventDefault(); // the editor keeps the focus
    if (item) this.#take(Number(item.dataset.index));
  }

  #take(i) {
    const c = this.found[i];
    this.close();
    const called = (c.kind === 'function' || c.kind === 'aggregation') && this.editor.text[this.context.to] === '(';
    const insert = called ? c.text : c.insert;
    this.editor.replace(this.context.from, this.context.to, insert, called ? 0 : c.back ?? 0);
    if (c.kind === 'label' && this.context.braces) this.#suggest(true);
  }
}
