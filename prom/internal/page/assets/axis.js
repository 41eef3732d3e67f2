// Where an axis has its ticks, and what stands at them.

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

const timeSteps = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, second, 2 * second, 5 * second, 10 * second, 15 * second, 30 * second,
  minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
  day, 2 * day, 7 * day, 14 * day, 30 * day, 90 * day, 365 * day,
];

// valueTicks are round numbers from min to max, about as many as wanted.
export function valueTicks(min, max, wanted) {
  const rough = (max - min) / Math.max(1, wanted);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * unit).find((s) => s >= rough * 0.999) ?? rough;
  const first = Math.ceil(min / step - 1e-9), ticks = [];
  for (let i = first; i * step <= max + step * 1e-9 && ticks.length < 100; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

// timeTicks are round times from start to end in a clock's zone, at most as many as wanted.
export function timeTicks(start, end, wanted, clock) {
  const step = timeSteps.find((s) => (end - start) / s <= wanted) ?? timeSteps.at(-1);
  const ticks = [];
  // In the zone's own time, so that days begin at midnight there also behind a change of the clocks.
  for (let local = Math.ceil((start + clock.offset(start)) / step) * step; ticks.length < 200; local += step) {
    const guess = local - clock.offset(local);
    const t = local - clock.offset(guess);
    if (t > end) break;
    if (t >= start) ticks.push(t);
  }
  return { step, ticks };
}

// timeText is what stands at a tick: the day where one begins, else the time.
export function timeText(t, step, clock) {
  if (step >= day || clock.second(t) === '00:00:00') return clock.day(t);
  return step >= minute ? clock.minute(t) : clock.second(t);
}
