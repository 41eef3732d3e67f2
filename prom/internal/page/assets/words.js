// The words of PromQL, with what they do in a few words.

export const functions = {
  abs: 'absolute values',
  absent: '1 if there is nothing',
  absent_over_time: '1 if there is nothing in a range',
  acos: 'arc cosine', acosh: 'inverse hyperbolic cosine', asin: 'arc sine', asinh: 'inverse hyperbolic sine',
  atan: 'arc tangent', atanh: 'inverse hyperbolic tangent',
  avg_over_time: 'mean of a range',
  ceil: 'rounded up',
  changes: 'how often a value changed in a range',
  clamp: 'kept between a minimum and a maximum', clamp_max: 'kept below a maximum', clamp_min: 'kept above a minimum',
  cos: 'cosine', cosh: 'hyperbolic cosine',
  count_over_time: 'number of samples in a range',
  day_of_month: 'day of the month, UTC', day_of_week: 'day of the week, UTC, 0 is Sunday', day_of_year: 'day of the year, UTC',
  days_in_month: 'days that the month has, UTC',
  deg: 'radians as degrees',
  delta: 'difference over a range, of a gauge',
  deriv: 'slope per second over a range, of a gauge',
  exp: 'e to the power of values',
  floor: 'rounded down',
  histogram_avg: 'mean of native histograms', histogram_count: 'count of native histograms',
  histogram_fraction: 'part of a histogram between two values',
  histogram_quantile: 'a quantile of a histogram',
  histogram_stddev: 'standard deviation of native histograms', histogram_stdvar: 'variance of native histograms',
  histogram_sum: 'sum of native histograms',
  hour: 'hour of the day, UTC',
  idelta: 'difference of the last two samples',
  increase: 'how much a counter rose in a range',
  irate: 'rate by the last two samples, per second',
  label_join: 'a label out of several', label_replace: 'a label by a regular expression',
  last_over_time: 'last value of a range',
  ln: 'natural logarithm', log10: 'decimal logarithm', log2: 'binary logarithm',
  max_over_time: 'largest value of a range', min_over_time: 'smallest value of a range',
  minute: 'minute of the hour, UTC', month: 'month of the year, UTC',
  pi: 'π',
  predict_linear: 'value in some seconds if it goes on like this',
  present_over_time: '1 if there is anything in a range',
  quantile_over_time: 'a quantile of a range',
  rad: 'degrees as radians',
  rate: 'how fast a counter rose over a range, per second',
  resets: 'how often a counter began again in a range',
  round: 'rounded to the nearest',
  scalar: 'a single series as a number',
  sgn: 'sign: 1, 0 or -1',
  sin: 'sine', sinh: 'hyperbolic sine',
  sort: 'in ascending order', sort_desc: 'in descending order',
  sqrt: 'square root',
  stddev_over_time: 'standard deviation of a range', stdvar_over_time: 'variance of a range',
  sum_over_time: 'sum of a range',
  tan: 'tangent', tanh: 'hyperbolic tangent',
  time: 'the time of evaluation, seconds since 1970',
  timestamp: 'the times of samples, seconds since 1970',
  vector: 'a number as a series without labels',
  year: 'year, UTC',
};

export const aggregations = {
  avg: 'mean of series',
  bottomk: 'the k smallest series',
  count: 'number of series',
  count_values: 'number of series with each value',
  group: '1 for each group',
  max: 'largest of series',
  min: 'smallest of series',
  quantile: 'a quantile of series',
  stddev: 'standard deviation of series',
  stdvar: 'variance of series',
  sum: 'sum of series',
  topk: 'the k largest series',
};

// Words that are followed by labels in parentheses.
export const grouping = {
  by: 'keep these labels',
  without: 'drop these labels',
  on: 'match by these labels',
  ignoring: 'match by all labels but these',
  group_left: 'many on the left to one on the right',
  group_right: 'one on the left to many on the right',
};

export const keywords = {
  and: 'both sides have it',
  atan2: 'arc tangent of two',
  bool: '0 or 1 instead of leaving out',
  offset: 'as it was a while ago',
  or: 'what the left has, then the right',
  unless: 'what only the left has',
  inf: 'infinity',
  nan: 'not a number',
};

export const durations = {
  '1m': 'a minute', '5m': '5 minutes', '10m': '10 minutes', '30m': 'half an hour', '1h': 'an hour', '6h': '6 hours',
  '1d': 'a day', '7d': 'a week',
};

// What is used most stands before the rest.
export const usual = ['rate', 'sum', 'by', 'histogram_quantile', 'increase', 'avg', 'max', 'min', 'count', 'topk', 'max_over_time', 'avg_over_time'];
