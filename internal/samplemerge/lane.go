package samplemerge

import "github.com/seed347100a3/tsdb/chunkenc"

// lane is a source with the samples that were decoded of it.
type lane struct {
	src     Source         // nil: it is at its end, and the lane is free
	samples chunkenc.Batch // that count; at most a run of the chunk
	at      int            // the first one that was not given
	chunk   Chunk
	pending bool // nothing of the chunk was decoded
	other   bool // the samples of the chunk are no floats
	runs    Runs // of the chunk
}

// advance finds the next samples when those that were decoded are used up, or the next chunk, of
// which nothing is decoded yet. head is the time of the first sample that counts, or before it;
// more says whether there may be one. What comes before from does not count.
func (l *lane) advance(from int64) (head int64, more bool, err error) {
	for {
		if err := l.runs.Next(&l.samples); err != nil {
			return 0, false, l.src.Place(err)
		}
		if l.at = 0; l.samples.Len() == 0 {
			return l.pull(from)
		}
		if l.chunk.Clip(&l.samples); l.samples.Len() > 0 {
			return l.samples.T[0], true, nil
		}
	}
}

// pull takes the next chunk of which something counts.
func (l *lane) pull(from int64) (head int64, more bool, err error) {
	for {
		if more, err = l.src.Next(from, &l.chunk); !more || err != nil {
			return 0, false, err
		}
		l.chunk.From = max(l.chunk.From, from)
		if !l.chunk.Hides(l.chunk.MinT, l.chunk.MaxT) {
			l.pending = true
			return l.chunk.first(), true, nil
		}
	}
}

// open begins to decode the chunk.
func (l *lane) open(from int64) (head int64, more bool, err error) {
	l.pending = false
	if err := l.runs.Reset(&l.chunk); err != nil {
		return 0, false, l.src.Place(err)
	}
	l.other = l.runs.Other() != nil
	return l.advance(from)
}

// seek passes over samples before t.
func (l *lane) seek(t int64) (head int64, more bool, err error) {
	l.chunk.From = max(l.chunk.From, t)
	if l.chunk.MaxT < t {
		l.pending, l.runs = false, Runs{}
	}
	if l.pending {
		return l.chunk.first(), true, nil
	}
	for ; l.at < len(l.samples.T); l.at++ {
		if head := l.samples.T[l.at]; head >= t {
			return head, true, nil
		}
	}
	return l.advance(t)
}
