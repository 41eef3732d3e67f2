// The drawing of histograms over time: times to the right, buckets upwards, and the denser the deeper a colour.
// Beside it are the buckets of one time, on the same scale.

import { BucketScale } from './bucketscale.js';
import { el } from './dom.js';
import { drawExemplars } from './exemplars.js';
import { boundsText, mean, partText } from './histogram.js';
import { short, value } from './number.js';
import { Frame, stroke } from './plot.js';

const head = 24; // pixels for what stands over the buckets of one time
const asideMin = 720, aside = 170, gap = 20; // pixels: from which width on they have room, how much, and how far away

// deepness is how deep a colour is for a part of the most: the root, so that few are seen beside many.
export const deepness = (part) => Math.sqrt(Math.max(0, Math.min(1, part)));

// HeatMap is one drawing of one series. Those that are drawn together have the scale of all of them.
export class HeatMap extends Frame {
  constructor(matrix, series, all, clock, width, height, points = []) {
    super(matrix, clock, width, height);
    this.points = points;
    this.series = series;
    this.top = head;
    const histograms = all.flatMap((s) => s.steps).filter((h) => h !== null);
    this.scale = new BucketScale(histograms, this.bottom - this.top);
    this.most = densest(this.scale, histograms);
    this.ramp = this.palette.ramp(64);
    this.aside = width >= asideMin;
    if (this.aside) this.right = width - aside - gap;
  }

  y(v) {
    return this.bottom - this.scale.at(v);
  }

  // rows are the upper and lower end of a bucket, on whole pixels of the screen, so that no seam is seen.
  #rows(b) {
    const [from, to] = this.scale.ends(b);
    const low = sharp(this.bottom - from), high = sharp(this.bottom - to);
    return [Math.min(high, low - 1 / ratio()), low];
  }

  // columns are the left and right end of a step.
  #columns(i) {
    const t = this.matrix.time(i), half = this.matrix.step / 2;
    const left = Math.max(this.left, sharp(this.x(t - half))), right = Math.min(this.right, sharp(this.x(t + half)));
    return [left, Math.max(right, left + 1 / ratio())];
  }

  draw(ctx) {
    const ticks = this.scale.ticks();
    this.begin(ctx, ticks, false);
    this.valueAxis(ctx, ticks);
    for (let i = 0; i < this.matrix.length; i++) {
      const h = this.series.steps[i];
      if (h === null) continue;
      const [left, right] = this.#columns(i);
      for (const b of h.buckets) {
        if (!(b.count > 0)) continue;
        const [high, low] = this.#rows(b);
        ctx.fillStyle = this.colour(b);
        ctx.fillRect(left, high, right - left, low - high);
      }
    }
    this.timeAxis(ctx);
    drawExemplars(ctx, this, this.points);
  }

  colour(b) {
    return this.ramp[Math.round(deepness(this.scale.density(b) / this.most) * (this.ramp.length - 1))];
  }

  // found is the histogram at a step, and which of its buckets is at a y.
  found(at) {
    const h = this.series.steps[at.index];
    const bucket = h?.buckets.find((b) => {
      const [high, low] = this.#rows(b);
      return at.y >= high && at.y < low;
    });
    return { h, bucket };
  }

  // climb is the y of the next bucket above or below a y.
  climb(index, y, upwards) {
    const middles = (this.series.steps[index]?.buckets ?? []).map((b) => this.#rows(b).reduce((a, c) => a + c) / 2);
    const next = upwards > 0 ? middles.find((m) => m < y - 0.5) : middles.findLast((m) => m > y + 0.5);
    return next ?? y;
  }

  // mark draws what is pointed at, a step and a bucket, and the buckets of that step; or of the last one for null.
  mark(ctx, at) {
    if (at) {
      this.cursor(ctx, at.index);
      const { bucket } = this.found(at);
      if (bucket) this.#frame(ctx, at.index, bucket);
    }
    const index = at?.index ?? this.series.steps.findLastIndex((h) => h !== null);
    if (this.aside && index >= 0) this.#bars(ctx, index, at);
  }

  #frame(ctx, index, b) {
    const [left, right] = this.#columns(index), [high, low] = this.#rows(b);
    ctx.strokeStyle = this.palette.ground;
    ctx.lineWidth = 3;
    ctx.strokeRect(left - 1, high - 1, right - left + 2, low - high + 2);
    ctx.strokeStyle = this.palette.strong;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(left - 1, high - 1, right - left + 2, low - high + 2);
  }

  // bars are the buckets of one step, as long as they are dense.
  #bars(ctx, index, at) {
    const h = this.series.steps[index];
    const from = this.width - aside, width = aside - 14;
    ctx.font = this.palette.font;
    ctx.textBaseline = 'alphabetic';
    ctx.textAlign = 'left';
    ctx.fillStyle = this.palette.text;
    ctx.fillText(this.clock.full(this.matrix.time(index)), from, this.top - 9);
    ctx.strokeStyle = this.palette.axis;
    ctx.lineWidth = 1;
    stroke(ctx, from - 0.5, this.top, from - 0.5, this.bottom);
    if (!h) return;
    const { bucket } = at ? this.found(at) : {};
    const most = densest(this.scale, [h]);
    for (const b of h.buckets) {
      if (!(b.count > 0)) continue;
      const [high, low] = this.#rows(b);
      ctx.fillStyle = b === bucket ? this.palette.strong : this.palette.select;
      const space = low - high > 4 ? 1 : 0;
      ctx.fillRect(from, high, Math.max(1, this.scale.density(b) / most * width), low - high - space);
    }
    ctx.fillStyle = this.palette.text;
    ctx.textBaseline = 'top';
    ctx.fillText(`${short(h.count)} in all, mean ${short(mean(h))}`, from, this.bottom + 9);
  }
}

// tellBucket says what is at a place of a heat map.
export function tellBucket(plot, at) {
  const { h, bucket } = plot.found(at);
  if (!h) return { text: 'no histogram', nodes: [el('p', {}, 'No histogram here')] };
  const inBucket = bucket ? `${value(bucket.count)} in ${boundsText(bucket, 4)}, ${partText(bucket, h)}. ` : '';
  const row = (name, text, kind = null) => el('tr', { class: kind }, el('td', { class: 'name' }, name), el('td', { class: 'number' }, text));
  return {
    text: `${inBucket}${value(h.count)} observations, sum ${value(h.sum)}`,
    nodes: [
      el('table', { class: 'facts-of' },
        bucket ? row(boundsText(bucket, 4), `${short(bucket.count)} (${partText(bucket, h)})`, 'nearest') : null,
        row('All', short(h.count)), row('Sum', short(h.sum)), row('Mean', short(mean(h)))),
    ],
  };
}

export function densest(scale, histograms) {
  let most = 0;
  for (const h of histograms) {
    for (const b of h.buckets) most = Math.max(most, scale.density(b));
  }
  return most || 1;
}

const ratio = () => window.devicePixelRatio || 1;
const sharp = (v) => Math.round(v * ratio()) / ratio();
