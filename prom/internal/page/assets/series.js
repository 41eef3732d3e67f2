// Series of an answer, on one grid of times: one value for each step, NaN where there is none.

// labelText writes labels as PromQL does.
export function labelText(labels) {
  const pairs = Object.entries(labels).filter(([name]) => name !== '__name__').map(([name, v]) => `${name}=${JSON.stringify(v)}`);
  return (labels.__name__ ?? '') + (pairs.length ? `{${pairs.join(', ')}}` : '');
}

// shared are the labels that all series have with the same value, so that they need be said only once.
export function shared(list) {
  const common = { ...list[0] };
  for (const labels of list) {
    for (const name of Object.keys(common)) {
      if (labels[name] !== common[name]) delete common[name];
    }
  }
  return common;
}

// own are the labels of a series that are not shared.
export const own = (labels, common) => Object.fromEntries(Object.entries(labels).filter(([name]) => !(name in common)));

// number reads a number of an answer.
export const number = (text) => parseFloat(text.replace('Inf', 'Infinity'));

// Grid is the times of a range query, and its series on them. Times are in milliseconds.
export class Grid {
  // read makes what a kind of series has of one of the result, which begins as {index, labels, text, name}.
  constructor(result, start, end, step, read) {
    Object.assign(this, { start, end, step, length: Math.floor((end - start) / step) + 1 });
    const common = result.length > 1 ? shared(result.map((r) => r.metric)) : {};
    this.common = common;
    this.series = result.map((r, index) => {
      const text = labelText(r.metric);
      return { index, labels: r.metric, text: text || 'value', name: labelText(own(r.metric, common)) || text || 'value', shown: true, ...read(r, this) };
    });
  }

  // place puts samples at their steps.
  place(samples, into, read) {
    for (const [t, v] of samples) {
      const i = Math.round((t * 1000 - this.start) / this.step);
      if (i >= 0 && i < into.length) into[i] = read(v);
    }
    return into;
  }

  time(i) {
    return this.start + i * this.step;
  }

  // index is that of the step which is nearest to a time.
  index(t) {
    return Math.max(0, Math.min(this.length - 1, Math.round((t - this.start) / this.step)));
  }

  // adopt hides what was hidden in another answer to the same query, unless nothing would be left.
  adopt(before) {
    const hidden = new Set(before.series.filter((s) => !s.shown).map((s) => s.text));
    if (this.series.every((s) => hidden.has(s.text))) return;
    for (const s of this.series) s.shown = !hidden.has(s.text);
  }

  get visible() {
    return this.series.filter((s) => s.shown);
  }
}

// Matrix is the floats in the answer to a range query.
export class Matrix extends Grid {
  constructor(result, start, end, step) {
    super(result, start, end, step, (r, grid) => {
      const values = grid.place(r.values ?? [], new Float64Array(grid.length).fill(NaN), number);
      return { values, ...numbers(values) };
    });
  }
}

// numbers are what a legend says of values.
function numbers(values) {
  let last = NaN, min = NaN, max = NaN;
  for (const v of values) {
    if (Number.isNaN(v)) continue;
    last = v;
    if (!(v >= min)) min = v;
    if (!(v <= max)) max = v;
  }
  return { last, min, max };
}

// lines are what is drawn of visible series: each with its values and the base that its area stands on.
// Stacked series stand on one another; a gap counts as 0 there.
export function lines(matrix, stacked) {
  if (!stacked) return matrix.visible.map((s) => ({ series: s, tops: s.values, base: null }));
  let base = new Float64Array(matrix.length);
  return matrix.visible.map((s) => {
    const tops = base.map((b, i) => b + (Number.isFinite(s.values[i]) ? s.values[i] : 0));
    const line = { series: s, tops, base };
    base = tops;
    return line;
  });
}

// bounds are the smallest and the largest value of lines, with 0 where it costs little or areas stand on it.
export function bounds(drawn, stacked) {
  let min = Infinity, max = -Infinity;
  for (const { tops } of drawn) {
    for (const v of tops) {
      if (!Number.isFinite(v)) continue;
      if (v < min) min = v;
      if (v > max) max = v;
    }
  }
  if (min > max) return [0, 1];
  if (stacked || (min > 0 && min < max / 2)) min = Math.min(min, 0);
  if (stacked || (max < 0 && max > min / 2)) max = Math.max(max, 0);
  if (min === max) return min === 0 ? [0, 1] : [Math.min(0, min * 2), Math.max(0, min * 2)];
  const air = (max - min) * 0.06;
  return [min === 0 ? 0 : min - air, max === 0 ? 0 : max + air];
}
