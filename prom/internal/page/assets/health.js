// The view of health: whether somebody must look at something, and what the database does.

import { ask } from './api.js';
import { el, plural } from './dom.js';
import { note } from './notes.js';
import { bytes, count, percent } from './number.js';
import { facts, Panel, tiles } from './panel.js';
import { roughDuration } from './time.js';

export function healthView(root) {
  const load = async (signal) => {
    const [health, runtime] = await Promise.all([ask('status/health', {}, signal), ask('status/runtimeinfo', {}, signal)]);
    return { ...health.data, runtime: runtime.data };
  };
  return new Panel(root, 'Health', 'Counters begin when the database is opened.', load, draw);
}

function draw(d, clock) {
  return [
    ...verdict(d), summary(d),
    el('div', { class: 'columns' }, opening(d.open), writing(d, clock), syncing(d), disk(d), maintenance(d.stats), program(d, clock)),
    damages(d.open),
  ];
}

// verdict says first whether all is well.
function verdict({ health, open, stats }) {
  const notes = [];
  if (health !== 'ok') notes.push(note('error', 'Somebody must look at this', health));
  if (!open.clean) notes.push(note('error', 'Something was lost before the last start', 'What the files did not have any more is listed below. Originals are in the quarantine.'));
  if (stats.blocksMissing > 0) notes.push(note('error', `${plural(count(stats.blocksMissing), stats.blocksMissing, 'block')} missing`, 'Queries of their times say that samples are missing.'));
  if (Object.keys(open.unreadRecords).length > 0) notes.push(note('warning', 'The log has records that this version does not read', Object.entries(open.unreadRecords).map(([kind, n]) => `${count(n)} ${kind}`).join(', ')));
  if (notes.length === 0) notes.push(el('div', { class: 'note good' }, el('p', {}, el('strong', {}, 'All is well'), el('span', {}, 'Nothing was lost, commits are taken, nothing waits for anybody.'))));
  return notes;
}

function summary({ stats, disk, open }) {
  return tiles([
    ['Series in the head', count(stats.series)],
    ['Samples appended', count(stats.samplesAppended)],
    ['Samples refused', count(refused(stats))],
    ['Memory of the head', bytes(stats.headSizeBytes)],
    disk.totalBytes ? ['Disk free', bytes(disk.freeBytes), `${percent(disk.freeBytes / disk.totalBytes)} of ${bytes(disk.totalBytes)}`] : null,
    ['Opened in', roughDuration(open.seconds)],
  ]);
}

// refused is how many samples came too late, twice, or with a time that is not accepted.
const refused = (s) => s.samplesOutOfOrder + s.samplesDuplicate + s.samplesOutOfBounds + s.samplesTooOld;

const bad = (n) => (n > 0 ? 'bad' : null);

function opening(o) {
  return facts('What Open found', [
    ['Log', `${plural(count(o.segments), o.segments, 'segment')}, ${bytes(o.bytes)}, ${plural(count(o.commits), o.commits, 'commit')}`],
    ['Head snapshot', o.snapshot || 'none'],
    ['Series', count(o.series)],
    ['Samples of the log', count(o.samples)],
    ['Samples of head chunks', count(o.samplesInChunks)],
    ['Late samples', count(o.lateSamples)],
    ['Samples without a series', count(o.samplesUnknown), bad(o.samplesUnknown)],
    ['Blocks', count(o.blocks)],
    ['Blocks set aside', count(o.blocksSetAside), bad(o.blocksSetAside)],
    ['Blocks vanished', count(o.blocksVanished), bad(o.blocksVanished)],
    ['Unfinished end of the log', o.tornTail ? 'yes, as after a crash; nothing that was promised' : 'no'],
    ['Dropped of the log', `${plural(count(o.droppedCommits), o.droppedCommits, 'commit')}, ${bytes(o.droppedBytes)}`, o.clean ? null : bad(o.droppedCommits)],
  ]);
}

