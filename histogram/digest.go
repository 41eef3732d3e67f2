package histogram

import "math"

// digest sums up a histogram in 64 bits. What differs has different ones but for chance, one in
// 2^64.
type digest uint64

func (d *digest) add(x uint64) {
	h := (uint64(*d) ^ x) * 0x9e3779b97f4a7c15
	*d = digest(h ^ h>>32)
}

func (d *digest) addFloats(list []float64) {
	d.add(uint64(len(list)))
	for _, f := range list {
		d.add(math.Float64bits(f))
	}
}

// addDeltas adds the buckets that are not empty, by their indexes. Each is mixed alone, and
// all are added up, so that a processor works on several at a time.
func (d *digest) addDeltas(spans []Span, deltas []int64) {
	sum, index, count := uint64(0), uint64(0), int64(0)
	for _, s := range spans {
		index += uint64(int64(s.Offset))
		run := deltas[:min(uint64(len(deltas)), uint64(s.Length))]
		deltas = deltas[len(run):]
		for i, delta := range run {
			if count += delta; count != 0 {
				sum += mixed(index+uint64(i), uint64(count))
			}
		}
		index += uint64(s.Length)
	}
	d.add(sum)
}

// addCounts is addDeltas of counts that are floats. -0 counts no more than 0.
func (d *digest) addCounts(spans []Span, counts []float64) {
	sum, index := uint64(0), uint64(0)
	for _, s := range spans {
		index += uint64(int64(s.Offset))
		run := counts[:min(uint64(len(counts)), uint64(s.Length))]
		counts = counts[len(run):]
		for i, c := range run {
			if c != 0 {
				sum += mixed(index+uint64(i), math.Float64bits(c))
			}
		}
		index += uint64(s.Length)
	}
	d.add(sum)
}

// mixed spreads an index and a count over 64 bits, each of which depends on all of theirs.
func mixed(index, count uint64) uint64 {
	x := index*0x9e3779b97f4a7c15 + count
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Kinds, so that an integer histogram and its float form are two.
const (
	digestInts   digest = 1
	digestFloats digest = 2
)
