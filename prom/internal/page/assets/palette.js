// Colours of series. There are eight, which can be told apart with any kind of colour vision; the ninth
// series has the first one again with a dashed line.

import { el } from './dom.js';

const colours = 8;
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

export const classOf = (index) => `series-${index % colours} dash-${Math.floor(index / colours) % dashes.length}`;
export const dashOf = (index) => dashes[Math.floor(index / colours) % dashes.length];

const heats = 5; // colours between which those of a heat map lie

const names = ['text', 'quiet', 'grid', 'line', 'accent', 'ground', 'exemplar', ...Array.from({ length: heats }, (_, i) => `heat-${i}`), ...Array.from({ length: colours }, (_, i) => `series-${i}`)];

// coloursNow gives the colours of the theme as it is now. Each name stands for two of them, and only an element
// knows which one counts.
function coloursNow() {
  const probes = names.map((name) => {
    const e = el('i');
    e.style.color = `var(--${name})`;
    return e;
  });
  const box = el('div', { hidden: true }, probes);
  document.body.append(box);
  const found = Object.fromEntries(probes.map((e, i) => [names[i], getComputedStyle(e).color]));
  box.remove();
  return found;
}

// Palette has the colours of the theme as it is now, for a canvas.
export class Palette {
  constructor() {
    const now = coloursNow();
    this.series = Array.from({ length: colours }, (_, i) => now[`series-${i}`]);
    this.heat = Array.from({ length: heats }, (_, i) => now[`heat-${i}`]);
    this.strong = now.text;
    this.text = now.quiet;
    this.grid = now.grid;
    this.axis = now.line;
    this.select = now.accent;
    this.ground = now.ground;
    this.exemplar = now.exemplar;
    this.font = `12px ${getComputedStyle(document.documentElement).getPropertyValue('--sans').trim()}`;
  }

  of(index) {
    return this.series[index % colours];
  }

  // ramp is so many colours of heat, from few to many.
  ramp(n) {
    const stops = this.heat.map((c) => c.match(/[\d.]+/g).slice(0, 3).map(Number));
    return Array.from({ length: n }, (_, i) => {
      const at = i / (n - 1) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
      return `rgb(${stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * (at - k))).join(' ')})`;
    });
  }
}
