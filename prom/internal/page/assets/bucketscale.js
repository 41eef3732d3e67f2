// A scale for buckets: logarithmic on either side of 0, with room at 0 and for what has no end.

import { valueTicks } from './axis.js';
import { isZero } from './histogram.js';

const least = 20; // pixels between two ticks
const closest = 15; // pixels between 0 and a tick

// BucketScale is the scale of the buckets of some histograms, on so many pixels. room is how many of them there are
// for what has no place among logarithms: at 0, and beyond all bounds.
export class BucketScale {
  constructor(histograms, size, room = 22) {
    this.size = size;
    this.#look(histograms);
    this.#layOut(room);
  }

  // look finds which bounds there are.
  #look(histograms) {
    this.bounds = new Set();
    let widest = 0;
    for (const h of histograms) {
      for (const b of h.buckets) {
        if (isZero(b)) widest = Math.max(widest, b.right);
        else this.bounds.add(b.left).add(b.right);
      }
    }
    const list = [...this.bounds].filter(Number.isFinite);
    this.up = range(list.filter((v) => v > 0));
    this.down = range(list.filter((v) => v < 0).map((v) => -v));
    this.zero = widest > 0 || list.some((v) => v <= 0);
    if (!this.up && !this.down) this.up = [widest || 1, widest || 1];
  }

  // layOut makes the parts of the scale, from the lowest: values from one to another, on how many pixels.
  #layOut(room) {
    const { up, down, zero, bounds } = this;
    const half = up && down ? room / 2 : room;
    const parts = [
      bounds.has(-Infinity) && { from: -Infinity, to: down ? -down[1] : up[0], size: room },
      down && { from: -down[1], to: -down[0], logs: doublings(-down[1], -down[0]) },
      zero && down && { from: -down[0], to: 0, size: half },
      zero && up && { from: 0, to: up[0], size: half },
      up && { from: up[0], to: up[1], logs: doublings(up[0], up[1]) },
      bounds.has(Infinity) && { from: up ? up[1] : -down[0], to: Infinity, size: room },
    ].filter(Boolean);
    const logs = parts.reduce((n, p) => n + (p.logs ?? 0), 0);
    const fixed = parts.reduce((n, p) => n + (p.size ?? 0), 0);
    const left = Math.max(0, this.size - fixed);
    // doubling is how many pixels a value's double is away.
    this.doubling = logs > 0 ? left / logs : this.size / Math.max(1, parts.length);
    let at = 0;
    for (const p of parts) {
      p.size = logs > 0 ? p.size ?? p.logs * this.doubling : (p.size ?? 0) * this.size / (fixed || 1);
      p.at = at;
      at += p.size;
    }
    this.parts = parts;
  }

  // at is where a value stands. What is nearer to 0 than all bounds but is not 0 has no place of its own.
  at(v) {
    const p = this.parts.find((q) => v <= q.to) ?? this.parts.at(-1);
    if (v <= p.from) return p.at;
    if (v >= p.to) return p.at + p.size;
    const part = p.logs ? doublings(p.from, v) / p.logs : (v - p.from) / (p.to - p.from);
    return p.at + p.size * part;
  }

  // ends are the pixels from which and to which a bucket reaches. The zero bucket has all the room that is there.
  ends(b) {
    if (isZero(b)) return [this.at(this.down ? -this.down[0] : 0), this.at(this.up ? this.up[0] : 0)];
    return [this.at(b.left), this.at(b.right)];
  }

  // density is how many observations a bucket has for each doubling of the value, as wide as it is drawn.
  density(b) {
    const [from, to] = this.ends(b);
    return b.count * this.doubling / Math.max(to - from, 1e-9);
  }

  // ticks are round values, or the bounds themselves if they are few.
  ticks(apart = least) {
    const own = this.#spaced([...this.bounds].filter(Number.isFinite), apart);
    if (own?.length > 2 && own.every((v) => Number(v.toPrecision(3)) === v)) return this.#ends(own);
    const all = [...this.#round(this.up, apart), ...this.#round(this.down, apart).map((v) => -v)];
    return this.#ends(all);
  }

  #ends(ticks) {
    const zero = this.zero ? [0] : [];
    // The bounds next to 0 stand very near to it.
    const clear = ticks.filter((v) => zero.every((z) => v !== z && Math.abs(this.at(v) - this.at(z)) >= closest));
    return [...clear, ...zero, ...[-Infinity, Infinity].filter((v) => this.bounds.has(v))].sort((a, b) => a - b);
  }

  // spaced returns values if they are far enough from each other.
  #spaced(values, apart) {
    const places = values.map((v) => this.at(v)).sort((a, b) => a - b);
    return places.every((p, i) => i === 0 || p - places[i - 1] >= apart) ? values : null;
  }

  // round are round values between two, as many as there is room for.
  #round(between, apart) {
    if (!between) return [];
    const [lo, hi] = between;
    const first = Math.floor(Math.log10(lo)), last = Math.ceil(Math.log10(hi));
    const decades = (every, digits) => {
      const all = [];
      for (let e = Math.ceil(first / every) * every; e <= last; e += every) all.push(...digits.map((d) => Number(`${d}e${e}`)));
      return all.filter((v) => v >= lo * 0.9999 && v <= hi * 1.0001);
    };
    const tries = [[1, [1, 2, 3, 4, 5, 6, 7, 8, 9]], [1, [1, 2, 5]], [1, [1, 3]], [1, [1]], [2, [1]], [3, [1]], [5, [1]], [10, [1]], [30, [1]], [100, [1]]];
    for (const [every, digits] of tries) {
      const found = this.#spaced(decades(every, digits), apart);
      if (found?.length > 1) return found;
    }
    if (lo === hi) return [lo];
    for (let n = 8; n > 1; n--) {
      const found = this.#spaced(valueTicks(lo, hi, n), apart);
      if (found?.length > 1) return found;
    }
    return this.#spaced([lo, hi], apart) ?? [hi];
  }
}

// doublings are how often a value is doubled until it is another one, on whichever side of 0.
const doublings = (from, to) => Math.abs(Math.log2(Math.abs(to)) - Math.log2(Math.abs(from)));

const range = (list) => (list.length ? [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))] : null);
