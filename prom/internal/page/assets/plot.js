// The drawing of a graph on a canvas: axes, grid, lines. It knows nothing of pointers and keys.

import { timeText, timeTicks, valueTicks } from './axis.js';
import { drawExemplars } from './exemplars.js';
import { ticks } from './number.js';
import { dashOf, Palette } from './palette.js';
import { bounds, lines } from './series.js';

const above = 10, below = 26, beside = 14;

// prepare makes a canvas as large as it is shown, and returns its context.
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

// Frame is what drawings over time have in common: the scale of times, and its axis.
export class Frame {
  constructor(matrix, clock, width, height) {
    Object.assign(this, { matrix, clock, width, height, palette: new Palette(), top: above, bottom: height - below, right: width - beside });
  }

  x(t) {
    return this.left + (t - this.matrix.start) / (this.matrix.end - this.matrix.start || 1) * (this.right - this.left);
  }

  // time is what stands at an x.
  time(x) {
    const part = (x - this.left) / (this.right - this.left);
    return this.matrix.start + Math.max(0, Math.min(1, part)) * (this.matrix.end - this.matrix.start);
  }

  // begin clears all and makes room for the texts of the values.
  begin(ctx, values, linear) {
    ctx.clearRect(0, 0, this.width, this.height);
    ctx.font = this.palette.font;
    this.texts = ticks(values, linear);
    this.left = Math.ceil(Math.max(28, ...this.texts.map((text) => ctx.measureText(text).width))) + 12;
  }

  valueAxis(ctx, values) {
    ctx.textAlign = 'right';
    ctx.textBaseline = 'middle';
    ctx.lineWidth = 1;
    values.forEach((v, i) => {
      const y = Math.round(this.y(v)) + 0.5;
      ctx.strokeStyle = v === 0 ? this.palette.axis : this.palette.grid;
      stroke(ctx, this.left, y, this.right, y);
      ctx.fillStyle = this.palette.text;
      ctx.fillText(this.texts[i], this.left - 8, y);
    });
  }

  timeAxis(ctx) {
    const { start, end } = this.matrix;
    const { step, ticks } = timeTicks(start, end, Math.max(2, (this.right - this.left) / 80), this.clock);
    ctx.textAlign = 'center';
    ctx.textBaseline = 'top';
    for (const t of ticks) {
      const x = Math.round(this.x(t)) + 0.5;
      ctx.strokeStyle = this.palette.axis;
      stroke(ctx, x, this.bottom, x, this.bottom + 4);
      const text = timeText(t, step, this.clock);
      const half = ctx.measureText(text).width / 2;
      ctx.fillStyle = this.palette.text;
      ctx.fillText(text, Math.max(half, Math.min(this.width - half, x)), this.bottom + 9);
    }
    ctx.strokeStyle = this.palette.axis;
    stroke(ctx, this.left, Math.round(this.bottom) + 0.5, this.right, Math.round(this.bottom) + 0.5);
  }

  // cursor is a line at a step, and returns its x.
  cursor(ctx, index) {
    const x = Math.round(this.x(this.matrix.time(index))) + 0.5;
    ctx.strokeStyle = this.palette.text;
    ctx.lineWidth = 1;
    stroke(ctx, x, this.top, x, this.bottom);
    return x;
  }
}

// Plot is one drawing of lines: the scale of a matrix on a canvas of a size.
export class Plot extends Frame {
  constructor(matrix, stacked, clock, width, height, points = []) {
    super(matrix, clock, width, height);
    this.points = points;
    this.lines = lines(matrix, stacked);
    [this.min, this.max] = bounds(this.lines, stacked);
    this.values = valueTicks(this.min, this.max, Math.max(2, height / 56));
  }

  y(v) {
    return this.bottom - (v - this.min) / (this.max - this.min) * (this.bottom - this.top);
  }

  draw(ctx) {
    this.begin(ctx, this.values, true);
    this.valueAxis(ctx, this.values);
    this.timeAxis(ctx);
    ctx.save();
    ctx.beginPath();
    ctx.rect(this.left - 2, 0, this.right - this.left + 4, this.bottom + 2);
    ctx.clip();
    for (const line of this.lines) this.#line(ctx, line);
    ctx.restore();
    drawExemplars(ctx, this, this.points);
  }

  // mark draws what is pointed at, over the lines: a step, or null.
  mark(ctx, at) {
    if (!at) return;
    const x = this.cursor(ctx, at.index);
    if (this.lines.length > 200) return;
    for (const { series, tops } of this.lines) {
      if (!Number.isFinite(series.values[at.index])) continue;
      ctx.fillStyle = this.palette.ground;
      dot(ctx, x, this.y(tops[at.index]), 4.5);
      ctx.fillStyle = this.palette.of(series.index);
      dot(ctx, x, this.y(tops[at.index]), 3);
    }
  }

  // strong draws one series over all others, which become faint.
  strong(ctx, series) {
    const line = this.lines.find((l) => l.series === series);
    if (!line) return;
    ctx.globalAlpha = 0.75;
    ctx.fillStyle = this.palette.ground;
    ctx.fillRect(this.left, this.top, this.right - this.left, this.bottom - this.top);
    ctx.globalAlpha = 1;
    ctx.strokeStyle = this.palette.of(series.index);
    ctx.lineWidth = 2.5;
    this.trace(ctx, line);
    ctx.stroke();
  }

  #line(ctx, line) {
    const colour = this.palette.of(line.series.index);
    if (line.base) this.#area(ctx, line, colour);
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = this.lines.length > 50 ? 1 : 1.6;
    ctx.lineJoin = 'round';
    ctx.setLineDash(dashOf(line.series.index));
    this.trace(ctx, line);
    ctx.stroke();
    ctx.setLineDash([]);
    this.#lonely(ctx, line.tops);
  }

  // trace is the path of a line, with gaps where there are no values.
  trace(ctx, { tops }) {
    let on = false;
    ctx.beginPath();
    for (let i = 0; i < tops.length; i++) {
      if (!Number.isFinite(tops[i])) {
        on = false;
        continue;
      }
      const x = this.x(this.matrix.time(i)), y = this.y(tops[i]);
      if (on) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      on = true;
    }
  }

  #area(ctx, { tops, base }, colour) {
    const n = tops.length, at = (i) => this.x(this.matrix.time(i));
    ctx.beginPath();
    for (let i = 0; i < n; i++) ctx.lineTo(at(i), this.y(tops[i]));
    for (let i = n - 1; i >= 0; i--) ctx.lineTo(at(i), this.y(base[i]));
    ctx.closePath();
    ctx.globalAlpha = 0.35;
    ctx.fillStyle = colour;
    ctx.fill();
    ctx.globalAlpha = 1;
  }

  // lonely draws values without neighbours, which have no line.
  #lonely(ctx, values) {
    for (let i = 0; i < values.length; i++) {
      if (!Number.isFinite(values[i]) || Number.isFinite(values[i - 1]) || Number.isFinite(values[i + 1])) continue;
      dot(ctx, this.x(this.matrix.time(i)), this.y(values[i]), 2);
    }
  }
}

export function stroke(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

export function dot(ctx, x, y, radius) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fill();
}
