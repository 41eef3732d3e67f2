package remote

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// An answer that lacks its last frame ends like any other, so only a whole answer, compared
// with what was appended, shows that nothing is missing: at every number of series up to some,
// and where a frame or a piece of the answer is just full.

// countedSeries is the most series of an answer here.
const countedSeries = 70

// counted is what was appended: series by number, each with values that do not compress.
type counted []sampled

func newCounted(samplesOf func(series int) int) (c counted) {
	rng := rand.New(rand.NewPCG(28, 1))
	for i := range countedSeries {
		s := sampled{labels: []labels.Label{{Name: "__name__", Value: "counted"}, {Name: "n", Value: fmt.Sprintf("%02d", i)}}}
		for k := range samplesOf(i) {
			s.ts = append(s.ts, fixtureStart+int64(k)*fixtureStep)
			s.bits = append(s.bits, math.Float64bits(rng.Float64()))
		}
		c = append(c, s)
	}
	return c
}

// open returns a database that has the first samples of each series, up to cut of them, in
// blocks, and the rest in its head.
func (c counted) open(t *testing.T, cut int) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{
		Blocks: tsdb.BlockOptions{Manual: true},
		WAL:    tsdb.WALOptions{Sync: tsdb.SyncNever()},
		Limits: tsdb.Limits{LabelValueBytes: -1, LabelSetBytes: -1},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	part := func(from, to int) {
		app := db.Appender()
		for _, s := range c {
			for k := from; k < min(to, len(s.ts)); k++ {
				if _, err := app.Append(0, labels.New(s.labels...), s.ts[k], math.Float64frombits(s.bits[k])); err != nil {
					require.NoError(t, err)
				}
			}
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
	}
	part(0, cut)
	require.NoError(t, db.Flush(context.Background()))
	part(cut, math.MaxInt)
	return db
}

// first is a matcher of the first n series.
func first(n int) matcher {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%02d", i))
	}
	return matcher{typ: 2, name: "n", value: strings.Join(names, "|")}
}

func TestAnswers_AreWholeAtEveryNumberOfSeries(t *testing.T) {
	for name, of := range map[string]struct{ samples, inBlocks int }{
		"head":   {10, 0},
		"blocks": {10, 10},
		"both":   {200, 100},
	} {
		c := newCounted(func(i int) int { return of.samples - i%3 })
		h := ReadHandler(c.open(t, of.inBlocks), nil)
		for n := 1; n <= countedSeries; n++ {
			for _, typ := range []responseType{typeSamples, typeChunks} {
				q := query{start: math.MinInt64, end: math.MaxInt64, matchers: []matcher{first(n)}}
				got := answerOf(t, h, typ, q)
				require.Len(t, got, n, "%s, type %v", name, typ)
				require.Equal(t, []sampled(c[:n]), got, "%s, %d series, type %v", name, n, typ)
			}
		}
	}
}

func TestSelect_IsWholeAtEveryNumberOfSeries(t *testing.T) {
	c := newCounted(func(i int) int { return 1 + i%40 })
	h := ReadHandler(c.open(t, 20), nil)
	for _, mode := range []Mode{ModeStreamed, ModeSamples} {
		client := clientOf(t, h, &ReadClientOptions{Mode: mode})
		for n := 1; n <= countedSeries; n++ {
			m, err := labels.Regexp("n", first(n).value)
			require.NoError(t, err)
			var want []series
			for _, s := range c[:n] {
				one := series{labels: labels.New(s.labels...).String()}
				for k, at := range s.ts {
					one.samples = append(one.samples, sample{at, s.bits[k]})
				}
				want = append(want, one)
			}
			got := collect(t, client.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, m))
			require.Equal(t, want, got, "%d series, mode %v", n, mode)
		}
	}
}

// A frame that is complete at each of its bytes, and so after each of its chunks, lacks none.
func TestAnswers_AreWholeWhereverAFrameIsFull(t *testing.T) {
	c := newCounted(func(i int) int { return []int{1, 119, 120, 121, 360, 365}[i%6] })[:6]
	db := c.open(t, 118)
	q := query{start: math.MinInt64, end: math.MaxInt64}
	one := post(ReadHandler(db, nil), appendReadRequest(nil, &readRequest{queries: []query{q}, accepted: []responseType{typeChunks}}))
	frames := map[int]bool{}
	for limit := 1; limit < one.Body.Len(); limit += 7 {
		h := ReadHandler(db, &ReadOptions{FrameBytes: limit})
		w := post(h, appendReadRequest(nil, &readRequest{queries: []query{q}, accepted: []responseType{typeChunks}}))
		require.Equal(t, []sampled(c), samplesOfFrames(t, w.Body.Bytes(), 0), "limit %d", limit)
		n := 0
		for body := w.Body.Bytes(); len(body) > 0; n++ {
			_, body = cutFrame(t, body)
		}
		frames[n] = true
	}
	require.Greater(t, len(frames), 4, "frames are cut at different chunks")
}

// An answer whose frames end just before, at and behind the end of a piece lacks none.
func TestAnswers_AreWholeWhereAPieceIsFull(t *testing.T) {
	c := newCounted(func(int) int { return 840 })
	db := c.open(t, 0)
	h := ReadHandler(db, nil)
	answer := func(n int, more string) (int, []sampled) {
		q := query{start: math.MinInt64, end: math.MaxInt64, matchers: []matcher{{typ: 2, name: "n", value: first(n).value + "|" + more}}}
		w := post(h, appendReadRequest(nil, &readRequest{queries: []query{q}, accepted: []responseType{typeChunks}}))
		return w.Body.Len(), samplesOfFrames(t, w.Body.Bytes(), 0)
	}
	n := countedSeries
	size, _ := answer(n, "none")
	for size >= framesPiece-200 { // as many as leave room for one more series, which fills the piece
		n--
		size, _ = answer(n, "none")
	}
	sizes := map[int]bool{}
	for i := range 100 { // with labels that get shorter by a byte
		more := sampled{ts: []int64{fixtureStart}, bits: []uint64{math.Float64bits(1)}}
		more.labels = []labels.Label{
			{Name: "__name__", Value: "counted"}, {Name: "n", Value: fmt.Sprintf("p%02d", i)},
			{Name: "pad", Value: strings.Repeat("p", framesPiece-size-i)},
		}
		app := db.Appender()
		_, err := app.Append(0, labels.New(more.labels...), more.ts[0], 1)
		require.NoError(t, err)
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
		got, result := answer(n, more.labels[1].Value)
		require.Equal(t, append(append([]sampled(nil), c[:n]...), more), result, "%d bytes", got)
		sizes[got-framesPiece] = true
	}
	for d := -1; d <= 1; d++ {
		require.True(t, sizes[d], "an answer that is %d bytes longer than a piece", d)
	}
}
