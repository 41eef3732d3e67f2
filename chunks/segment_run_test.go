package chunks

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// requireRuns reads all runs of chunks, which have only what Read has, too.
func requireRuns(tb testing.TB, s *Segments, all []placed) {
	tb.Helper()
	var run Run
	for i := range all {
		for j := range all {
			s.ReadRun(&run, all[i].ref, all[j].ref)
			for k, p := range all {
				enc, data, ok := run.Chunk(p.ref)
				wantEnc, want, err := s.Read(p.ref, nil)
				if ok {
					require.NoError(tb, err)
					require.Equal(tb, wantEnc, enc)
					require.True(tb, bytes.Equal(want, data))
				}
				require.False(tb, i == j && k == i && err == nil && !ok, "a good chunk is missing")
			}
		}
	}
}

func TestRun_HasTheChunksFromTheFirstToTheLast(t *testing.T) {
	m, all, _ := oneSegment(t, 10, 0, 130, maxRunChunk-20, 20, maxRunChunk, 5)
	s := openTestSegments(t, m)
	var run Run
	s.ReadRun(&run, all[1].ref, all[4].ref)
	for i, p := range all {
		enc, data, ok := run.Chunk(p.ref)
		require.Equal(t, i >= 1 && i <= 4, ok, i)
		if ok {
			require.Equal(t, p.enc, enc)
			require.True(t, bytes.Equal(p.data, data))
		}
	}
	s.ReadRun(&run, all[4].ref, all[5].ref)
	_, _, ok := run.Chunk(all[4].ref)
	require.True(t, ok)
	_, _, ok = run.Chunk(all[5].ref)
	require.False(t, ok, "a long one is read by itself")
	run.Reset()
	_, _, ok = run.Chunk(all[4].ref)
	require.False(t, ok)
}

func TestRun_DamageIsNotInIt(t *testing.T) {
	_, all, good := oneSegment(t, 50, 60, 70)
	b := bytes.Clone(good)
	b[all[1].ref.Offset()+9]++
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile(segmentDir+"/000001", b))
	s := openTestSegments(t, m)
	var run Run
	s.ReadRun(&run, all[0].ref, all[2].ref)
	for i, p := range all {
		_, _, ok := run.Chunk(p.ref)
		require.Equal(t, i != 1, ok, i)
	}
}

func TestRun_OfNothingIsEmpty(t *testing.T) {
	m, all, good := oneSegment(t, 50, 60)
	s := openTestSegments(t, m)
	var run Run
	for _, r := range [][2]BlockRef{
		{all[1].ref, all[0].ref},
		{all[0].ref, NewBlockRef(1, all[1].ref.Offset())},
		{NewBlockRef(7, 8), NewBlockRef(7, 8)},
		{3, all[0].ref},
		{all[0].ref, NewBlockRef(0, uint32(len(good)))},
	} {
		s.ReadRun(&run, r[0], r[1])
		require.Empty(t, run.buf)
	}
}

func TestRun_AllocatesNothing(t *testing.T) {
	m, all, _ := oneSegment(t, 50, 60, 70)
	s := openTestSegments(t, m)
	var run Run
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.ReadRun(&run, all[0].ref, all[2].ref)
		for _, p := range all {
			if _, _, ok := run.Chunk(p.ref); !ok {
				t.Fatal("a chunk is missing")
			}
		}
	}))
}
