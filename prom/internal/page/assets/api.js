// The server's HTTP API. Every failure becomes a Failure with words for people.

// answerMs is how long an answer may take: somewhat more than the server lets a query run by default.
const answerMs = 150000;

// Failure is why there is no answer. kind is the server's type of error, "unreachable" or "strange".
export class Failure extends Error {
  constructor(kind, text, status = 0) {
    super(text);
    this.kind = kind;
    this.status = status;
  }
}

const address = (path) => new URL('api/v1/' + path, document.baseURI);

// ask gets {data, warnings, infos} of an endpoint.
export async function ask(path, params = {}, signal = null) {
  const url = address(path);
  for (const [name, v] of pairs(params)) url.searchParams.append(name, v);
  return answer(url, {}, signal);
}

// send does so with the parameters in a form, as queries may be long.
export async function send(path, params, signal = null) {
  return answer(address(path), { method: 'POST', body: new URLSearchParams(pairs(params)) }, signal);
}

function pairs(params) {
  return Object.entries(params).filter(([, v]) => v != null).map(([name, v]) => [name, String(v)]);
}

async function answer(url, options, signal) {
  const bound = AbortSignal.timeout(answerMs);
  const signals = signal ? [signal, bound] : [bound];
  let response, text;
  try {
    response = await fetch(url, { ...options, signal: AbortSignal.any(signals) });
    text = await response.text();
  } catch (err) {
    if (signal?.aborted) throw err;
    if (bound.aborted) throw new Failure('unreachable', `It did not answer within ${answerMs / 1000} seconds.`);
    throw new Failure('unreachable', 'No connection could be made, or it broke off.');
  }
  return read(response, text);
}

function read(response, text) {
  let body = null;
  if (response.status === 204) return { data: null, warnings: [], infos: [] };
  try {
    body = JSON.parse(text);
  } catch { /* something that is not the API has answered */ }
  if (body?.status === 'success') return { data: body.data, warnings: body.warnings ?? [], infos: body.infos ?? [] };
  if (body?.status === 'error') throw new Failure(body.errorType, body.error, response.status);
  throw new Failure(response.status === 503 ? 'starting' : 'strange', text.trim().slice(0, 300), response.status);
}

// isAbort reports whether an error is ours: the answer is not wanted any more.
export const isAbort = (err) => err?.name === 'AbortError';

const words = {
  bad_data: 'The server does not understand this query',
  execution: 'This query cannot be computed',
  timeout: 'This query took longer than the server allows',
  canceled: 'The query was stopped',
  unavailable: 'The server does not do this',
  internal: 'Something is wrong in the server or its data',
  not_found: 'The server does not have this',
};

// explain puts a failure into words: {title, text, line, column} with the position of an error in a query,
// which begins at 1, if there is one.
export function explain(err) {
  if (!(err instanceof Failure)) return { title: 'Something is wrong with this page', text: String(err) };
  if (err.kind === 'unreachable') {
    return { title: 'The server cannot be reached', text: `${location.host} does not answer. ${err.message} Is the program running?` };
  }
  if (err.kind === 'starting') {
    return { title: 'The server is not ready yet', text: err.message || 'It says that it is busy.' };
  }
  if (err.kind === 'strange') {
    return { title: `The answer is none of the API (status ${err.status})`, text: err.message || 'It is empty.' };
  }
  const text = err.message.replace(/^invalid parameter "query": /, '');
  const at = /^(\d+):(\d+): (?:parse error: )?/.exec(text);
  const title = words[err.kind] ?? `The server says: ${err.kind}`;
  if (!at) return { title, text };
  const line = Number(at[1]), column = Number(at[2]);
  return { title, text: text.slice(at[0].length), line, column };
}
