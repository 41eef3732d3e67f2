package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// mergedChunkSamples is how many samples a chunk gets that is made of several
// sources: what the format's writers aim at.
const mergedChunkSamples = 120

// mergedChunks gives the chunks that several places have of one series as one run,
// oldest first and without overlap. A chunk that nothing else reaches into passes as it
// is stored; where chunks overlap their samples are merged by time and encoded again,
// a chunk at a time. Where two places have a sample at the same time the first wins.
type mergedChunks struct {
	parts  []mergePart
	used   int            // part whose head was given out by the last call; -1: none
	merged chunkenc.Batch // samples that no chunk was made of yet
	enc    chunkenc.FloatEncoder
	buf    []byte
	in     bounds // of encoded chunks: everything
}

// mergePart is one place: the chunk it stands on, and samples of the one before it
// that was decoded.
type mergePart struct {
	src  chunkSource
	head sourceChunk
	has  bool
	run  chunkenc.Batch
	at   int // run[at:] was not merged yet
	dec  chunkenc.FloatDecoder
}

func (m *mergedChunks) reset(s *mergedSeries) {
	old := m.parts[:cap(m.parts)]
	m.parts = m.parts[:0]
	m.in = bounds{mint: math.MinInt64, maxt: math.MaxInt64}
	m.used = -1
	m.merged.Cut(0)
	add := func(s sourceSeries) {
		p := mergePart{}
		if n := len(m.parts); n < len(old) {
			p = mergePart{src: old[n].src, run: old[n].run}
			p.run.Cut(0)
		}
		p.src = s.open(p.src)
		m.parts = append(m.parts, p)
	}
	add(s.first)
	for _, more := range s.more {
		add(more)
	}
	for i := range m.parts {
		m.parts[i].head.maxT = math.MinInt64
	}
	m.used = math.MaxInt // all heads are to be read
}

// next implements chunkSource.
func (m *mergedChunks) next(mint int64, c *sourceChunk) (bool, error) {
	if err := m.refill(mint); err != nil {
		return false, err
	}
	for {
		i, second := m.least()
		if i < 0 {
			return m.encoded(c)
		}
		p := &m.parts[i]
		switch {
		case p.at == p.run.Len() && p.head.last() < second:
			if m.merged.Len() > 0 {
				return m.encoded(c)
			}
			m.used = i
			*c = p.head
			return true, nil
		case p.at == p.run.Len():
			if err := p.decode(mint); err != nil {
				return false, err
			}
		case p.run.T[p.at] == second:
			if err := m.same(second, mint); err != nil {
				return false, err
			}
		default:
			m.run(p, second)
		}
		if m.merged.Len() >= mergedChunkSamples {
			return m.encoded(c)
		}
	}
}

// refill reads the heads that the last call used up.
func (m *mergedChunks) refill(mint int64) (err error) {
	for i := range m.parts {
		if m.used == i || m.used == math.MaxInt {
			p := &m.parts[i]
			if p.has, err = p.src.next(mint, &p.head); err != nil {
				return err
			}
		}
	}
	m.used = -1
	return nil
}

// least returns the part with the earliest sample, as far as is known, the first of
// several, and the earliest of the others. No part is -1.
func (m *mergedChunks) least() (part int, second int64) {
	part, second = -1, math.MaxInt64
	first := int64(math.MaxInt64)
	for i := range m.parts {
		p := &m.parts[i]
		if !p.has && p.at == p.run.Len() {
			continue
		}
		switch t := p.nextT(); {
		case part < 0 || t < first:
			if part >= 0 {
				second = first
			}
			part, first = i, t
		default:
			second = min(second, t)
		}
	}
	return part, second
}

// nextT is the time of the next sample, or a bound below it while that is not decoded.
func (p *mergePart) nextT() int64 {
	if p.at < p.run.Len() {
		return p.run.T[p.at]
	}
	return p.head.first()
}

// run takes samples of one part up to where another has something to say.
func (m *mergedChunks) run(p *mergePart, until int64) {
	end := min(p.run.Len(), p.at+mergedChunkSamples-m.merged.Len())
	n := p.at
	for n < end && (p.run.T[n] < until || until == math.MaxInt64) {
		n++
	}
	m.merged.Append(&p.run, p.at, n)
	p.at = n
}

// same handles a time that several parts may have: what is not decoded is, and then
// the first one's sample is taken.
func (m *mergedChunks) same(t, mint int64) error {
	for i := range m.parts {
		p := &m.parts[i]
		if p.has && p.at == p.run.Len() && p.head.first() <= t {
			return p.decode(mint) // and look again
		}
	}
	taken := false
	for i := range m.parts {
		p := &m.parts[i]
		if p.at == p.run.Len() || p.run.T[p.at] != t {
			continue
		}
		if !taken {
			m.merged.Append(&p.run, p.at, p.at+1)
			taken = true
		}
		p.at++
	}
	return nil
}

// decode reads the samples of the head that may be seen and moves on to the next.
func (p *mergePart) decode(mint int64) (err error) {
	if err := p.dec.Reset(p.head.enc, p.head.data); err != nil {
		return err
	}
	n := p.dec.Left()
	if cap(p.run.T) < n {
		p.run = *chunkenc.NewBatch(n)
	}
	p.at = 0
	if err := p.dec.Decode(&p.run, n); err != nil {
		return err
	}
	p.head.in.clip(&p.run)
	p.has, err = p.src.next(mint, &p.head)
	return err
}

// encoded gives the merged samples out as a chunk; none are the end.
func (m *mergedChunks) encoded(c *sourceChunk) (bool, error) {
	if m.merged.Len() == 0 {
		return false, nil
	}
	m.enc.Reset()
	for i, t := range m.merged.T {
		if err := m.enc.Append(t, m.merged.V[i], m.merged.StartOf(i)); err != nil {
			return false, err
		}
	}
	m.buf = m.enc.AppendTo(m.buf[:0])
	*c = sourceChunk{enc: m.enc.Encoding(), data: m.buf, minT: m.merged.T[0], maxT: m.merged.T[m.merged.Len()-1], in: &m.in}
	m.merged.Cut(0)
	return true, nil
}
