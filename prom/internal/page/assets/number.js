// Numbers as people read them: with separators of thousands, and no more digits than they need.

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const [three, four, five, six, eight, exact] = [3, 4, 5, 6, 8, 12].map((n) => new Intl.NumberFormat(undefined, { maximumSignificantDigits: n }));

export const count = (n) => whole.format(n);

// value shows a sample's value.
export function value(v) {
  if (Number.isNaN(v)) return 'NaN';
  if (!Number.isFinite(v)) return v > 0 ? '+∞' : '−∞';
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-6 || size >= 1e15)) return v.toExponential(6).replace(/\.?0+e/, 'e');
  return exact.format(v);
}

const prefixes = [[1e15, 'P'], [1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k'], [1, ''], [1e-3, 'm'], [1e-6, 'µ'], [1e-9, 'n']];

// short shows a value where there is little room: 12.3k, 4.56m.
export function short(v, format = four) {
  if (v === 0) return '0';
  if (!Number.isFinite(v)) return value(v);
  const size = Math.abs(v);
  return scaled(v, size >= 0.001 && size < 10000 ? 1 : size, format);
}

// scaled shows a value in the unit of a size.
function scaled(v, size, format) {
  const [unit, prefix] = prefixes.find(([u]) => size >= u) ?? [0];
  if (!unit || size >= 1e18) return v.toExponential(format === exact ? undefined : 2);
  return format.format(v / unit) + prefix;
}

// ticks shows the values of an axis in one style: those of a linear one in the unit of the largest, those of
// a logarithmic one each in its own.
export function ticks(values, linear) {
  const sizes = values.map(Math.abs).filter((s) => s > 0 && s < Infinity);
  const most = Math.max(...sizes), plain = most < 10000 && (linear ? most : Math.min(...sizes)) >= 0.001;
  return values.map((v) => (v === 0 || !Number.isFinite(v) ? short(v) : scaled(v, plain ? 1 : linear ? most : Math.abs(v), exact)));
}

// distinct shows values that are compared: with so many digits that those differ that are not the same.
export function distinct(values) {
  const tries = [five, eight, exact].map((format) => values.map((v) => short(v, format)));
  return tries.find((texts) => new Set(texts).size === new Set(values).size) ?? tries[2];
}

const sizes = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB']];

// medium shows a value where it is read beside others.
export const medium = (v) => (Math.abs(v) >= 1e-3 && Math.abs(v) < 1e12 ? six.format(v) : value(v));

// bytes shows a size, in units of thousands.
export function bytes(n) {
  const [unit, name] = sizes.find(([u]) => n >= u) ?? [1, n === 1 ? 'byte' : 'bytes'];
  return `${three.format(n / unit)} ${name}`;
}

export const percent = (part) => `${three.format(part * 100)} %`;
