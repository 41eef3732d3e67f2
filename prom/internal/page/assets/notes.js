// What the server says beside its data: errors, warnings, infos, in plain words.

import { el } from './dom.js';

// note is one message. Actions are buttons: {text, run}.
export function note(kind, title, text = '', actions = []) {
  const names = { error: 'Error', warning: 'Warning', info: 'Info' };
  return el('div', { class: `note ${kind}`, role: kind === 'error' ? 'alert' : null },
    el('p', {}, el('strong', {}, el('span', { class: 'hidden' }, `${names[kind]}: `), title), text ? el('span', {}, text) : null),
    actions.map((a) => el('button', { onclick: a.run }, a.text)));
}

// failureNote is the message of what explain says of a failure.
export function failureNote(words, retry) {
  const place = words.column ? `At ${words.line > 1 ? `line ${words.line}, ` : ''}character ${words.column}: ` : '';
  return note('error', words.title, place + words.text, retry ? [{ text: 'Try again', run: retry }] : []);
}

// answerNotes are the messages of an answer.
export function answerNotes(answer) {
  return [
    ...answer.warnings.map((w) => note('warning', 'The answer may lack something', plain(w))),
    ...answer.infos.map((i) => note('info', 'By the way', plain(i))),
  ];
}

// plain leaves out what only programs look at.
function plain(text) {
  if (text === 'results truncated due to limit') return 'There are more series than are shown. Choose fewer by their labels, or add them up: sum by (label) (...).';
  return text.replace(/^PromQL (warning|info): /, '').replace(/ \((\d+):(\d+)\)$/, (_, line, column) => ` (at ${line > 1 ? `line ${line}, ` : ''}character ${column})`);
}

// empty says what to do where there is nothing.
export function empty(title, ...children) {
  return el('div', { class: 'empty' }, el('h2', {}, title), ...children);
}
