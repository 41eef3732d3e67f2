// Where the data comes from, in one line, and whether all is well.

import { ask } from './api.js';
import { byId, el, plural } from './dom.js';
import { count } from './number.js';

// showSource asks once, fills the line, and returns when data begins. It says nothing when the server cannot be
// reached: the view does.
export async function showSource(clock) {
  try {
    const [health, blocks, build] = await Promise.all([ask('status/health'), ask('status/tsdb/blocks'), ask('status/buildinfo')]);
    const { stats, directory } = health.data;
    byId('health-dot').hidden = health.data.health === 'ok' && health.data.open.clean && stats.blocksMissing === 0;
    const list = blocks.data.blocks, full = stats.minTime <= stats.maxTime;
    const from = Math.min(...list.map((b) => b.minTime), full ? stats.minTime : Infinity);
    const to = Math.max(...list.map((b) => b.maxTime), full ? stats.maxTime : -Infinity);
    byId('source').replaceChildren(...line(list.length, from, to, directory, build.data.revision, clock));
    return from;
  } catch { /* a query says it, and with words */ }
}

function line(blocks, from, to, directory, version, clock) {
  const times = from <= to ? `, with samples from ${clock.minutes(from)} to ${clock.minutes(to)}` : ', with no samples yet';
  const places = `${plural(count(blocks), blocks, 'block')} and the head`;
  return ['Data of ', el('code', {}, directory), ` on ${location.host}: ${places}${times}. Times are in ${clock.zone()}.`,
    version ? ` Version ${version}.` : ''];
}
