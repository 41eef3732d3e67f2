package histogram

import "math"

// sameBits compares floats as files do: NaN is itself, and 0 is not -0.
func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func equalFloats(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameBits(a[i], b[i]) {
			return false
		}
	}
	return true
}

// countWalk walks the counts of one side of a histogram, as integers or as bits of floats.
// Buckets without a span and spans without a bucket, which no valid histogram has, are left
// out.
type countWalk struct {
	at     Indexes
	deltas []int64
	floats []float64
	count  int64 // of the newest bucket of deltas
}

func deltaWalk(spans []Span, deltas []int64) countWalk {
	return countWalk{at: NewIndexes(spans), deltas: deltas}
}

func floatWalk(spans []Span, floats []float64) countWalk {
	return countWalk{at: NewIndexes(spans), floats: floats}
}

// next returns the next bucket whose count is not 0.
func (w *countWalk) next() (index int64, count uint64, ok bool) {
	for {
		index, ok = w.at.Next()
		switch {
		case !ok:
			return 0, 0, false
		case len(w.deltas) > 0:
			w.count += w.deltas[0]
			count, w.deltas = uint64(w.count), w.deltas[1:]
		case len(w.floats) > 0:
			count = math.Float64bits(w.floats[0])
			if w.floats[0] == 0 { // -0 counts no more than 0
				count = 0
			}
			w.floats = w.floats[1:]
		default:
			return 0, 0, false
		}
		if count != 0 {
			return index, count, true
		}
	}
}

// sameCounts reports whether both have the same buckets that are not empty.
func sameCounts(a, b countWalk) bool {
	for {
		i, n, more := a.next()
		j, m, another := b.next()
		switch {
		case more != another:
			return false
		case !more:
			return true
		case i != j || n != m:
			return false
		}
	}
}
