// The field of the query: it grows with its text, shows its parts in colours, and marks an error.

import { el } from './dom.js';
import { placeOf, tokenAt, tokenize } from './promql.js';

// Editor is a text area over a copy of its text that has the colours.
export class Editor {
  constructor(input, echo) {
    Object.assign(this, { input, echo, mark: null, submit: () => {} });
    input.addEventListener('input', () => this.#changed());
    input.addEventListener('scroll', () => { echo.scrollTop = input.scrollTop; });
    window.addEventListener('resize', () => this.#draw());
  }

  get text() {
    return this.input.value;
  }

  set text(text) {
    if (text === this.input.value) return;
    this.input.value = text;
    this.#changed();
  }

  get cursor() {
    return this.input.selectionStart;
  }

  // listen runs the query on Enter. It comes last, so that completions see keys first. Lines are begun by
  // Shift and Enter only: some browsers insert one although the key was taken.
  listen(submit) {
    let shift = false;
    this.input.addEventListener('keydown', (e) => { shift = e.shiftKey; }, true);
    this.input.addEventListener('beforeinput', (e) => {
      if (e.inputType === 'insertLineBreak' && !shift) e.preventDefault();
    });
    this.input.addEventListener('keydown', (e) => {
      if (e.key !== 'Enter' || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      submit();
    });
  }

  // replace puts text in the place of a range, as if it was typed, and goes back a few characters.
  replace(from, to, text, back) {
    this.input.focus();
    this.input.setSelectionRange(from, to);
    // Only this keeps the way back by Control and Z.
    if (!document.execCommand('insertText', false, text)) this.input.setRangeText(text, from, to, 'end');
    const at = from + text.length - back;
    this.input.setSelectionRange(at, at);
    this.#changed();
  }

  // markError marks what is wrong, by the words of an error, until the text changes. It returns the words
  // with the position in characters.
  markError(words) {
    const offset = placeOf(this.text, words);
    const lines = this.text.slice(0, offset).split('\n');
    this.mark = tokenAt(this.text, offset);
    this.input.setAttribute('aria-invalid', 'true');
    this.#draw();
    return { ...words, line: lines.length, column: lines.at(-1).length + 1 };
  }

  clearMark() {
    this.mark = null;
    this.input.removeAttribute('aria-invalid');
    this.#draw();
  }

  // caret is where a character stands, relative to the editor.
  caret(offset) {
    const home = this.echo.parentElement.getBoundingClientRect();
    const range = document.createRange();
    const [node, at] = this.#find(offset);
    range.setStart(node, at);
    range.collapse(true);
    const box = range.getClientRects()[0] ?? this.echo.getBoundingClientRect();
    return { left: box.left - home.left, bottom: box.bottom - home.top };
  }

  #find(offset) {
    const walker = document.createTreeWalker(this.echo, NodeFilter.SHOW_TEXT);
    let left = offset;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (left <= node.length) return [node, left];
      left -= node.length;
    }
    return [this.echo, 0];
  }

  #changed() {
    this.mark = null;
    this.input.removeAttribute('aria-invalid');
    this.#draw();
  }

  #draw() {
    this.echo.replaceChildren(...tokenize(this.text).flatMap((t) => this.#pieces(t)), '\u200b');
    this.input.style.height = 'auto';
    this.input.style.height = `${this.input.scrollHeight}px`;
  }

  #pieces(t) {
    const [from, to] = this.mark ?? [-1, -1];
    if (t.end <= from || t.start >= to) return [el('span', { class: t.type }, t.text)];
    const cuts = [t.start, Math.max(t.start, from), Math.min(t.end, to), t.end];
    const part = (i) => this.text.slice(cuts[i], cuts[i + 1]);
    return [el('span', { class: t.type }, part(0)), el('mark', { class: t.type }, part(1)), el('span', { class: t.type }, part(2))];
  }
}
