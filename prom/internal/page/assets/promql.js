// PromQL as far as an editor must know it: its tokens, and what can stand at the cursor. The server parses.

import { aggregations, functions, grouping, keywords } from './words.js';

const patterns = [
  ['space', /\s+/y],
  ['comment', /#[^\n]*/y],
  ['string', /"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|`[^`]*`?/y],
  ['number', /(?:\d+(?:ms|[smhdwy]))+|0x[\da-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/yi],
  ['word', /[a-z_:][\w:]*/yi],
  ['operator', /=~|!~|!=|==|>=|<=|[!-/:-@[-`{-~]/y],
];

// tokenize cuts a query into tokens {type, text, start, end}; words get the type of what they are.
export function tokenize(text) {
  const tokens = [];
  for (let at = 0; at < text.length;) {
    const t = next(text, at);
    tokens.push(t);
    at = t.end;
  }
  classify(tokens);
  return tokens;
}

function next(text, at) {
  for (const [type, pattern] of patterns) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) return { type, text: found[0], start: at, end: at + found[0].length };
  }
  return { type: 'other', text: text[at], start: at, end: at + 1 };
}

const silent = (t) => t.type === 'space' || t.type === 'comment';

function classify(tokens) {
  const loud = tokens.filter((t) => !silent(t));
  const open = new Nest();
  loud.forEach((t, i) => {
    if (t.type === 'word') t.type = wordType(t, loud[i + 1], open);
    else open.see(t, loud[i - 1]);
  });
}

function wordType(t, after, open) {
  const name = t.text.toLowerCase();
  if (open.labels()) return 'label';
  if (Object.hasOwn(functions, name) && after?.text === '(') return 'function';
  if (Object.hasOwn(aggregations, name) && (after?.text === '(' || Object.hasOwn(grouping, after?.text.toLowerCase() ?? ''))) return 'function';
  if (Object.hasOwn(grouping, name) || Object.hasOwn(keywords, name)) return 'keyword';
  return 'metric';
}

// Nest knows which parentheses are open.
class Nest {
  constructor() {
    this.open = [];
  }

  // see takes the next token in, with the one before it.
  see(t, before) {
    if (t.type !== 'operator') return;
    if (t.text === '{') this.open.push({ sign: '{', metric: before?.type === 'metric' ? before.text : '', labels: true });
    else if (t.text === '(') this.open.push({ sign: '(', labels: Object.hasOwn(grouping, before?.text.toLowerCase() ?? '') });
    else if (t.text === '[') this.open.push({ sign: '[', labels: false });
    else if (t.text === '}' || t.text === ')' || t.text === ']') this.open.pop();
  }

  top() {
    return this.open.at(-1);
  }

  labels() {
    return this.top()?.labels === true;
  }
}

// contextAt says what can stand at a position: {kind, from, to, prefix, ...}. kind is "expression",
// "label", "value" (with label and metric), "duration", or "none". from and to are what is replaced.
export function contextAt(text, pos) {
  const tokens = tokenize(text);
  const nest = new Nest();
  let before = null; // the last token that says something and ends before the cursor's
  for (const t of tokens) {
    if (t.end >= pos && !(t.type === 'operator' || t.type === 'space')) {
      if (t.start < pos) return inside(t, pos, before, nest.top(), tokens);
      break;
    }
    if (t.start >= pos) break;
    if (silent(t)) continue;
    nest.see(t, before);
    before = t.type === 'operator' && nest.top()?.sign === '{' && !'{,'.includes(t.text) ? { ...t, label: before } : t;
  }
  return between(pos, before, nest.top(), tokens);
}

const metricsOf = (tokens) => [...new Set(tokens.filter((t) => t.type === 'metric').map((t) => t.text))];

function inside(t, pos, before, top, tokens) {
  const base = { from: t.start, to: t.end, prefix: t.text.slice(0, pos - t.start) };
  if (t.type === 'string') return value(t, pos, before, top);
  if (t.type === 'number') return top?.sign === '[' ? { ...base, kind: 'duration' } : { ...base, kind: 'none' };
  if (t.type === 'comment' || t.type === 'other' || top?.sign === '[') return { ...base, kind: 'none' };
  if (top?.labels) return { ...base, kind: 'label', metrics: top.metric ? [top.metric] : metricsOf(tokens), braces: top.sign === '{' };
  return { ...base, kind: 'expression' };
}

// value is within a string: the value of a label, if it stands in braces behind a label and an operator.
function value(t, pos, before, top) {
  const quote = t.text[0];
  const closed = t.text.length > 1 && t.text.endsWith(quote);
  const none = { kind: 'none', from: t.start, to: t.end, prefix: '' };
  if (closed && pos === t.end) return none;
  if (top?.sign !== '{' || !before?.label) return none;
  const name = before.label.type === 'string' ? before.label.text.slice(1, -1) : before.label.text;
  return {
    kind: 'value', from: t.start + 1, to: closed ? t.end - 1 : t.end, prefix: t.text.slice(1, pos - t.start),
    label: name, metric: top.metric, quote, closed, regex: before.text.endsWith('~'),
  };
}

function between(pos, before, top, tokens) {
  const base = { from: pos, to: pos, prefix: '' };
  if (top?.sign === '[') return { ...base, kind: 'duration' };
  if (!top?.labels) return { ...base, kind: 'expression' };
  if (top.sign === '{' && before && !'{,'.includes(before.text)) return { ...base, kind: 'none' };
  return { ...base, kind: 'label', metrics: top.metric ? [top.metric] : metricsOf(tokens), braces: top.sign === '{' };
}

// placeOf is the offset in a query of what an error is about. The server counts characters that it did not
// expect as read.
export function placeOf(query, { text, line, column }) {
  const offset = offsetOf(query, line, column);
  const unexpected = /unexpected .*'(.)'$/u.exec(text)?.[1];
  return unexpected && query[offset] !== unexpected && query[offset - 1] === unexpected ? offset - 1 : offset;
}

// offsetOf is where a line and a column are in a text. The server counts from 1, and columns in bytes of UTF-8.
function offsetOf(text, line, column) {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0);
  const bytes = new TextEncoder().encode(lines[line - 1] ?? '').slice(0, column - 1);
  return Math.min(before + new TextDecoder().decode(bytes).length, text.length);
}

// tokenAt is the range of the token at an offset, or of the last character where the text ends.
export function tokenAt(text, offset) {
  const t = tokenize(text).find((x) => x.start <= offset && offset < x.end && x.type !== 'space');
  if (t) return [offset > t.start && t.type === 'operator' ? offset : t.start, t.end];
  return offset < text.length ? [offset, offset + 1] : [Math.max(0, text.length - 1), text.length];
}
