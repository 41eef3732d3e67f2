package blockdir

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// sampleMix has the chunks of a series that overlap, and makes new ones of their samples.
type sampleMix struct {
	sources []*laneSource
	merged  samplemerge.Merger
	run     chunkenc.Batch

	given uint64 // samples that were merged
	last  int64  // the time of the last one

	enc        chunkenc.Encoder
	part       *salvagePart // that gets the chunk
	mint, maxt int64        // of the chunk, closed
	buf        []byte
}

// laneSource is the chunks of one lane, one behind the other. Each was read, and can be decoded.
type laneSource struct {
	segments *chunks.Segments
	lane     int
	refs     []chunks.BlockRef
	chunks   []samplemerge.Chunk
	next     int // the first one that was not given
}

// Next implements samplemerge.Source.
func (l *laneSource) Next(_ int64, c *samplemerge.Chunk) (bool, error) {
	if l.next == len(l.chunks) {
		return false, nil
	}
	*c = l.chunks[l.next]
	l.next++
	return true, nil
}

// Place implements samplemerge.Source.
func (l *laneSource) Place(err error) error { return l.segments.Place(l.refs[l.next-1], err) }

// writeMixed writes the samples of chunks by time, each to the part that it lies in. Of those of
// one time that of the smallest lane stays.
func (s *salvager) writeMixed(run []mixedChunk) error {
	m := &s.mixed.merge
	samples, err := s.gather(run)
	if err != nil {
		return err
	}
	m.merged.Reset()
	m.merged.Repeats = true
	for _, src := range m.sources {
		if err := m.merged.Add(src); err != nil {
			return err
		}
	}
	for m.given = 0; ; {
		stop, err := m.merged.Next(&m.run)
		if err != nil {
			return err
		}
		for i, t := range m.run.T {
			if err := s.addSample(t, func() error { return m.enc.Append(t, m.run.V[i], m.run.StartOf(i)) }); err != nil {
				return err
			}
		}
		if stop == samplemerge.AtOther {
			d := m.merged.Other()
			if err := s.addSample(d.T(), func() error { return m.enc.AppendOther(d) }); err != nil {
				return err
			}
			m.merged.Take()
		} else if m.run.Len() == 0 {
			s.gone += samples - m.given
			return s.flushSamples()
		}
	}
}

// gather reads chunks into sources, and returns how many samples they have. What cannot be read is
// lost.
func (s *salvager) gather(run []mixedChunk) (samples uint64, err error) {
	m := &s.mixed.merge
	m.sources = m.sources[:0]
	for i := range run {
		c := &run[i]
		got, err := s.inspect(c)
		if err == nil && got != nil && !got.enc.Known() {
			s.out.LostChunks++
			const reason = "chunk of an encoding that this version does not read overlaps others or the bounds of the block"
			err = s.damaged(encbuf.Corrupt(0, reason).At(s.chunks.segments.Path(c.Ref), int64(c.Ref.Offset())))
			got = nil
		}
		if err != nil {
			return 0, err
		}
		if got == nil {
			continue
		}
		samples += got.samples
		of, found := slices.BinarySearchFunc(m.sources, c.lane, func(l *laneSource, lane int) int { return cmp.Compare(l.lane, lane) })
		if !found {
			m.sources = slices.Insert(m.sources, of, &laneSource{segments: s.chunks.segments, lane: c.lane})
		}
		l := m.sources[of]
		b := samplemerge.Everything()
		b.Deleted = c.deleted
		l.refs = append(l.refs, c.Ref)
		l.chunks = append(l.chunks, samplemerge.Chunk{Encoding: got.enc, Data: bytes.Clone(got.data), MinT: c.MinT, MaxT: c.MaxT, Bounds: b})
	}
	return samples, nil
}

// addSample gives a sample to the chunk that is being made, unless the one before had its time.
func (s *salvager) addSample(t int64, encode func() error) error {
	m := &s.mixed.merge
	repeated := m.given > 0 && t == m.last
	m.given, m.last = m.given+1, t
	if repeated {
		s.out.Repeated++
		return nil
	}
	p := s.partAt(t)
	if p == nil {
		return nil
	}
	var err error
	if p != m.part || m.enc.Len() == s.mixed.samplesPerChunk {
		err = s.flushSamples()
	}
	if err == nil {
		err = encode()
	}
	if errors.Is(err, chunkenc.ErrChunkFull) {
		if err = s.flushSamples(); err == nil {
			err = encode()
		}
	}
	if m.enc.Len() == 1 {
		m.mint = t
	}
	m.part, m.maxt = p, t
	return err
}

// partAt returns the part that a time lies in; nil: in none.
func (s *salvager) partAt(t int64) *salvagePart {
	for _, p := range s.parts {
		if p.mint <= t && t <= p.maxt {
			return p
		}
	}
	return nil
}

// flushSamples writes the chunk that is being made, if it has samples.
func (s *salvager) flushSamples() error {
	m := &s.mixed.merge
	if m.enc.Len() == 0 {
		return nil
	}
	c := Chunk{MinT: m.mint, MaxT: m.maxt, Num: m.enc.Len(), Encoding: m.enc.Encoding()}
	m.buf = m.enc.AppendTo(m.buf[:0])
	c.Data = m.buf
	m.enc.Reset()
	return m.part.w.AddChunk(c)
}
