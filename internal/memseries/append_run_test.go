package memseries

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// chunkOf is what a chunk that was cut is compared by.
type chunkOf struct {
	mint, maxt int64
	num        uint16
	data       string
}

// cutsOf appends samples to one series and returns all of its chunks, the open one last.
func cutsOf(t *testing.T, cutting Cutting, do func(a *filler, s *Series)) (cuts []chunkOf) {
	d := NewDirectory(cutting)
	s, err := restore(d, 1, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	a := filler{cutting: cutting, limit: NoTime}
	a.pieces.arena = d.chunkBytes
	a.onFull = func(f fullChunk) chunks.Ref {
		cuts = append(cuts, chunkOf{f.minT, f.maxT, f.num, string(f.appendTo(nil, d.chunkBytes))})
		f.bytes.drop(&a.pieces)
		return 0
	}
	do(&a, s)
	if s.enc.Len() > 0 {
		a.closeChunk(s)
	}
	require.EqualValues(t, len(cuts), s.numMapped)
	return cuts
}

func TestAppendRun_CutsTheSameChunksAsAppend(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		cutting := Cutting{Range: 1 << (10 + r.IntN(14)), Samples: []int{4, 5, 40, 120, 1000}[r.IntN(5)]}
		step := int64(1) << r.IntN(20)
		samples := make([]xorchunk.Sample, 3000)
		at := int64(r.Uint64()) >> (8 + r.IntN(50))
		for i := range samples {
			at += 1 + r.Int64N(step)
			if r.IntN(500) == 0 {
				at += r.Int64N(1 << 30)
			}
			v := 1.0
			switch round % 3 {
			case 0:
				v = math.Float64frombits(r.Uint64()) // chunks are cut by their length
			case 1:
				v = float64(r.IntN(1000))
			}
			samples[i] = xorchunk.Sample{T: at, V: v}
		}
		want := cutsOf(t, cutting, func(a *filler, s *Series) {
			for _, x := range samples {
				a.append(s, x.T, x.V)
			}
		})
		got := cutsOf(t, cutting, func(a *filler, s *Series) {
			buf := make([]byte, runCap)
			for rest := samples; len(rest) > 0; {
				n := min(1+r.IntN(1+r.IntN(400)), len(rest)) // of one sample, too
				a.appendRun(s, rest[:n], buf)
				rest = rest[n:]
			}
		})
		require.Greater(t, len(want), 1)
		require.Equal(t, want, got, "%+v", cutting)
	}
}

func TestAppendRun_TheEndOfTime(t *testing.T) {
	last := []xorchunk.Sample{{T: math.MaxInt64 - 2}, {T: math.MaxInt64 - 1}, {T: math.MaxInt64}}
	cutting := Cutting{Range: 1000, Samples: 120}
	one := cutsOf(t, cutting, func(a *filler, s *Series) {
		for _, x := range last {
			a.append(s, x.T, x.V)
		}
	})
	run := cutsOf(t, cutting, func(a *filler, s *Series) { a.appendRun(s, last, make([]byte, runCap)) })
	require.Equal(t, one, run)
}

// Many chunks are closed at once, and each is what its samples say, whoever had its pieces
// before.
func TestRestorer_PiecesGoFromChunkToChunk(t *testing.T) {
	const series, rounds = 100, 9
	d := NewDirectory(defaultCutting)
	r := NewRestoration(d).NewRestorer()
	for ref := range uint64(series) {
		_, err := restore(d, ref+1, labels.FromStrings("a", fmt.Sprint(ref)))
		require.NoError(t, err)
	}
	value := func(ref uint64, at int64) float64 { return float64(ref) + math.Sqrt(float64(at)) }
	seen := 0
	for round := range int64(rounds) {
		var runs []Run
		for ref := range uint64(series) {
			run := Run{Ref: ref + 1}
			for i := range int64(100) {
				at := (100*round + i) * 1000
				run.Samples = append(run.Samples, xorchunk.Sample{T: at, V: value(run.Ref, at)})
			}
			if runs = append(runs, run); len(runs) == GroupLen || run.Ref == series {
				r.Append(runs, 1)
				runs = runs[:0]
			}
		}
		fulls := r.TakeFull(nil, math.MaxUint64, 0, math.MaxInt)
		d.Shelf.AppendData(make([]byte, 0, 1<<20), fulls)
		for _, f := range fulls {
			requireChunk(t, f, value)
		}
		seen += len(fulls)
		r.Written(fulls, make([]chunks.Ref, len(fulls)))
	}
	require.EqualValues(t, series*rounds*100, r.Samples)
	require.Equal(t, series*7, seen)
	taken := d.chunkBytes.sizeBytes()
	r.Close()
	require.Less(t, taken, int64(2<<20), "pieces are used again")
	free := 0
	for n := d.Shards.all[0].mu.pieces.free; n != 0; n = d.chunkBytes.at(n).next {
		free++
	}
	open := 0
	for s := range d.All() {
		open += (int(s.bytes.size) + piecePayload - 1) / piecePayload
	}
	require.EqualValues(t, d.chunkBytes.mu.next-1, free+open, "no piece is lost")
}

func requireChunk(t *testing.T, f Full, value func(ref uint64, at int64) float64) {
	var dec xorchunk.Decoder
	require.NoError(t, dec.Reset(f.Data))
	n := dec.Left()
	require.EqualValues(t, f.Num, n)
	ts, vs := make([]int64, n), make([]float64, n)
	_, err := dec.Decode(ts, vs)
	require.NoError(t, err)
	require.Equal(t, f.MinT, ts[0])
	require.Equal(t, f.MaxT, ts[n-1])
	for i := range ts {
		require.Equal(t, value(f.Series.Ref(), ts[i]), vs[i])
	}
}
