// What can complete a query at the cursor, the best first.

import { isPlainMetric, isPlainName, labelNames, labelValues, metricNames } from './names.js';
import { aggregations, durations, functions, grouping, keywords, usual } from './words.js';

const most = 50;

// candidates are {text, kind, note, insert, back}; back is how far the cursor goes back behind what is inserted.
export async function candidates(context) {
  const all = await everything(context);
  return rank(all, context.prefix).slice(0, most);
}

async function everything(c) {
  switch (c.kind) {
    case 'expression': return [...(await metricNames()).map(metric), ...words()];
    case 'label': return (await labelNames(c.metrics)).map((name) => label(name, c.braces));
    case 'value': return (await labelValues(c.label, c.metric)).map((text) => value(text, c));
    case 'duration': return Object.entries(durations).map(([text, note]) => ({ text, kind: 'duration', note, insert: text }));
    default: return [];
  }
}

const metric = (text) => ({ text, kind: 'metric', note: '', insert: isPlainMetric(text) ? text : `{${JSON.stringify(text)}}` });

function words() {
  const list = (words, kind, tail = '', back = 0) => Object.entries(words).map(([text, note]) => ({ text, kind, note, insert: text + tail, back }));
  return [
    ...list(functions, 'function', '()', 1), ...list(aggregations, 'aggregation', '()', 1),
    ...list(grouping, 'keyword', ' ()', 1), ...list(keywords, 'keyword', ' '),
  ];
}

function label(text, braces) {
  const name = isPlainName(text) ? text : JSON.stringify(text);
  return braces ? { text, kind: 'label', note: '', insert: `${name}=""`, back: 1 } : { text, kind: 'label', note: '', insert: name };
}

function value(text, c) {
  let escaped = c.regex ? text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') : text;
  if (c.quote !== '`') escaped = escaped.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll(c.quote, '\\' + c.quote);
  return c.closed ? { text, kind: 'value', note: '', insert: escaped, back: -1 } : { text, kind: 'value', note: '', insert: escaped + c.quote };
}

// rank keeps what has the prefix in it: at its begin, then at the begin of a word, then, if it is long enough
// to say something, anywhere.
function rank(all, prefix) {
  const p = prefix.toLowerCase();
  const place = (text) => {
    const at = text.toLowerCase().indexOf(p);
    if (at <= 0) return at;
    if ('_:-./'.includes(text[at - 1])) return 1;
    return p.length >= 3 ? 2 : -1;
  };
  const order = ['metric', 'label', 'value', 'aggregation', 'function', 'keyword', 'duration'];
  return all.map((c) => ({ ...c, place: place(c.text) })).filter((c) => c.place >= 0 && c.text !== prefix)
    .sort((a, b) => a.place - b.place || order.indexOf(a.kind) - order.indexOf(b.kind) || compare(a, b));
}

// compare keeps durations in their order.
function compare(a, b) {
  if (a.kind === 'duration') return 0;
  const place = (c) => (usual.indexOf(c.text) + usual.length + 1) % (usual.length + 1);
  return place(a) - place(b) || a.text.localeCompare(b.text);
}
