// Names and values of labels, as the server has them. Answers are kept for a minute.

import { ask } from './api.js';

const keepMs = 60000;
const most = 10000; // names or values of one answer: more are no help for a person

const plainName = /^[a-zA-Z_]\w*$/;
const plainMetric = /^[a-zA-Z_:][\w:]*$/;

export const isPlainName = (name) => plainName.test(name);
export const isPlainMetric = (name) => plainMetric.test(name);

const kept = new Map();

function remembered(path, params) {
  const key = path + JSON.stringify(params);
  const old = kept.get(key);
  if (old && Date.now() - old.at < keepMs) return old.list;
  const list = ask(path, { ...params, limit: most }).then((a) => a.data ?? []).catch(() => {
    kept.delete(key); // it is asked for again
    return [];
  });
  kept.set(key, { at: Date.now(), list });
  return list;
}

const selector = (metric) => (isPlainMetric(metric) ? metric : `{${JSON.stringify(metric)}}`);

export const metricNames = () => remembered('label/__name__/values', {});

// labelNames are those of some metrics together, or of all.
export async function labelNames(metrics) {
  const lists = metrics.length ? metrics.slice(0, 5).map((m) => remembered('labels', { 'match[]': selector(m) })) : [remembered('labels', {})];
  const names = new Set((await Promise.all(lists)).flat());
  names.delete('__name__');
  return [...names].sort();
}

// labelValues are those of one label, of one metric if it is not empty.
export function labelValues(label, metric) {
  const params = metric ? { 'match[]': selector(metric) } : {};
  return remembered(`label/${encodeURIComponent(label)}/values`, params);
}
