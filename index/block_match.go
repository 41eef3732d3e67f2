package index

// valuesOf is that of pairSource.
func (t *offsetTable) valuesOf(dst []Pair, name string, values []string) ([]Pair, error) {
	rng, ok := t.name(name)
	if !ok {
		return dst, nil
	}
	for _, value := range values {
		c, ok := t.lowerBound(rng, value)
		if !ok {
			return nil, t.corrupt()
		}
		num := c.num
		if num >= rng.end {
			continue
		}
		e, ok := c.next()
		if !ok {
			return nil, t.corrupt()
		}
		if string(e.value) == value && !isAll(e) {
			dst = append(dst, Pair(num))
		}
	}
	return dst, nil
}

// valueBatch is how many bytes of values are made one string: a value of its own would
// be an allocation each.
const valueBatch = 4 << 10

// searchValues is that of pairSource.
func (t *offsetTable) searchValues(dst []Pair, name, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	rng, ok := t.name(name)
	if !ok {
		return dst, nil
	}
	c, ok := t.lowerBound(rng, prefix)
	if ok && keep != nil {
		return t.matchValues(dst, c, rng.end, prefix, keep)
	}
	if ok {
		dst, ok = c.appendPairs(dst, rng.end, prefix)
	}
	if !ok {
		return nil, t.corrupt()
	}
	return dst, nil
}

// matchValues appends the numbers of the next entries of c below entry end whose values begin with
// prefix and which keep accepts.
func (t *offsetTable) matchValues(dst []Pair, c tableCursor, end int, prefix string, keep func(value string) (bool, error)) ([]Pair, error) {
	var text []byte
	var ends []int
	for c.num < end {
		first, ok := c.num, false
		if text, ends, ok = c.values(text[:0], ends[:0], end, prefix); !ok {
			return nil, t.corrupt()
		}
		if len(ends) == 0 {
			break
		}
		from, all := 0, string(text)
		for i, end := range ends {
			wanted, err := keep(all[from:end])
			if err != nil {
				return nil, err
			}
			if wanted && (first+i > 0) {
				dst = append(dst, Pair(first+i))
			}
			from = end
		}
	}
	return dst, nil
}

// appendPairs appends the numbers of the next entries below entry end whose values begin with
// prefix.
func (c *tableCursor) appendPairs(dst []Pair, end int, prefix string) (_ []Pair, ok bool) {
	for c.num < end {
		e, ok := c.next()
		if !ok {
			return dst, false
		}
		if len(e.value) < len(prefix) || string(e.value[:len(prefix)]) != prefix {
			break
		}
		if c.num > 1 { // the first entry belongs to no label
			dst = append(dst, Pair(c.num-1))
		}
	}
	return dst, true
}

// values appends some of the next values to text and where each ends to ends: those
// below entry end that begin with prefix.
func (c *tableCursor) values(text []byte, ends []int, end int, prefix string) ([]byte, []int, bool) {
	for c.num < end && len(text) < valueBatch {
		e, ok := c.next()
		if !ok {
			return text, ends, false
		}
		if len(e.value) < len(prefix) || string(e.value[:len(prefix)]) != prefix {
			break
		}
		text = append(text, e.value...)
		ends = append(ends, len(text))
	}
	return text, ends, true
}
