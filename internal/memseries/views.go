package memseries

import "github.com/seed347100a3/tsdb/chunks"

// Views are the views of some series that are read one after the other. What a series has lies
// all over the memory, one part leading to the next: read one series after the other, each part
// is waited for; here the same part of all series is waited for at once (BenchmarkReadHead of
// package remote). The zero value has no views. It belongs to one goroutine.
type Views struct {
	series []*Series
	views  []View
	next   int  // of views, as Of gives them out
	walk   walk // of the open chunks
}

// Take fills v with the views of the first series, up to GroupLen, each as Past.View does it.
func (v *Views) Take(p Past, series []*Series, mint, maxt int64) {
	series = series[:min(len(series), GroupLen)]
	v.series, v.next = append(v.series[:0], series...), 0
	for len(v.views) < len(series) {
		v.views = append(v.views, View{})
	}
	recordsAhead(series)
	shards := shardsOf(series)
	p.d.Shards.Lock(shards)
	defer p.d.Shards.Unlock(shards)
	listsAheadLocked(p.d, series)
	var open [GroupLen]bool
	var bytes [GroupLen]chunkBytes // of open chunks
	for i, s := range series {
		if open[i] = p.d.Shards.of(s).viewLocked(s, p.seq, mint, maxt, &v.views[i]); open[i] {
			bytes[i] = s.bytes
		}
	}
	v.walk.begin(len(series), func(i int) chunkBytes { return bytes[i] }, p.d.chunkBytes)
	for i, s := range series {
		if open[i] {
			view := &v.views[i]
			view.data = v.walk.appendTo(view.data, i, p.d.chunkBytes)
			view.finish(s)
		}
	}
}

// Of returns the view of s, nil if s is not the series behind the one that Of was asked for last:
// the first one of those that were taken, at first. It is valid until the next Take.
func (v *Views) Of(s *Series) *View {
	if v.next == len(v.series) || v.series[v.next] != s {
		return nil
	}
	v.next++
	return &v.views[v.next-1]
}

// AppendRefs appends the Refs of the views that Of has not given out, the first most of them.
func (v *Views) AppendRefs(dst []chunks.Ref, most int) []chunks.Ref {
	for i := range v.views[v.next:len(v.series)] {
		for _, c := range v.views[v.next+i].Chunks {
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

// Forget lets go of all series, and keeps the memory of the views.
func (v *Views) Forget() {
	clear(v.series)
	v.series, v.next = v.series[:0], 0
}

func shardsOf(series []*Series) (shards ShardSet) {
	for _, s := range series {
		shards |= Bit(s)
	}
	return shards
}