function writing({ stats, accepts }, clock) {
  return facts('Writing', [
    ['Commits', count(stats.commits)],
    ['Commits that failed', count(stats.commitsFailed), bad(stats.commitsFailed)],
    ['Samples appended', count(stats.samplesAppended)],
    ['Refused, out of order', count(stats.samplesOutOfOrder)],
    ['Refused, another value at the same time', count(stats.samplesDuplicate)],
    ['Refused, out of bounds', count(stats.samplesOutOfBounds)],
    ['Refused, too old', count(stats.samplesTooOld)],
    ['Late samples', count(stats.lateSamplesAppended)],
    ['Accepts samples from', accepts.from < -8e15 ? 'any time' : clock.seconds(accepts.from)],
    ['Accepts samples to', accepts.to > 8e15 ? 'any time' : clock.seconds(accepts.to)],
    ['Series created', count(stats.seriesCreated)],
    ['Series removed', count(stats.seriesRemoved)],
    ['Deletes', count(stats.deletes)],
  ]);
}

const policies = { commit: 'before a commit is acknowledged', rotate: 'when a segment is full', never: 'left to the system' };

function syncing({ stats: { log }, sync }) {
  return facts('Log and syncs', [
    ['On stable storage', policies[sync.policy] ?? `every ${roughDuration(sync.intervalSeconds)}`],
    ['Syncs', count(log.syncs)],
    ['Mean time of a sync', log.syncs ? roughDuration(log.syncMeanSeconds) : '–'],
    ['Longest sync', log.syncs ? roughDuration(log.syncMaxSeconds) : '–'],
    ['Written to the log', bytes(log.bytes)],
    ['Writes', count(log.writes)],
    ['Segment', count(log.segment)],
  ]);
}

function disk({ disk: d, stats, directory }) {
  const blocks = Object.values(d.blockBytes).reduce((n, b) => n + b, 0) || stats.blockBytes;
  return facts('Disk', [
    ['Directory', el('code', {}, directory)],
    ['Blocks', bytes(blocks)],
    ['Log', bytes(d.logBytes)],
    ['Head chunks', `${bytes(stats.headChunkBytes)} in ${plural(count(stats.headChunkFiles), stats.headChunkFiles, 'file')}`],
    ['Quarantine', d.quarantineBytes ? bytes(d.quarantineBytes) : 'empty', bad(d.quarantineBytes)],
    ['Free', d.totalBytes ? bytes(d.freeBytes) : 'not known'],
  ]);
}

function maintenance(s) {
  return facts('Maintenance', [
    ['Blocks made of the head', count(s.flushes)],
    ['Failed to make', count(s.flushErrors), bad(s.flushErrors)],
    ['Merges', count(s.merges)],
    ['Failed to merge', count(s.mergeErrors), bad(s.mergeErrors)],
    ['Blocks removed by retention', count(s.blocksRemoved)],
    ['Retention is behind the clock', s.retentionBehindSeconds ? roughDuration(s.retentionBehindSeconds) : 'no', bad(s.retentionBehindSeconds)],
    ['Damaged head chunks', count(s.headChunksDamaged), bad(s.headChunksDamaged)],
    ['Samples lost with them', count(s.headSamplesLost), bad(s.headSamplesLost)],
  ]);
}

// kept says what retention leaves.
function kept({ seconds, bytes: most, percent: part }) {
  const limits = [seconds && roughDuration(seconds), most && bytes(most), part && `${percent(part / 100)} of the disk`].filter(Boolean);
  return limits.join(' or ') || 'everything is kept';
}

function program({ stats, runtime, options, retention }, clock) {
  return facts('Program', [
    ['Running since', clock.seconds(Date.parse(runtime.startTime))],
    ['Host', runtime.hostname],
    ['Queries so far', count(stats.queriers)],
    ['Open now', stats.queriersOpen ? `${count(stats.queriersOpen)}, the oldest for ${roughDuration(stats.oldestQuerierSinceSeconds)}` : '0'],
    ['Goroutines', count(runtime.goroutineCount)],
    ['Retention', kept(retention)],
    ['Time limit of a query', options['query.timeout'] || 'not said'],
  ]);
}

function damages(open) {
  if (open.damages.length === 0) return null;
  return el('section', { class: 'damages' }, el('h2', {}, 'Damages'), el('div', { class: 'scroll' }, el('table', { class: 'values', id: 'damages' },
    el('thead', {}, el('tr', {}, ['File', 'At byte', 'What', 'Lost'].map((t) => el('th', { scope: 'col' }, t)))),
    el('tbody', {}, open.damages.map((d) => el('tr', {}, el('td', {}, el('code', {}, d.file)), el('td', { class: 'number' }, count(d.offset)), el('td', {}, d.reason), el('td', {}, d.lost ? 'yes' : 'nothing')))))));
}
