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
	if len(deltas) == 0 {
		d.add(0)
		return
	}
	sum, index, count := uint64(0), uint64(0), int64(0)
	for _, s := range spans {
		index += uint64(int64(s.Offset))
		run := deltas[:min(uint64(len(deltas)), uint64(s.Length))]
		deltas = deltas[len(run):]
		some, last := mixDeltas(index*indexFactor, count, run)
		sum, count = sum+some, last
		index += uint64(s.Length)
	}
	d.add(sum)
}

// mixDeltas mixes the counts of some deltas behind a count, and returns the last of them. It is not
// inlined, so that its loop has all registers (BenchmarkDigest).
//
//go:noinline
func mixDeltas(key uint64, count int64, deltas []int64) (sum uint64, _ int64) {
	for _, delta := range deltas {
		if count += delta; count != 0 {
			sum += mixed(key + uint64(count))
		}
		key += indexFactor
	}
	return sum, count
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
				sum += mixed((index+uint64(i))*indexFactor + math.Float64bits(c))
			}
		}
		index += uint64(s.Length)
	}
	d.add(sum)
}

// indexFactor keeps indexes apart from counts.
const indexFactor = 0x9e3779b97f4a7c15

// mixed spreads 64 bits, so that each depends on all of them.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Kinds, so that an integer histogram and its float form are two.
const (
	digestInts   digest = 1
	digestFloats digest = 2
)
