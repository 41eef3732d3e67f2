// Where the data comes from, in one line, and whether all is well.

import { ask } from './api.js';
import { byId, el, plural } from './dom.js';
import { count } from './number.js';

// showSource asks once and fills the line. It says nothing when the server cannot be reached: the view does.
export async function showSource(clock) {
  try {
    const [health, blocks, build] = await Promise.all([ask('status/health'), ask('status/tsdb/blocks'), ask('status/buildinfo')]);
    const { stats, directory } = health.data;
    byId('health-dot').hidden = health.data.health === 'ok' && health.data.open.clean && stats.blocksMissing === 0;
    byId('source').replaceChildren(...line(stats, directory, blocks.data.blocks, build.data.revision, clock));
  } catch { /* a query says it, and with words */ }
}

function line(stats, directory, blocks, version, clock) {
  const full = stats.minTime <= stats.maxTime;
  const from = Math.min(...blocks.map((b) => b.minTime), full ? stats.minTime : Infinity);
  const to = Math.max(...blocks.map((b) => b.maxTime), full ? stats.maxTime : -Infinity);
  const times = from <= to ? `, with samples from ${clock.minutes(from)} to ${clock.minutes(to)}` : ', with no samples yet';
  const places = `${plural(count(blocks.length), blocks.length, 'block')} and the head`;
  return ['Data of ', el('code', {}, directory), ` on ${location.host}: ${places}${times}. Times are in ${clock.zone()}.`,
    version ? ` Version ${version}.` : ''];
}
