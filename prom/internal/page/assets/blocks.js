// The view of blocks: which block has which times, and what is missing.

import { ask } from './api.js';
import { timeText, timeTicks } from './axis.js';
import { byId, el, plural, svg } from './dom.js';
import { empty, note } from './notes.js';
import { bytes, count } from './number.js';
import { Panel, tiles } from './panel.js';
import { roughDuration } from './time.js';

export function blocksView(root) {
  const load = async (signal) => {
    const [blocks, health] = await Promise.all([ask('status/tsdb/blocks', {}, signal), ask('status/health', {}, signal)]);
    return { blocks: blocks.data.blocks, health: health.data };
  };
  return new Panel(root, 'Blocks', 'The head has the newest samples, in memory and in the log. It becomes blocks, which are merged into larger ones.', load, draw);
}

function draw({ blocks, health }, clock) {
  const rows = [...blocks.map((b) => blockRow(b, health.disk)), ...headRow(health.stats, health.disk), ...health.missing.map(missingRow)];
  if (rows.length === 0) {
    return [...missing(health), empty('There is no data yet', el('p', {}, `Samples that the program appends go to the head first. The first block is made when they are older than the range of a block.`))];
  }
  return [...missing(health), summary(blocks, health), timeLine(rows, clock), table(rows, clock)];
}

function blockRow(b, disk) {
  return {
    name: b.ulid, level: b.compaction.level, from: b.minTime, to: b.maxTime, samples: b.stats.numSamples ?? 0, series: b.stats.numSeries ?? 0,
    chunks: b.stats.numChunks ?? 0, bytes: disk.blockBytes[b.ulid], deleted: b.stats.numTombstones ?? 0, sources: b.compaction.sources?.length ?? 1, failed: b.compaction.failed,
  };
}

function headRow(stats, disk) {
  if (stats.minTime > stats.maxTime) return [];
  return [{ name: 'head', level: 0, from: stats.minTime, to: stats.maxTime + 1, series: stats.series, bytes: disk.logBytes + stats.headChunkBytes }];
}

// missingRow is a block that is not read. Of some nobody knows the times.
function missingRow(m) {
  return { name: m.ulid, level: -1, from: m.minTime, to: m.maxTime, missing: m.vanished ? 'vanished' : `not read, it is in ${m.path}` };
}

const isKnown = (row) => row.from !== null;

function summary(blocks, { stats, disk }) {
  const samples = blocks.reduce((n, b) => n + (b.stats.numSamples ?? 0), 0);
  const size = Object.values(disk.blockBytes).reduce((n, b) => n + b, 0) || stats.blockBytes;
  return tiles([
    ['Blocks', count(blocks.length), blocks.length ? `levels ${[...new Set(blocks.map((b) => b.compaction.level))].sort((a, b) => a - b).join(', ')}` : null],
    ['Samples in blocks', count(samples)],
    ['Size of blocks', bytes(size), samples ? `${(size / samples).toFixed(2)} bytes a sample` : null],
    ['Made of the head', count(stats.flushes), 'since the start'],
    ['Merged', count(stats.merges), 'since the start'],
  ]);
}

// missing are the blocks that should be there.
function missing({ stats, open, disk }) {
  const notes = [];
  if (stats.blocksMissing > 0) {
    notes.push(note('error', `${plural(count(stats.blocksMissing), stats.blocksMissing, 'block')} ${stats.blocksMissing === 1 ? 'is' : 'are'} missing`,
      'Damaged ones were set aside, or somebody removed them. Queries of their times say so. The view Health lists what Open found; tsdbutil repair takes out what can be read.'));
  }
  if (open.quarantined.length > 0) {
    notes.push(note('warning', 'There is a quarantine', `It has what was damaged: ${open.quarantined.join(', ')}${disk.quarantineBytes ? ` (${bytes(disk.quarantineBytes)})` : ''}.`));
  }
  return notes;
}

const lane = 30, bar = 22, left = 64, width = 1000, axis = 26;

const laneName = (level) => ({ '-1': 'missing', 0: 'head' }[level] ?? `level ${level}`);

