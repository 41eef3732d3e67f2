package samplemerge

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// mover makes drawn moves with a Merger and holds each to what is left of a sort of all samples.
type mover struct {
	m    *Merger
	left []sample
}

// given takes samples off.
func (m *mover) given(t *rapid.T, got []sample) {
	require.LessOrEqual(t, len(got), len(m.left))
	if len(got) > 0 {
		require.Equal(t, m.left[:len(got)], got)
	}
	m.left = m.left[len(got):]
}

// next reads a batch.
func (m *mover) next(t *rapid.T) {
	b := chunkenc.NewBatch(rapid.SampledFrom([]int{1, 2, 50, 256}).Draw(t, "room"))
	stop, err := m.m.Next(b)
	require.NoError(t, err)
	m.given(t, samplesIn(b))
	if stop == AtOther {
		m.given(t, []sample{takeOther(t, m.m)})
		return
	}
	require.True(t, b.Len() == cap(b.T) || len(m.left) == 0)
}

// step reads up to a chunk, and takes that as it is, or has it decoded.
func (m *mover) step(t *rapid.T) {
	b := chunkenc.NewBatch(rapid.SampledFrom([]int{1, 2, 50, 256}).Draw(t, "room"))
	stop, err := m.m.Step(b)
	require.NoError(t, err)
	m.given(t, samplesIn(b))
	switch stop {
	case AtOther:
		if rapid.Bool().Draw(t, "take") {
			m.given(t, []sample{takeOther(t, m.m)})
		}
		return
	case AtEnd:
		require.True(t, b.Len() == cap(b.T) || len(m.left) == 0)
		return
	}
	c, alone := m.m.Due()
	if !alone || rapid.Bool().Draw(t, "open") {
		require.NoError(t, m.m.Open())
		return
	}
	m.m.Pass()
	m.given(t, slices.DeleteFunc(samplesOf(t, c), func(s sample) bool { return !c.Shows(s.t) }))
}

// peek looks at what comes next, and may have a chunk decoded for that.
func (m *mover) peek(t *rapid.T) {
	stop, err := m.m.Peek()
	require.NoError(t, err)
	switch stop {
	case AtEnd:
		require.Empty(t, m.left)
	case AtChunk:
		if rapid.Bool().Draw(t, "open") {
			require.NoError(t, m.m.Open())
		}
	default:
		require.Equal(t, stop == AtFloat, m.left[0].kind == chunkenc.ValFloat)
	}
}

// seek goes to a time, which may be one that was passed.
func (m *mover) seek(t *rapid.T) {
	to := rapid.Int64Range(-200, 4000).Draw(t, "to")
	require.NoError(t, m.m.Seek(to))
	for len(m.left) > 0 && m.left[0].t < to {
		m.left = m.left[1:]
	}
}

// Whatever moves are made, in whatever order, from the first one on: what comes is a sort of all
// samples, without those that a Seek passes over.
func TestMerger_AnyMoves_EqualTheSort(t *testing.T) {
	var kept Merger // its memory
	rapid.Check(t, func(t *rapid.T) {
		sources, all := drawSources(t)
		m := mover{m: &kept}
		kept.Repeats = rapid.Bool().Draw(t, "repeats")
		m.left = sorted(all, kept.Repeats)
		kept.Reset()
		if rapid.IntRange(0, 3).Draw(t, "seek first") == 0 {
			m.seek(t)
		}
		for _, of := range sources {
			require.NoError(t, kept.Add(&chunks{left: of, skips: rapid.Bool().Draw(t, "skips")}))
		}
		moves := []func(*rapid.T){m.next, m.step, m.step, m.step, m.peek, m.peek, m.seek}
		for range rapid.IntRange(0, 30).Draw(t, "moves") {
			rapid.SampledFrom(moves).Draw(t, "move")(t)
		}
		require.Equal(t, slices.Concat([]sample{}, m.left), slices.Concat([]sample{}, read(t, &kept, 100)))
	})
}

// Chunks that come one by one, by the time of the first sample, and overlap each other: each is a
// source, added when the one before it is due.
func TestMerger_SourcesAddedOnTheWay_EqualTheSort(t *testing.T) {
	var m Merger
	rapid.Check(t, func(t *rapid.T) {
		var stream []Chunk
		var all []sample
		for range rapid.IntRange(0, 40).Draw(t, "chunks") {
			c, _ := drawChunk(t, 0, rapid.Int64Range(-100, 6000).Draw(t, "behind"))
			stream = append(stream, c)
		}
		slices.SortStableFunc(stream, func(a, b Chunk) int { return cmp.Compare(a.first(), b.first()) })
		for i := range stream {
			all = append(all, renumber(t, &stream[i], i)...)
		}
		m.Reset()
		var got []sample
		var newest *Chunk
		add := func() {
			for newest = nil; newest == nil && len(stream) > 0; stream = stream[1:] { // of some nothing counts
				require.NoError(t, m.Add(&one{c: stream[0], at: &newest}))
			}
		}
		add()
		b := chunkenc.NewBatch(rapid.SampledFrom([]int{1, 7, 256}).Draw(t, "room"))
		for {
			stop, err := m.Step(b)
			require.NoError(t, err)
			got = append(got, samplesIn(b)...)
			if stop == AtEnd && b.Len() == 0 {
				break
			}
			b.Cut(0)
			if stop == AtOther {
				got = append(got, takeOther(t, &m))
			}
			if stop != AtChunk {
				continue
			}
			if c, _ := m.Due(); c == newest {
				add()
			} else {
				require.NoError(t, m.Open())
			}
		}
		require.Empty(t, stream)
		require.Equal(t, slices.Concat([]sample{}, sorted(all, false)), slices.Concat([]sample{}, got))
		require.LessOrEqual(t, len(m.lanes), 41)
	})
}

