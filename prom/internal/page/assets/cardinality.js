// The view of labels: what makes series many, and what makes them come and go.

import { ask, explain } from './api.js';
import { el } from './dom.js';
import { answerNotes, empty, failureNote } from './notes.js';
import { isPlainMetric } from './names.js';
import { bytes, count, short } from './number.js';
import { bars, Panel, tiles } from './panel.js';

const top = 15;

export function cardinalityView(root, store) {
  const load = async (signal) => {
    // Churn is asked of all blocks, which may take a while; the rest need not wait for it.
    const churn = ask('status/tsdb/churn', { limit: top }, signal).catch((err) => err);
    return { head: await ask('status/tsdb', { limit: 2 * top }, signal), churn };
  };
  return new Panel(root, 'Cardinality', 'Which metrics and labels make the series of the head, and which make series come and go.', load, (d, clock) => draw(d, clock, store));
}

function draw({ head: { data }, churn }, clock, store) {
  const { headStats: h } = data;
  if (h.numSeries === 0) {
    return [empty('The head has no series', el('p', {}, 'They are counted here as soon as the program appends samples.')), later(churn, clock)];
  }
  const query = (text) => store.set({ query: text, view: 'graph' });
  const metric = (name) => query(isPlainMetric(name) ? name : `{${JSON.stringify(name)}}`);
  const pair = (text) => query(selector(text));
  return [
    tiles([
      ['Series', count(h.numSeries), 'in the head'],
      ['Label pairs', count(h.numLabelPairs), 'different ones'],
      ['Chunks', count(h.chunkCount)],
      ['Oldest sample', clock.minute(h.minTime), clock.date(h.minTime)],
      ['Newest sample', clock.minute(h.maxTime), clock.date(h.maxTime)],
    ]),
    el('div', { class: 'columns wide' },
      bars('Metrics', 'by their series', data.seriesCountByMetricName.slice(0, top), count, metric),
      bars('Label pairs', 'by their series', withoutNames(data.seriesCountByLabelValuePair).slice(0, top), count, pair),
      bars('Label names', 'by how many values they have', data.labelValueCountByLabelName.slice(0, top), count),
      bars('Label values', 'by the memory that their texts take', data.memoryInBytesByLabelName.slice(0, top), bytes)),
    later(churn, clock),
  ];
}

// withoutNames leaves out names of metrics, which have a list of their own.
const withoutNames = (pairs) => pairs.filter((p) => !p.name.startsWith('__name__='));

// selector makes one of a pair name=value.
function selector(text) {
  const at = text.indexOf('=');
  const name = text.slice(0, at);
  return `{${/^[a-zA-Z_]\w*$/.test(name) ? name : JSON.stringify(name)}=${JSON.stringify(text.slice(at + 1))}}`;
}

// later is the part about churn, which is filled when its answer is there.
function later(churn, clock) {
  const part = el('div', { class: 'churn', 'aria-busy': 'true' });
  churn.then((answer) => {
    part.removeAttribute('aria-busy');
    if (answer instanceof Error) part.replaceChildren(...(answer.name === 'AbortError' ? [] : [failureNote(explain(answer))]));
    else part.replaceChildren(...answerNotes(answer), ...drawChurn(answer.data, clock));
  });
  return part;
}

function drawChurn(data, clock) {
  if (data.numSeries === 0) return [];
  const times = `${clock.minutes(data.minTime)} to ${clock.minutes(data.maxTime)}`;
  const churned = (list) => list.filter((c) => c.value >= 0.005);
  if (churned(data.churnByLabelName).length === 0) return [el('h2', {}, 'Churn'), el('p', { class: 'lead' }, `No series came or went from ${times}.`)];
  return [
    el('h2', {}, 'Churn'),
    el('p', { class: 'lead' }, `${count(data.numSeries)} series in blocks and head, ${times}. For each label it is counted for how much of that time its series have no samples, taken together: labels of series that come and go are on top.`),
    el('div', { class: 'columns wide' },
      bars('Label names', 'whole ranges of time without samples', churned(data.churnByLabelName), short),
      bars('Label pairs', 'whole ranges of time without samples', withoutNames(churned(data.churnByLabelValuePair)), short)),
  ];
}
