// Durations as PromQL writes them, and times in local time or UTC.

const units = [['y', 31536000], ['w', 604800], ['d', 86400], ['h', 3600], ['m', 60], ['s', 1], ['ms', 0.001]];

// parseDuration reads 1h30m, or seconds; null if it is neither.
export function parseDuration(text) {
  const t = text.trim().replaceAll(' ', '');
  if (/^\d+(\.\d+)?$/.test(t)) return Number(t);
  if (!/^(\d+(ms|[smhdwy]))+$/.test(t)) return null;
  let seconds = 0;
  for (const [, n, unit] of t.matchAll(/(\d+)(ms|[smhdwy])/g)) {
    seconds += Number(n) * units.find(([name]) => name === unit)[1];
  }
  return seconds;
}

// formatDuration writes seconds so that parseDuration reads them. Weeks and years are days.
export function formatDuration(seconds) {
  let left = Math.round(seconds * 1000);
  let text = '';
  for (const [name, unit] of units.slice(2)) {
    const n = Math.floor(left / (unit * 1000) + 1e-9);
    left -= Math.round(n * unit * 1000);
    if (n > 0) text += `${n}${name}`;
  }
  return text || '0s';
}

// roughDuration is for reading: at most two units.
export function roughDuration(seconds) {
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${Number((seconds * 1000).toPrecision(3))} ms`;
  if (seconds < 60) return `${Number(seconds.toPrecision(3))} s`;
  const parts = [...formatDuration(Math.round(seconds)).matchAll(/(\d+)([a-z]+)/g)].slice(0, 2);
  const names = { m: 'min', s: 's', h: 'h', d: 'd' };
  return parts.map(([, n, unit]) => `${n} ${names[unit]}`).join(' ');
}

const pad = (n, width = 2) => String(n).padStart(width, '0');

// Clock shows times in the zone that a person chose. Times are milliseconds since 1970.
export class Clock {
  constructor(utc) {
    this.utc = utc;
  }

  // offset is what the zone is ahead of UTC at a time, in milliseconds.
  offset(t) {
    return this.utc ? 0 : -new Date(t).getTimezoneOffset() * 60000;
  }

  // shifted has the zone's fields of a time where UTC's are read.
  shifted(t) {
    return new Date(t + this.offset(t));
  }

  date(t) {
    const d = this.shifted(t);
    return Number.isNaN(d.getTime()) ? '–' : `${pad(d.getUTCFullYear(), 4)}-${pad(d.getUTCMonth() + 1)}-${pad(d.getUTCDate())}`;
  }

  minute(t) {
    const d = this.shifted(t);
    return `${pad(d.getUTCHours())}:${pad(d.getUTCMinutes())}`;
  }

  second(t) {
    const d = this.shifted(t);
    const ms = d.getUTCMilliseconds();
    return `${this.minute(t)}:${pad(d.getUTCSeconds())}${ms ? '.' + pad(ms, 3) : ''}`;
  }

  full(t) {
    const date = this.date(t);
    return date === '–' ? date : `${date} ${this.second(t)}`;
  }

  // seconds is full without parts of a second, and minutes without seconds: for bounds.
  seconds(t) {
    return this.full(Math.floor(t / 1000) * 1000);
  }

  minutes(t) {
    return this.full(t).slice(0, 16);
  }

  // day is the day of the month in words: 25 Nov.
  day(t) {
    return this.shifted(t).toLocaleDateString('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' });
  }

  // zone names the zone with what it is ahead of UTC now.
  zone(t = Date.now()) {
    if (this.utc) return 'UTC';
    const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return `${name ? name.replaceAll('_', ' ') : 'local time'} (${this.ahead(t)})`;
  }

  // ahead is what the zone is ahead of UTC: UTC+02:00.
  ahead(t = Date.now()) {
    const minutes = Math.abs(this.offset(t)) / 60000;
    return `UTC${this.offset(t) < 0 ? '−' : '+'}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}`;
  }

  // input is a time as an element of type datetime-local has it, and read is its opposite.
  input(t) {
    return this.full(t).replace(' ', 'T').slice(0, 19);
  }

  read(text) {
    const t = Date.parse(text.length === 16 ? `${text}:00Z` : `${text}Z`);
    if (Number.isNaN(t)) return null;
    const guess = t - this.offset(t);
    return t - this.offset(guess);
  }
}