// timeLine draws each block in the lane of its level.
function timeLine(all, clock) {
  const rows = all.filter(isKnown);
  if (rows.length === 0) return null;
  const levels = [...new Set(rows.map((r) => r.level))].sort((a, b) => a - b);
  const start = Math.min(...rows.map((r) => r.from)), end = Math.max(...rows.map((r) => r.to));
  const x = (t) => left + (t - start) / (end - start || 1) * (width - left - 8);
  const height = levels.length * lane + axis;
  const { step, ticks } = timeTicks(start, end, 9, clock);
  return el('div', { class: 'timeline', tabindex: '0', role: 'group', 'aria-label': 'Time line of blocks; the table below says the same' }, svg('svg', { viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true' },
    ticks.map((t) => tick(x(t), height - axis, timeText(t, step, clock))),
    levels.map((level, i) => svg('text', { x: 0, y: i * lane + 19, class: 'lane' }, laneName(level))),
    rows.map((r) => block(r, x, levels.indexOf(r.level) * lane + (lane - bar) / 2, clock))));
}

function tick(x, bottom, text) {
  return svg('g', { class: 'tick' }, svg('line', { x1: x, x2: x, y1: 0, y2: bottom + 4 }), svg('text', { x: Math.min(x, width - 24), y: bottom + 18, 'text-anchor': 'middle' }, text));
}

function block(r, x, y, clock) {
  const wide = Math.max(3, x(r.to) - x(r.from) - 1.5);
  const what = r.missing ?? `${r.samples === undefined ? '' : count(r.samples) + ' samples, '}${count(r.series)} series`;
  const text = `${r.name}: ${clock.seconds(r.from)} to ${clock.seconds(r.to)}, ${what}`;
  const show = (on) => () => byId(`block-${r.name}`)?.classList.toggle('pointed', on);
  return svg('g', { class: `block ${r.missing ? 'missing' : 'level-' + Math.min(r.level, 4)}`, onpointerenter: show(true), onpointerleave: show(false) },
    svg('title', {}, text), svg('rect', { x: x(r.from), y, width: wide, height: bar, rx: 3 }),
    wide > 70 ? svg('text', { x: x(r.from) + 7, y: y + 15 }, roughDuration((r.to - r.from) / 1000)) : null);
}

function table(rows, clock) {
  const heads = [['Block'], ['Level'], ['From'], ['To'], ['Covers', 1], ['Samples', 1], ['Series', 1], ['Chunks', 1], ['Size', 1], ['Note']];
  const newestFirst = [...rows].sort((a, b) => (b.to ?? 0) - (a.to ?? 0));
  return el('div', { class: 'scroll' }, el('table', { class: 'values', id: 'blocks-table' },
    el('thead', {}, el('tr', {}, heads.map(([t, right]) => el('th', { scope: 'col', class: right ? 'number' : null }, t)))),
    el('tbody', {}, newestFirst.map((r) => tableRow(r, clock)))));
}

function tableRow(r, clock) {
  const number = (text) => el('td', { class: 'number' }, text ?? '–');
  const counted = (n) => number(n === undefined ? '–' : count(n));
  const notes = [
    r.deleted ? plural(count(r.deleted), r.deleted, 'deleted interval') : '', r.sources > 1 ? `of ${r.sources} blocks` : '',
    r.failed ? 'a merge of it failed' : '', r.missing ?? '', r.name === 'head' ? 'log and head chunks' : '',
  ].filter(Boolean);
  return el('tr', { id: `block-${r.name}`, class: r.missing ? 'missing' : null }, el('th', { scope: 'row' }, r.name === 'head' ? 'head' : el('code', {}, r.name)), el('td', {}, r.level > 0 ? r.level : '–'),
    el('td', {}, isKnown(r) ? clock.seconds(r.from) : 'not known'), el('td', {}, isKnown(r) ? clock.seconds(r.to) : 'not known'), number(isKnown(r) ? roughDuration((r.to - r.from) / 1000) : null),
    counted(r.samples), counted(r.series), counted(r.chunks), number(r.bytes === undefined ? '–' : bytes(r.bytes)), el('td', {}, notes.join(', ')));
}
