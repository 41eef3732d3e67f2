package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// CutAt makes t the border of chunks: from its return on no chunk in memory has samples
// before t and others at or after it, nor will one that is begun later. That lasts until
// the next CutAt. It returns how many chunks reach over t all the same, because they are in
// files or on the way there: of those a reader must take the part it means.
//
// Samples, their order and what readers see do not change.
func (tr *Truncation) CutAt(t int64) (over int) {
	for i := range tr.shards.all {
		sh := &tr.shards.all[i]
		sh.mu.Lock()
		sh.mu.limit = t
		sh.mu.Unlock()
	}
	c := splitter{shelf: tr.shelf, t: t}
	tr.shards.eachLocked(c.cutLocked)
	return c.over
}

// splitter splits chunks at t. It keeps its buffers from chunk to chunk.
type splitter struct {
	shelf *Shelf
	t     int64
	over  int // chunks that reach over t and cannot be split

	data    []byte
	samples chunkenc.Batch // of what is no float only the times
	others  []Sample       // all samples, if they are no floats
	wide    WideSamples    // their histograms
	ints    histogram.Histogram
	floats  histogram.FloatHistogram
	dec     chunkenc.Decoder
	enc     chunkenc.Encoder
}

// cutLocked splits what reaches over t of one series: it is one chunk at most.
func (c *splitter) cutLocked(sh *Shard, s *Series) {
	if s.enc.Len() > 0 && s.enc.FirstT() < c.t {
		if s.enc.LastT() >= c.t {
			c.splitOpenLocked(sh, s)
		}
		if s.enc.FirstT() < c.t {
			sh.mu.wide.endAt(s, c.t)
		}
		return
	}
	i := s.mappedFrom(c.t)
	if i == int(s.numMapped) || s.mappedAt(i).MinT >= c.t {
		return
	}
	m := s.mappedAt(i)
	if inFile(m) || sh.mu.waiting.of(m).taken {
		c.over++
		return
	}
	c.splitFullLocked(sh, s, i, sh.mu.waiting.of(m))
}

// splitOpenLocked makes a full chunk of the samples before t and appends the others to a
// new open one, by the usual rules. The series' newest commit stands for those of the
// samples.
func (c *splitter) splitOpenLocked(sh *Shard, s *Series) {
	fl := &sh.mu.filler
	enc := s.open
	if s.isWide() {
		c.data = fl.wide.of(s).enc.AppendTo(c.data[:0])
		enc = fl.wide.of(s).enc.Encoding()
	} else {
		c.data = s.enc.Finish(s.bytes.appendTo(c.data[:0], fl.pieces.arena))
	}
	n := c.decode(enc, c.data)
	s.bytes.drop(&fl.pieces)
	s.enc.Reset()
	if s.isWide() {
		fl.wide.of(s).enc.Reset()
	}
	fl.seq = s.lastSeq
	for i := range n {
		w := c.at(i)
		fl.encode(s, &w)
	}
	fl.closeChunk(s)
	if first := c.at(n); first.Encoding == chunkenc.EncXOR {
		fl.open(s, first.T, first.Encoding)
	} else {
		s.enc.Reset() // appending one that is wide to nothing begins a chunk
	}
	for i := n; i < c.samples.Len(); i++ {
		w := c.at(i)
		fl.appendAny(s, &w)
	}
}

// splitFullLocked puts two chunks in the place of number i, which is f and which no file has.
func (c *splitter) splitFullLocked(sh *Shard, s *Series, i int, f *fullChunk) {
	whole := *f
	c.data = whole.appendTo(c.data[:0], sh.mu.pieces.arena)
	n := c.decode(whole.encoding, c.data)
	c.shelf.dropLocked(sh, f)

	sh.mu.begun++
	sh.mu.mapped.insert(s, i, c.addFullLocked(sh, whole, 0, n))
	sh.mu.mapped.set(s, i+1, c.addFullLocked(sh, whole, n, c.samples.Len()))
	sh.mu.waiting.mixed = true
}

// addFullLocked makes a full chunk of some decoded samples of f.
func (c *splitter) addFullLocked(sh *Shard, f fullChunk, from, to int) Mapped {
	c.enc.Reset()
	for i := from; i < to; i++ {
		w := c.at(i)
		if err := w.encode(&c.enc); err != nil {
			panic("BUG: part of a chunk does not fit a chunk: " + err.Error())
		}
	}
	f.minT, f.maxT, f.num = c.samples.T[from], c.samples.T[to-1], uint16(to-from)
	f.encoding = c.enc.Encoding()
	c.data, f.bytes = c.enc.AppendTo(c.data[:0]), chunkBytes{}
	f.bytes.add(&sh.mu.pieces, c.data)
	return Mapped{Ref: sh.mu.onFull(f), MinT: f.minT, MaxT: f.maxT, Num: f.num}
}

// decode reads the samples of a chunk that this process encoded, and returns how many are before t.
func (c *splitter) decode(enc chunkenc.Encoding, data []byte) int {
	err := c.dec.Reset(enc, data)
	n := c.dec.Left()
	c.samples.Cut(0)
	c.others = c.others[:0]
	c.wide.Reset()
	c.samples.T, c.samples.V = slices.Grow(c.samples.T, n), slices.Grow(c.samples.V, n)
	switch {
	case err != nil:
	case c.dec.Kind() == chunkenc.ValFloat:
		err = c.dec.Decode(&c.samples, n)
	default:
		err = c.decodeOthers()
	}
	if err != nil {
		panic("BUG: chunk in memory is damaged: " + err.Error())
	}
	before, _ := slices.BinarySearch(c.samples.T, c.t)
	return before
}

// decodeOthers is decode for samples that are no floats.
func (c *splitter) decodeOthers() error {
	for {
		ok, err := c.dec.Next()
		if !ok {
			return err
		}
		s := Sample{T: c.dec.T(), Encoding: histogramEncoding(c.dec.Kind())}
		if c.dec.Kind() == chunkenc.ValHistogram {
			c.dec.Histogram(&c.ints)
			s.Sum, s.Wide = c.ints.Digest(), c.wide.AddHistogram(c.dec.ST(), &c.ints)
		} else {
			c.dec.FloatHistogram(&c.floats)
			s.Sum, s.Wide = c.floats.Digest(), c.wide.AddFloatHistogram(c.dec.ST(), &c.floats)
		}
		c.others = append(c.others, s)
		c.samples.T = append(c.samples.T, s.T)
	}
}

// at returns a sample that was decoded.
func (c *splitter) at(i int) (w WideSample) {
	if len(c.others) > 0 {
		c.wide.Fill(&w, &c.others[i])
		return w
	}
	return floatSample(c.samples.T[i], c.samples.V[i], c.samples.StartOf(i))
}

// CeilTo returns the first multiple of r that is not below t.
func CeilTo(t, r int64) int64 {
	if m := t % r; m > 0 {
		return t - m + r
	}
	return t - t%r // rounded towards 0, which is up
}
