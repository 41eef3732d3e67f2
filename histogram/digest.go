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

// addCounts adds the buckets that are not empty, by their indexes.
func (d *digest) addCounts(w countWalk) {
	for {
		index, count, ok := w.next()
		if !ok {
			break
		}
		d.add(uint64(index))
		d.add(count)
	}
	d.add(math.MaxUint64)
}

// Kinds, so that an integer histogram and its float form are two.
const (
	digestInts   digest = 1
	digestFloats digest = 2
)
