// A graph that answers to pointer and keys: values under the cursor, and a part of the time by drag.

import { el } from './dom.js';
import { HoverBox } from './hover.js';
import { prepare } from './plot.js';

const dragPixels = 6; // less is a click

// Chart draws a matrix into an element. onZoom gets the part of the time that was chosen, onBack is called
// for the way back, tell says in words what is at a place of a plot.
export class Chart {
  constructor(root, { id, onZoom, onBack, tell }) {
    Object.assign(this, { root, onZoom, onBack, tell, matrix: null, at: null, from: null });
    this.canvas = el('canvas', { class: 'lines', 'aria-hidden': 'true' });
    this.over = el('canvas', { class: 'over', tabindex: '0', role: 'application', 'aria-roledescription': 'graph', id });
    this.box = new HoverBox();
    this.said = el('p', { class: 'hidden', 'aria-live': 'polite' });
    root.append(this.canvas, this.over, this.box.element, this.said);
    this.#listen();
    new ResizeObserver(() => this.redraw()).observe(root);
  }

  // show draws a matrix by what make makes for a width and a height.
  show(matrix, make, what) {
    Object.assign(this, { matrix, make, at: null, from: null });
    this.box.hide();
    this.over.setAttribute('aria-label', `${what}. Arrow keys show values, Enter chooses a part of the time, Backspace goes back.`);
    this.redraw();
  }

  // busy reports whether a part of the time is being chosen.
  get busy() {
    return this.from !== null;
  }

  // emphasise draws all other series faint; null: none.
  emphasise(series) {
    this.strong = series;
    this.#drawOver();
  }

  redraw() {
    const { clientWidth: width, clientHeight: height } = this.root;
    if (!this.matrix || width === 0) return;
    this.plot = this.make(width, height);
    this.plot.draw(prepare(this.canvas, width, height));
    this.ctx = prepare(this.over, width, height);
    this.#drawOver();
  }

  #listen() {
    const on = (name, f) => this.over.addEventListener(name, f);
    on('pointerdown', (e) => this.#down(e));
    on('pointermove', (e) => this.#move(e));
    on('pointerup', (e) => this.#up(e));
    on('pointercancel', () => this.#leave());
    on('pointerleave', () => { if (this.from === null) this.#leave(); });
    on('dblclick', () => this.onBack());
    on('keydown', (e) => this.#key(e));
    on('blur', () => this.#leave());
  }

  #down(e) {
    if (e.button !== 0 || !this.plot) return;
    this.over.setPointerCapture(e.pointerId);
    this.from = e.offsetX;
    this.#point(e.offsetX, e.offsetY);
  }

  #move(e) {
    if (this.plot) this.#point(e.offsetX, e.offsetY);
  }

  #up(e) {
    const from = this.from;
    this.from = null;
    if (from === null) return;
    if (Math.abs(e.offsetX - from) >= dragPixels) this.#zoom(this.plot.time(from), this.plot.time(e.offsetX));
    else this.#point(e.offsetX, e.offsetY);
  }

  #zoom(a, b) {
    this.#leave();
    this.onZoom(Math.min(a, b), Math.max(a, b));
  }

  #leave() {
    this.at = this.from = null;
    this.box.hide();
    this.#drawOver();
  }

  #point(x, y, byKey = false) {
    this.at = { index: this.matrix.index(this.plot.time(x)), x, y, byKey };
    this.#drawOver();
    this.box.show(this.plot, this.at, this.tell(this.plot, this.at), this.from === null ? null : [this.plot.time(this.from), this.plot.time(x)]);
  }

  // key moves the cursor by steps, chooses a part of the time by two times Enter, and goes back.
  #key(e) {
    if (!this.plot) return;
    const last = this.matrix.length - 1, big = Math.max(1, Math.round(last / 20));
    const index = this.at?.index ?? last;
    const to = { ArrowLeft: index - 1, ArrowRight: index + 1, PageUp: index - big, PageDown: index + big, Home: 0, End: last }[e.key];
    const upwards = { ArrowUp: 1, ArrowDown: -1 }[e.key];
    if (to !== undefined) this.#goTo(Math.max(0, Math.min(last, to)));
    else if (upwards && this.plot.climb) this.#goTo(index, this.plot.climb(index, this.at?.y ?? this.plot.bottom, upwards));
    else if (e.key === 'Enter' && this.at) this.#choose();
    else if (e.key === 'Backspace') this.onBack();
    else if (e.key === 'Escape') this.#leave();
    else return;
    e.preventDefault();
  }

  #goTo(index, y = this.at?.y ?? (this.plot.top + this.plot.bottom) / 2) {
    this.#point(this.plot.x(this.matrix.time(index)), y, true);
    this.said.textContent = this.box.text;
  }

  #choose() {
    if (this.from === null) {
      this.from = this.at.x;
      this.said.textContent = 'The begin is chosen. Go to the end and press Enter.';
    } else if (Math.abs(this.from - this.at.x) > 0) {
      this.#zoom(this.plot.time(this.from), this.plot.time(this.at.x));
    }
  }

  #drawOver() {
    const { plot, ctx, at } = this;
    if (!plot || !ctx) return;
    ctx.clearRect(0, 0, plot.width, plot.height);
    if (this.strong?.shown) plot.strong(ctx, this.strong);
    if (at && this.from !== null) this.#drawChoice(this.from, at.x);
    plot.mark(ctx, at);
  }

  #drawChoice(from, to) {
    const { plot, ctx } = this;
    const inside = (x) => Math.max(plot.left, Math.min(plot.right, x));
    const a = inside(Math.min(from, to)), b = inside(Math.max(from, to));
    ctx.fillStyle = plot.palette.select;
    ctx.globalAlpha = 0.15;
    ctx.fillRect(a, plot.top, b - a, plot.bottom - plot.top);
    ctx.globalAlpha = 1;
  }
}
