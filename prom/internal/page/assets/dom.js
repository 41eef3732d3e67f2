// Elements of the page. Text is always set as text, so what a server or a label says is never markup.

const svgNamespace = 'http://www.w3.org/2000/svg';

export const byId = (id) => document.getElementById(id);

// el makes an element. Attributes that begin with "on" are listeners; false and null ones are left out. No
// button sends a form.
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  if (name === 'button') node.type = name;
  return fill(node, attributes, children);
}

// svg makes an element of a drawing.
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNamespace, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value == null) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  put(node, children);
  return node;
}

// put gives an element other children; those that are null or false are left out.
export function put(node, ...children) {
  node.replaceChildren(...children.flat(2).filter((c) => c != null && c !== false));
}

// plural says how many there are of something.
export function plural(text, n, one, many = one + 's') {
  return `${text} ${n === 1 ? one : many}`;
}

// remember and recall keep what a person prefers, where the browser lets the page do so.
export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch { /* it is asked for again next time */ }
}

export function recall(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
