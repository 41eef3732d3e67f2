package replay

import (
	"math"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/wal"
)

// packedSample is a sample on its way to the worker that owns its series, relative to a span: 16
// bytes instead of 24. Each is moved twice, and workers collect 48k of them and more.
type packedSample struct {
	ref, t uint32
	v      float64
}

// sampleSpan are samples whose refs and times are at most 2^32 apart. What theirs are relative to
// may have gone below 0: sums of both overflow, and are right.
type sampleSpan struct {
	ref, t  uint64
	samples []packedSample
	wide    *wideSpan // nil: none of them is wide
}

func (sp *sampleSpan) refOf(s packedSample) uint64 { return sp.ref + uint64(s.ref) }

func (sp *sampleSpan) sampleOf(s packedSample) xorchunk.Sample {
	return xorchunk.Sample{T: int64(sp.t + uint64(s.t)), V: s.v}
}

// samplePart are samples of one worker, in their order: one span, unless the log has times of
// different months side by side.
type samplePart struct {
	spans []spanStart
	all   []packedSample
	last  spanStart // of spans, beside them for the sake of add
	wide  wideList  // of all
}

type spanStart struct {
	ref, t uint64
	from   int // in all
}

func (p *samplePart) add(ref uint64, t int64, v float64) {
	r, d := ref-p.last.ref, uint64(t)-p.last.t
	if r|d > math.MaxUint32 || len(p.spans) == 0 {
		const middle = 1 << 31 // others may be on either side
		p.last = spanStart{ref: ref - middle, t: uint64(t) - middle, from: len(p.all)}
		p.spans = append(p.spans, p.last)
		r, d = middle, middle
	}
	p.all = append(p.all, packedSample{ref: uint32(r), t: uint32(d), v: v})
}

// span returns one of the spans.
func (p *samplePart) span(i int) sampleSpan {
	end := len(p.all)
	if i+1 < len(p.spans) {
		end = p.spans[i+1].from
	}
	s := p.spans[i]
	return sampleSpan{ref: s.ref, t: s.t, samples: p.all[s.from:end], wide: p.wide.span(s.from, end)}
}

// partSet holds samples by worker. The last worker that is done with it gives it back.
type partSet struct {
	parts   []samplePart
	pending atomic.Int32 // workers, and who passes samples on to them
}

// split appends the samples of one record to the parts of their workers. dups are
// refs that stand for others.
func (ps *partSet) split(rec []byte, dups map[uint64]uint64) error {
	var dec record.SampleDecoder
	var buf [decodeLen]record.Sample
	dec.Reset(rec)
	if dec.HasStarts() {
		return ps.splitStarts(&dec, dups)
	}
	n := uint64(len(ps.parts))
	mask := n - 1
	powerOfTwo := n&mask == 0 // nearly always; a division a sample shows (BenchmarkReplay)
	for {
		got, err := dec.Decode(buf[:])
		if len(dups) > 0 {
			renumber(buf[:got], dups)
		}
		for i := range buf[:got] {
			s := &buf[i]
			w := s.Ref & mask
			if !powerOfTwo {
				w = s.Ref % n
			}
			ps.parts[w].add(s.Ref, s.T, s.V)
		}
		if err != nil || got < len(buf) {
			return err
		}
	}
}

// renumber gives samples the refs that theirs stand for.
//
//go:noinline
func renumber(samples []record.Sample, dups map[uint64]uint64) {
	for i := range samples {
		if ref, ok := dups[samples[i].Ref]; ok {
			samples[i].Ref = ref
		}
	}
}

// makeRoom prepares an empty set for n samples that are spread evenly, so that it does not grow
// step by step.
//
//go:noinline
func (ps *partSet) makeRoom(n int) {
	share := min(n, maxRoom)/len(ps.parts) + 1
	for i := range ps.parts {
		if p := &ps.parts[i]; cap(p.all) < share {
			p.all = make([]packedSample, 0, share+share/32)
		}
	}
}

// maxSamples returns an upper bound of the samples in records.
func maxSamples(records []wal.Record) (n int) {
	for _, rec := range records {
		switch record.TypeOf(rec.Data) {
		case record.TypeSamples, record.TypeSamplesV2:
			var dec record.SampleDecoder
			dec.Reset(rec.Data)
			n += dec.MaxSamples()
		}
	}
	return n
}

// clear empties a set for the next decoder.
func (ps *partSet) clear() {
	for i := range ps.parts {
		p := &ps.parts[i]
		p.spans, p.all = p.spans[:0], p.all[:0]
		p.wide.clear()
	}
}

// filled returns how many workers have samples in the set.
func (ps *partSet) filled() (n int) {
	for i := range ps.parts {
		if len(ps.parts[i].all) > 0 {
			n++
		}
	}
	return n
}

// emptyParts returns a set of parts, a used one if there is one.
//
//go:noinline
func (r *replay) emptyParts() *partSet {
	select {
	case ps := <-r.parts:
		return ps
	default:
		return &partSet{parts: make([]samplePart, len(r.workers))}
	}
}

// send passes samples on to the workers that own their series. seq is the newest commit, synced the
// last one that is known to be on stable storage.
func (r *replay) send(ps *partSet, seq, synced uint64) {
	ps.pending.Store(int32(ps.filled() + 1))
	for i, w := range r.workers {
		p := &ps.parts[i]
		for k := range p.spans {
			item := work{span: p.span(k), seq: seq, synced: synced}
			if k == len(p.spans)-1 {
				item.set = ps
			}
			w.queue <- item
		}
	}
	r.release(ps)
}

// release says that a worker is done with a set, or that it was passed on to all.
func (r *replay) release(ps *partSet) {
	if ps.pending.Add(-1) == 0 {
		r.giveBack(ps)
	}
}

// giveBack empties a set for the next decoder. What is too many is dropped.
func (r *replay) giveBack(ps *partSet) {
	ps.clear()
	select {
	case r.parts <- ps:
	default:
	}
}
