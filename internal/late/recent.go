package late

import (
	"iter"
	"math"
	"sort"
	"unsafe"
)

// recent is samples that are kept as they came, by time, and of one time by commit. They lie in
// parts, so that a sample that goes between many others moves few of them. The zero value is empty.
type recent struct {
	parts [][]sample  // in order; none is empty, but if there is only one
	n     int         // samples
	one   [1][]sample // where the parts are as long as there is one
}

// partLen is how many samples a part has at most.
const partLen = 256

const partBytes = int64(unsafe.Sizeof([]sample{}))

// bytes is the memory that they take.
func (r *recent) bytes() int64 {
	n := r.roomBytes()
	for i := range r.parts {
		for k := range r.parts[i] {
			n += r.parts[i][k].bytes()
		}
	}
	return n
}

// roomBytes is the memory that the parts take, with the room that they have.
func (r *recent) roomBytes() int64 {
	n := int64(0)
	if cap(r.parts) > 1 {
		n = int64(cap(r.parts)) * partBytes
	}
	for i := range r.parts {
		n += int64(cap(r.parts[i])) * sampleBytes
	}
	return n
}

// behind returns the place behind all samples that are not newer than a time and a commit. There is
// a part.
func (r *recent) behind(t int64, seq uint64) (part, i int) {
	part = len(r.parts) - 1
	in := r.parts[part]
	if n := len(in); n == 0 || !in[n-1].isNewer(t, seq) {
		return part, n // most late samples of a series come in order of time
	}
	if part > 0 {
		part = sort.Search(part, func(p int) bool { return r.parts[p][len(r.parts[p])-1].isNewer(t, seq) })
		in = r.parts[part]
	}
	return part, sort.Search(len(in), func(i int) bool { return in[i].isNewer(t, seq) })
}

// last returns the newest sample of one time, nil if there is none.
func (r *recent) last(t int64) *sample {
	if r.n == 0 || r.newest().t < t {
		return nil
	}
	part, i := r.behind(t, math.MaxUint64)
	if i == 0 && part > 0 {
		part--
		i = len(r.parts[part])
	}
	if i == 0 || r.parts[part][i-1].t != t {
		return nil
	}
	return &r.parts[part][i-1]
}

// from returns those from a time on.
func (r *recent) from(t int64) iter.Seq[*sample] {
	return func(yield func(*sample) bool) {
		if r.n == 0 {
			return
		}
		part, i := 0, 0
		if t > math.MinInt64 {
			part, i = r.behind(t-1, math.MaxUint64)
		}
		for ; part < len(r.parts); part, i = part+1, 0 {
			for in := r.parts[part]; i < len(in); i++ {
				if !yield(&in[i]) {
					return
				}
			}
		}
	}
}

// oldest returns the first one; there is one.
func (r *recent) oldest() *sample { return &r.parts[0][0] }

// newest returns the last one; there is one.
func (r *recent) newest() *sample {
	in := r.parts[len(r.parts)-1]
	return &in[len(in)-1]
}

// insert adds a sample, and returns how much more memory they take.
func (r *recent) insert(kept sample) (more int64) {
	if r.parts == nil {
		r.parts = r.one[:]
		r.parts[0] = make([]sample, 0, 4)
		more = 4 * sampleBytes
	}
	part, i := r.behind(kept.t, kept.seq)
	if len(r.parts[part]) == partLen {
		before := r.roomBytes()
		part, i = r.split(part, i)
		more += r.roomBytes() - before
	}
	before := cap(r.parts[part])
	in := append(r.parts[part], kept)
	copy(in[i+1:], in[i:])
	in[i] = kept
	r.parts[part] = in
	r.n++
	return more + int64(cap(in)-before)*sampleBytes + kept.bytes()
}

// split makes two parts of one, and returns where a place in it is then. A place at an end is in a
// part of its own, so that samples that ascend or fall fill their parts.
func (r *recent) split(part, i int) (newPart, newI int) {
	in := r.parts[part]
	at := len(in) / 2
	if i == 0 || i == len(in) {
		at = i
	}
	tail := append([]sample(nil), in[at:]...)
	clear(in[at:])
	r.parts = append(r.parts, nil)
	r.one[0] = nil
	copy(r.parts[part+1:], r.parts[part:])
	r.parts[part], r.parts[part+1] = in[:at], tail
	if i < at || i == 0 {
		return part, i
	}
	return part + 1, i - at
}

// keep keeps only those of some commits.
func (r *recent) keep(of func(seq uint64) bool) {
	parts := r.parts[:0]
	r.n = 0
	for _, part := range r.parts {
		kept := part[:0]
		for i := range part {
			if of(part[i].seq) {
				kept = append(kept, part[i])
			}
		}
		clear(part[len(kept):])
		if len(kept) > 0 {
			parts = append(parts, kept)
		}
		r.n += len(kept)
	}
	if r.n == 0 && len(r.parts) > 0 {
		parts = append(parts, r.parts[0][:0]) // memory for those that come next
	}
	clear(r.parts[len(parts):])
	r.parts = parts
}