// renumber gives all samples of a chunk values of another source, and returns those that count.
func renumber(t *rapid.T, c *Chunk, source int) []sample {
	all := samplesOf(t, c)
	for i := range all {
		all[i].source, all[i].v = source, uint64(source)<<32|uint64(i)
	}
	bounds := c.Bounds
	*c = encode(t, c.Encoding == chunkenc.EncXOR2, all)
	c.Bounds = bounds
	return slices.DeleteFunc(all, func(s sample) bool { return !bounds.Shows(s.t) })
}

// one is a source of one chunk, which says where the Merger has it.
type one struct {
	c     Chunk
	at    **Chunk
	given bool
}

func (o *one) Next(_ int64, c *Chunk) (bool, error) {
	if o.given {
		if *o.at == c {
			*o.at = nil
		}
		return false, nil
	}
	o.given = true
	*c, *o.at = o.c, c
	return true, nil
}

func (o *one) Place(err error) error { return err }

// A chunk that nothing reaches into is never looked at, whatever its encoding.
func TestMerger_ChunksThatAreAlone_PassUndecoded(t *testing.T) {
	unknown := func(mint, maxt int64) Chunk {
		return Chunk{Encoding: 200, Data: []byte("x"), MinT: mint, MaxT: maxt, Bounds: Everything()}
	}
	cut := unknown(50, 90)
	cut.From, cut.To = 60, 70
	var m Merger
	require.NoError(t, m.Add(&chunks{left: []Chunk{unknown(0, 9), unknown(20, 29), unknown(40, 55), unknown(80, 99)}}))
	require.NoError(t, m.Add(&chunks{left: []Chunk{unknown(10, 19), unknown(30, 39), cut}}))
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, ramp(2, 99, 3, 1))}}))
	var passed []int64
	var b chunkenc.Batch
	for {
		stop, err := m.Step(&b)
		require.NoError(t, err)
		require.Equal(t, AtChunk, stop)
		require.Zero(t, b.Len())
		c, alone := m.Due()
		if !alone {
			break
		}
		passed = append(passed, c.MinT)
		m.Pass()
	}
	require.Equal(t, []int64{0, 10, 20, 30, 40, 50}, passed)
	require.ErrorIs(t, m.Open(), chunkenc.ErrUnknownEncoding) // it ends where another one begins
}

// What was given may reach into a chunk that nobody else reaches into.
func TestMerger_AChunkThatBeginsWithATimeThatWasGiven_IsNotAlone(t *testing.T) {
	var m Merger
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, ramp(0, 0, 2, 10))}}))
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, ramp(1, 10, 2, 10))}}))
	b := chunkenc.NewBatch(9)
	stop, err := m.Step(b)
	require.NoError(t, err)
	require.Equal(t, AtChunk, stop)
	_, alone := m.Due()
	require.False(t, alone)
	require.NoError(t, m.Open())
	stop, err = m.Step(b)
	require.NoError(t, err)
	require.Equal(t, AtChunk, stop)
	require.Equal(t, ramp(0, 0, 2, 10)[:1], samplesIn(b)[:1])
	_, alone = m.Due()
	require.False(t, alone)
	_, err = m.Next(b)
	require.NoError(t, err)
	require.Equal(t, []int64{20}, b.T)
}

// A Seek passes over damage that lies before its time, and does not come back.
func TestMerger_Seek_PassesOverDamageAndNeverBack(t *testing.T) {
	bad := encode(t, false, ramp(0, 0, 3, 10))
	bad.Data = bad.Data[:3]
	var m Merger
	require.NoError(t, m.Add(&chunks{left: []Chunk{bad, encode(t, false, ramp(0, 100, 3, 10))}}))
	require.NoError(t, m.Seek(105))
	require.NoError(t, m.Seek(math.MinInt64))
	var b chunkenc.Batch
	_, err := m.Next(&b)
	require.NoError(t, err)
	require.Equal(t, []int64{110, 120}, b.T)
	require.NoError(t, m.Seek(1000))
	_, err = m.Next(&b)
	require.NoError(t, err)
	require.Zero(t, b.Len())
}
