package read

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// mergedChunks gives what several places have of one series as one run of chunks, oldest first and
// without overlap. A chunk that nothing else reaches into passes as it is stored; where chunks
// overlap their samples are merged by time, and come as samples.
type mergedChunks struct {
	merged  samplemerge.Merger
	parts   []sourceSeries   // in the order of places
	sources []chunkSource    // of parts, and those that were needed before
	begun   bool             // sources are in merged
	samples chunkenc.Batch   // that were merged last: no more than a chunk for who reads chunks
	enc     chunkenc.Encoder // of samples that are no floats
	buf     []byte
	ahead   error // what comes behind
}

func (m *mergedChunks) reset(s *mergedSeries) {
	if cap(m.samples.T) == 0 {
		m.samples = *chunkenc.NewBatch(chunkenc.TargetSamples)
	}
	m.merged.Reset()
	m.begun, m.ahead = false, nil
	m.parts = s.appendParts(m.parts[:0])
	for i, p := range m.parts {
		if i == len(m.sources) {
			m.sources = append(m.sources, nil)
		}
		m.sources[i] = p.open(m.sources[i])
	}
}

// Next implements chunkSource.
func (m *mergedChunks) Next(from int64, c *samplemerge.Chunk) (bool, error) {
	if m.ahead == nil {
		m.ahead = m.seek(from)
	}
	m.samples.Cut(0)
	for m.ahead == nil {
		stop, err := m.merged.Step(&m.samples)
		if stop == samplemerge.AtEnd || err != nil {
			m.ahead = err
			break
		}
		if stop == samplemerge.AtChunk {
			next, alone := m.merged.Due()
			if !alone {
				m.ahead = m.merged.Open()
				continue
			}
			if m.samples.Len() == 0 {
				*c = *next
				m.merged.Pass()
				return true, nil
			}
		} else if m.samples.Len() == 0 {
			return m.others(c)
		}
		break // the floats come first
	}
	n := m.samples.Len()
	if n == 0 {
		return false, m.ahead
	}
	*c = samplemerge.Chunk{Samples: &m.samples, MinT: m.samples.T[0], MaxT: m.samples.T[n-1], Bounds: samplemerge.Everything()}
	return true, nil
}

// others makes a chunk of the next samples, which are no floats: as many as one chunk can have.
// Damage behind them is ahead.
func (m *mergedChunks) others(c *samplemerge.Chunk) (bool, error) {
	m.enc.Reset()
	first, last := m.merged.Other().T(), int64(0)
	for m.ahead == nil && m.enc.Len() < chunkenc.TargetSamples {
		stop, err := m.merged.Peek()
		if m.ahead = err; err != nil {
			break
		}
		if stop == samplemerge.AtChunk {
			if _, alone := m.merged.Due(); !alone {
				m.ahead = m.merged.Open()
				continue
			}
		}
		if stop != samplemerge.AtOther || m.enc.AppendOther(m.merged.Other()) != nil {
			break // what is next is not of this chunk
		}
		last = m.merged.Other().T()
		m.merged.Take()
	}
	m.buf = m.enc.AppendTo(m.buf[:0])
	*c = samplemerge.Chunk{Encoding: m.enc.Encoding(), Data: m.buf, MinT: first, MaxT: last, Bounds: samplemerge.Everything()}
	return true, nil
}

// seek passes over what lies before a time.
func (m *mergedChunks) seek(from int64) error {
	err := m.merged.Seek(from)
	if m.begun {
		return err
	}
	m.begun = true
	for _, src := range m.sources[:len(m.parts)] {
		if err := m.merged.Add(src); err != nil {
			return err
		}
	}
	return err
}

// Place implements chunkSource.
func (m *mergedChunks) Place(err error) error { return m.merged.Place(err) }
