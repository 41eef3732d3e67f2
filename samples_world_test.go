package tsdb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// samplesWorld is a small database, drawn at random, and what is in it: blocks that may overlap, of
// short chunks with gaps between and in them, a head behind them, deletes in all of it. The value
// of each sample is its time, so that it does not matter which of two places it is read from.
type samplesWorld struct {
	db   *tsdb.DB
	opts *tsdb.Options
	want map[string]map[int64]bool // by labels
}

const (
	worldSeries = 5
	worldBlock  = 100 // milliseconds that a block is long
	worldEnd    = 3 * worldBlock
)

// worldLabels gives the first three series a name of their own, and all a common one.
func worldLabels(i int) labels.Labels {
	if i < 3 {
		return labels.FromStrings("all", "x", "n", fmt.Sprint(i), fmt.Sprintf("own%d", i), "y")
	}
	return labels.FromStrings("all", "x", "n", fmt.Sprint(i))
}

func drawWorld(t *testing.T, rt *rapid.T) *samplesWorld {
	m := newMergeTest(t)
	w := &samplesWorld{want: map[string]map[int64]bool{}}
	blocks := rapid.IntRange(0, 3).Draw(rt, "blocks")
	for range blocks {
		from := int64(rapid.IntRange(0, 1).Draw(rt, "window") * worldBlock)
		var all []blockSeries
		for i := range worldSeries {
			if cs := w.drawChunks(rt, i, from); len(cs) > 0 {
				all = append(all, blockSeries{Labels: worldLabels(i), Chunks: cs})
			}
		}
		if len(all) > 0 {
			m.block(from, from+worldBlock, all...)
		}
	}
	opts := &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}, Head: tsdb.HeadOptions{SamplesPerChunk: 16}}
	db, err := tsdb.Open("data", opts)
	require.NoError(rt, err)
	rt.Cleanup(func() { require.NoError(rt, db.Close()) })
	w.db, w.opts = db, opts
	w.drawHead(rt)
	if rapid.Bool().Draw(rt, "head chunks in files") {
		require.NoError(rt, tsdb.WriteHeadChunks(db))
	}
	w.drawDeletes(rt)
	return w
}

// drawChunks draws what a block has of a series: chunks of one to six samples.
func (w *samplesWorld) drawChunks(rt *rapid.T, i int, from int64) (cs []blockdir.Chunk) {
	at := from
	for range rapid.IntRange(0, 3).Draw(rt, "chunks") {
		var tv []float64
		for range rapid.IntRange(1, 6).Draw(rt, "samples") {
			if at += int64(rapid.IntRange(1, 12).Draw(rt, "step")); at >= from+worldBlock {
				break
			}
			tv = append(tv, float64(at), float64(at))
			w.add(i, at)
		}
		if len(tv) > 0 {
			cs = append(cs, floats(tv...))
		}
	}
	return cs
}

func (w *samplesWorld) add(i int, at int64) {
	key := worldLabels(i).String()
	if w.want[key] == nil {
		w.want[key] = map[int64]bool{}
	}
	w.want[key][at] = true
}

// drawHead draws the head: of some series more than one chunk.
func (w *samplesWorld) drawHead(rt *rapid.T) {
	app := w.db.Appender()
	for i := range worldSeries {
		at := int64(2 * worldBlock)
		for range rapid.SampledFrom([]int{0, 0, 1, 3, 40}).Draw(rt, "head samples") {
			if at += int64(rapid.IntRange(1, 4).Draw(rt, "step")); at >= worldEnd {
				break
			}
			_, err := app.Append(0, worldLabels(i), at, float64(at))
			require.NoError(rt, err)
			w.add(i, at)
		}
	}
	_, err := app.Commit(context.Background())
	require.NoError(rt, err)
}

func (w *samplesWorld) drawDeletes(rt *rapid.T) {
	for range rapid.IntRange(0, 4).Draw(rt, "deletes") {
		mint, maxt := drawRange(rt)
		i := rapid.IntRange(0, worldSeries-1).Draw(rt, "of")
		require.NoError(rt, w.db.Delete(context.Background(), mint, maxt, labels.Equal("n", fmt.Sprint(i))))
		maps.DeleteFunc(w.want[worldLabels(i).String()], func(at int64, _ bool) bool { return mint <= at && at <= maxt })
	}
}

// drawRange draws a closed range: a narrow one, or any.
func drawRange(rt *rapid.T) (mint, maxt int64) {
	mint = rapid.Int64Range(-5, worldEnd+5).Draw(rt, "mint")
	if rapid.Bool().Draw(rt, "narrow") {
		return mint, mint + rapid.Int64Range(0, 8).Draw(rt, "length")
	}
	return mint, rapid.Int64Range(mint, worldEnd+5).Draw(rt, "maxt")
}

// samples returns what a range has of each series, in the order of times; no series has none.
func (w *samplesWorld) samples(mint, maxt int64) map[string][]itertest.Sample {
	all := map[string][]itertest.Sample{}
	for key, times := range w.want {
		for _, at := range slices.Sorted(maps.Keys(times)) {
			if mint <= at && at <= maxt {
				all[key] = append(all[key], itertest.Sample{T: at, V: float64(at)})
			}
		}
	}
	return all
}
