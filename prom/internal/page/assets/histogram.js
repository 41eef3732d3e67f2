// Histograms of an answer: what they count, and their series on a grid of times.

import { medium, value } from './number.js';
import { Grid, number } from './series.js';

const bothBelong = 3; // a rule: both bounds belong to the bucket

// readHistogram makes numbers of a histogram of the API. Buckets go from the lowest to the highest.
export function readHistogram({ count, sum, buckets }) {
  return {
    count: number(count),
    sum: number(sum),
    buckets: (buckets ?? []).map(([rule, left, right, n]) => ({ rule, left: number(left), right: number(right), count: number(n) })),
  };
}

// isZero reports whether a bucket is the one around 0. A lowest bucket that has no end has such bounds, too.
export const isZero = ({ rule, left }) => rule === bothBelong && Number.isFinite(left);

export const mean = (h) => h.sum / h.count;

// boundsText writes which values a bucket has: a round bracket stands at a bound that does not belong to it.
export function boundsText({ rule, left, right }, digits = 6) {
  const open = rule === 1 || rule === bothBelong ? '[' : '(', close = rule === 0 || rule === bothBelong ? ']' : ')';
  return `${open}${bound(left, digits)}, ${bound(right, digits)}${close}`;
}

// bound writes a bound. Four digits tell the narrowest buckets from their neighbours.
export const bound = (v, digits) => (Number.isFinite(v) ? value(Number(v.toPrecision(digits))) : value(v));

// partText says how much of all observations a bucket has.
export const partText = (bucket, h) => (h.count > 0 ? `${Number((bucket.count / h.count * 100).toPrecision(3))} %` : '');

// onlyRises reports whether a series is a counter, as it seems: no function made it, and counts go up all the time.
export function onlyRises({ labels, steps }) {
  if (!labels.__name__) return false;
  const counts = steps.filter((h) => h !== null).map((h) => h.count);
  return counts.length > 2 && counts.at(-1) > counts[0] && counts.every((n, i) => i === 0 || n >= counts[i - 1]);
}

// summary is a histogram in a line.
export const summary = (h) => `${medium(h.count)} observations, sum ${medium(h.sum)}`;

// HistogramMatrix is the histograms in the answer to a range query: one for each step, null where there is none.
export class HistogramMatrix extends Grid {
  constructor(result, start, end, step) {
    super(result, start, end, step, (r, grid) => {
      const steps = grid.place(r.histograms, new Array(grid.length).fill(null), readHistogram);
      return { steps, last: steps.findLast((h) => h !== null) ?? { count: NaN, sum: NaN, buckets: [] } };
    });
    this.series.forEach((s, i) => { s.shown = i === 0; });
  }

  // adopt shows what was shown of another answer to the same query, if it is there.
  adopt(before) {
    const shown = new Set(before.visible.map((s) => s.text));
    if (!this.series.some((s) => shown.has(s.text))) return;
    for (const s of this.series) s.shown = shown.has(s.text);
  }
}
