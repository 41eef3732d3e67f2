package memseries

import "github.com/seed347100a3/tsdb/chunks"

// Excerpts are those of some series that are read one after the other. What a series has lies all
// over the memory, one part leading to the next: read one series after the other, each part is
// waited for; here the same part of all series is waited for at once (BenchmarkReadHead of package
// remote). The zero value has no excerpts. It belongs to one goroutine.
type Excerpts struct {
	series []*Series
	all    []Excerpt
	next   int // of all, as Of gives them out
}

// Take fills e with the excerpts of the first series, up to GroupLen, each as Past.Excerpt does it.
func (e *Excerpts) Take(p Past, series []*Series, mint, maxt int64) {
	series = series[:min(len(series), GroupLen)]
	e.series, e.next = append(e.series[:0], series...), 0
	if more := len(series) - len(e.all); more > 0 {
		e.all = append(e.all, make([]Excerpt, more)...)
	}
	recordsAhead(series)
	shards := shardsOf(series)
	p.d.Shards.Lock(shards)
	defer p.d.Shards.Unlock(shards)
	listsAheadLocked(p.d, series)
	var open [GroupLen]bool
	var bytes [GroupLen]chunkBytes // of open chunks
	for i, s := range series {
		if open[i] = p.d.Shards.of(s).excerptLocked(s, p.seq, mint, maxt, &e.all[i]); open[i] {
			bytes[i] = s.bytes
		}
	}
	var w walk // of the open chunks
	w.begin(len(series), func(i int) chunkBytes { return bytes[i] }, p.d.chunkBytes)
	for i, s := range series {
		if open[i] {
			one := &e.all[i]
			one.data = w.appendTo(one.data, i, p.d.chunkBytes)
			one.finish(s)
		}
	}
}

// Of returns the excerpt of s, nil if s is not the series behind the one that Of was asked for
// last: the first one of those that were taken, at first. It is valid until the next Take.
func (e *Excerpts) Of(s *Series) *Excerpt {
	if e.next == len(e.series) || e.series[e.next] != s {
		return nil
	}
	e.next++
	return &e.all[e.next-1]
}

// AppendRefs appends the Refs of the excerpts that Of has not given out, the first most of them.
func (e *Excerpts) AppendRefs(dst []chunks.Ref, most int) []chunks.Ref {
	for i := range e.all[e.next:len(e.series)] {
		for _, c := range e.all[e.next+i].Chunks {
			switch {
			case c.Ref == 0:
			case most == 0:
				return dst
			default:
				dst, most = append(dst, c.Ref), most-1
			}
		}
	}
	return dst
}

// Forget lets go of all series, and keeps the memory of the excerpts.
func (e *Excerpts) Forget() {
	clear(e.series)
	e.series, e.next = e.series[:0], 0
}

func shardsOf(series []*Series) (shards ShardSet) {
	for _, s := range series {
		shards |= Bit(s)
	}
	return shards
}
