package late

import (
	"math"
	"sort"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// Finder looks for a sample in a chunk. It keeps its memory. The zero value is ready; it is for one
// goroutine.
type Finder struct {
	dec   chunkenc.Decoder
	batch chunkenc.Batch
	enc   encoder // room for histograms
	times []int64 // of the chunk, those around the one that was looked for
}

// Find returns the sum of the sample that a chunk has at a time.
func (f *Finder) Find(enc chunkenc.Encoding, data []byte, t int64) (sum uint64, found bool, err error) {
	f.Forget()
	if err := f.dec.Reset(enc, data); err != nil {
		return 0, false, err
	}
	if f.dec.Kind() != chunkenc.ValFloat {
		return f.findOther(t)
	}
	if cap(f.batch.T) == 0 {
		f.batch = *chunkenc.NewBatch(0)
	}
	for {
		if err := f.dec.Decode(&f.batch, chunkenc.BatchSize); err != nil || f.batch.Len() == 0 {
			return 0, false, err
		}
		n := f.batch.Len()
		if f.batch.T[n-1] < t {
			continue
		}
		f.times = f.batch.T
		i := firstFrom(f.times, t)
		return math.Float64bits(f.batch.V[i]), f.times[i] == t, nil
	}
}

// Forget forgets the chunk in which a sample was looked for last.
func (f *Finder) Forget() { f.times = f.times[:0] }

// findOther is Find in a chunk of histograms.
func (f *Finder) findOther(t int64) (sum uint64, found bool, err error) {
	for {
		ok, err := f.dec.Next()
		if !ok || err != nil {
			return 0, false, err
		}
		at := f.dec.T()
		f.times = append(f.times, at)
		switch {
		case at != t:
		case f.dec.Kind() == chunkenc.ValHistogram:
			f.dec.Histogram(&f.enc.ints)
			return f.enc.ints.Digest(), true, nil
		default:
			f.dec.FloatHistogram(&f.enc.floats)
			return f.enc.floats.Digest(), true, nil
		}
	}
}

// firstFrom returns the number of the first time that is not before t.
func firstFrom(times []int64, t int64) int {
	return sort.Search(len(times), func(i int) bool { return times[i] >= t })
}

// Steady says that a series has samples in order at from, one step later, and so on up to to, and
// no others in between. What comes in order is newer, so it stays true: a sample that goes only
// makes it name a time too many. The zero value says nothing.
type Steady struct {
	from, to int64
	step     uint64 // milliseconds
}

// steadyGaps is how many equal steps are worth to be noted.
const steadyGaps = 3

// Steady returns what the chunk in which a sample was looked for last, and not found, says about
// times around its own.
func (f *Finder) Steady(t int64) (s Steady) {
	ts := f.times
	to := firstFrom(ts, t)
	if to == 0 || to == len(ts) {
		return s
	}
	from, step := to-1, gap(ts, to)
	for from > 0 && gap(ts, from) == step {
		from--
	}
	for to+1 < len(ts) && gap(ts, to+1) == step {
		to++
	}
	if to-from >= steadyGaps {
		s = Steady{from: ts[from], to: ts[to], step: step}
	}
	return s
}

// gap is how long a time is behind the one before.
func gap(ts []int64, i int) uint64 { return uint64(ts[i]) - uint64(ts[i-1]) }

// Any reports whether it says something.
func (s *Steady) Any() bool { return s.step != 0 }

// lacks reports whether it says that there is no sample in order at a time.
func (s *Steady) lacks(t int64) bool {
	return s.Any() && s.from < t && t < s.to && (uint64(t)-uint64(s.from))%s.step != 0
}
