package remote

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// answerOf returns what a handler answers to one query, in samples, whatever the form.
func answerOf(t testing.TB, h http.Handler, typ responseType, q query) []sampled {
	t.Helper()
	w := post(h, appendReadRequest(nil, &readRequest{queries: []query{q}, accepted: []responseType{typ}}))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	if typ == typeSamples {
		response, err := snappy.Decode(nil, w.Body.Bytes())
		require.NoError(t, err)
		results := decodeResults(t, response)
		require.Len(t, results, 1)
		return results[0]
	}
	return samplesOfFrames(t, w.Body.Bytes(), 0)
}

// samplesOfFrames decodes the frames of a query; those of others come not in between.
func samplesOfFrames(t testing.TB, body []byte, queryIndex int64) (result []sampled) {
	t.Helper()
	for len(body) > 0 {
		data, rest := cutFrame(t, body)
		body = rest
		var f frame
		require.NoError(t, f.decode(data))
		if f.queryIndex != queryIndex {
			continue
		}
		require.Len(t, f.series, 1)
		s := f.series[0]
		if n := len(result); n == 0 || labels.Compare(labels.New(result[n-1].labels...), labels.New(s.labels...)) != 0 {
			result = append(result, sampled{labels: s.labels})
		}
		into := &result[len(result)-1]
		require.NotEmpty(t, s.chunks)
		for _, c := range s.chunks {
			chunk, err := chunkenc.FromData(chunkenc.Encoding(c.typ), c.data)
			require.NoError(t, err)
			it := chunk.Iterator(nil)
			from := len(into.ts)
			for it.Next() != chunkenc.ValNone {
				at, v := it.At()
				into.ts, into.bits = append(into.ts, at), append(into.bits, math.Float64bits(v))
			}
			require.NoError(t, it.Err())
			require.Equal(t, into.ts[from], c.mint)
			require.Equal(t, into.ts[len(into.ts)-1], c.maxt)
		}
	}
	return result
}

// selected is what the database itself says.
func selected(t testing.TB, db Queryable, mint, maxt int64, ms ...*labels.Matcher) (result []sampled) {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(context.Background(), nil, ms...)
	for set.Next() {
		var s sampled
		s.labels = set.At().AppendLabels(nil)
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			at, v := it.At()
			s.ts, s.bits = append(s.ts, at), append(s.bits, math.Float64bits(v))
		}
		require.NoError(t, it.Err())
		if len(s.ts) > 0 {
			result = append(result, s)
		}
	}
	require.NoError(t, set.Err())
	return result
}

func TestAnswers_AreWhatTheDatabaseSays(t *testing.T) {
	const series, samples = 20, 2000 // over eight hours, five blocks
	db := openBlocks(t, series, samples)
	app := db.Appender()
	for s := range series {
		ls := labels.FromStrings("__name__", "requests_total", "instance", "late", "n", string(rune('a'+s)))
		for i := range 300 {
			_, err := app.Append(0, ls, fixtureStart+int64(samples+i)*fixtureStep, fixtureValue(s, i))
			require.NoError(t, err)
		}
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
	err = db.Delete(context.Background(), fixtureStart+50*fixtureStep+1, fixtureStart+70*fixtureStep, labels.Equal("zone", "z1"))
	require.NoError(t, err)

	h := ReadHandler(db, nil)
	last := int64(fixtureStart + (samples+300-1)*fixtureStep)
	for _, r := range [][2]int64{
		{math.MinInt64, math.MaxInt64}, {fixtureStart, last}, {fixtureStart + 1, last - 1},
		{fixtureStart, fixtureStart}, {last, last}, {last + 1, math.MaxInt64},
		{fixtureStart + 60*fixtureStep, fixtureStart + 1000*fixtureStep + 7}, {0, fixtureStart - 1},
	} {
		for _, m := range []matcher{
			{name: "__name__", value: "requests_total"},
			{typ: 1, name: "zone", value: "z0"},
			{typ: 2, name: "instance", value: "host-1.*|late"},
			{typ: 3, name: "n", value: ".+"},
		} {
			compiled, err := compileMatchers(context.Background(), []matcher{m})
			require.NoError(t, err)
			want := selected(t, db, r[0], r[1], compiled...)
			for _, typ := range []responseType{typeSamples, typeChunks} {
				require.Equal(t, want, answerOf(t, h, typ, query{start: r[0], end: r[1], matchers: []matcher{m}}), "%v %v %v", typ, r, m)
			}
		}
	}
	require.Zero(t, db.Stats().QueriersOpen)
}

// openOne opens a database with one series, in the head. It was closed once, so that its
// full chunks are in files.
func openOne(t testing.TB, ts []int64, vs []float64) *tsdb.DB {
	t.Helper()
	opts := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}}
	db, err := tsdb.Open(t.TempDir(), opts)
	require.NoError(t, err)
	app := db.Appender()
	ls := labels.FromStrings("__name__", "one")
	var ref tsdb.SeriesRef
	for i, at := range ts {
		if ref, err = app.Append(ref, ls, at, vs[i]); err != nil {
			require.NoError(t, err) // not for each sample: it takes longer than the sample
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	db, err = tsdb.Open(db.Dir(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestAnswers_KeepEveryTimeAndBitOfAValue(t *testing.T) {
	vs := []float64{
		0, math.Copysign(0, -1), 1, -1, math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64,
		math.Float64frombits(0x7ff0000000000002), math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0xfff8000000000042), 0,
	}
	ts := []int64{math.MinInt64 + 1, -1 << 56, -1000, -1, 0, 1, 127, 128, 1<<35 - 1, 1 << 35, 1_700_000_000_000, 1_700_000_000_001}
	db := openOne(t, ts, vs)
	want := sampled{labels: []labels.Label{{Name: "__name__", Value: "one"}}, ts: ts}
	for _, v := range vs {
		want.bits = append(want.bits, math.Float64bits(v))
	}
	q := query{start: math.MinInt64, end: math.MaxInt64, matchers: []matcher{{name: "__name__", value: "one"}}}
	for _, typ := range []responseType{typeSamples, typeChunks} {
		require.Equal(t, []sampled{want}, answerOf(t, ReadHandler(db, nil), typ, q), typ)
	}
}

func TestAnswers_SeriesLongerThanAnyBuffer(t *testing.T) {
	const n = 200_000 // 4 MB as samples, more than 1 MiB of chunks
	ts, vs := make([]int64, n), make([]float64, n)
	for i := range ts {
		ts[i], vs[i] = fixtureStart+int64(i)*1000, math.Sqrt(float64(i))
	}
	db := openOne(t, ts, vs)
	want := selected(t, db, math.MinInt64, math.MaxInt64)
	require.Len(t, want[0].ts, n)
	q := query{start: math.MinInt64, end: math.MaxInt64}
	h := ReadHandler(db, nil)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		require.Equal(t, want, answerOf(t, h, typ, q), typ)
	}
	for limit, longest := range map[int]int{0: 1 << 20, 1: 2 << 10, 100_000: 102 << 10, 1 << 20: 1 << 20, 2 << 20: 2 << 20} {
		w := post(ReadHandler(db, &ReadOptions{FrameBytes: limit}), allOf(typeChunks, "one"))
		require.Equal(t, want, samplesOfFrames(t, w.Body.Bytes(), 0))
		most := 0
		for body := w.Body.Bytes(); len(body) > 0; {
			data, rest := cutFrame(t, body)
			most = max(most, len(data))
			body = rest
		}
		require.LessOrEqual(t, most, longest, "limit %d", limit)
		if limit != 1 && limit <= 1<<20 {
			require.Greater(t, most, longest*9/10, "limit %d: frames are filled", limit)
		}
	}
}

func TestSamples_AreOneBlockOfIndependentPieces(t *testing.T) {
	db := openBlocks(t, 50, 500)
	w := post(ReadHandler(db, nil), allOf(typeSamples, "requests_total"))
	whole, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	require.Greater(t, len(whole), 5*blockPiece)
	requireBlock(t, whole, w.Body.Bytes())
}

func TestHints_WithARangeGoBeforeTheRangeOfTheQuery(t *testing.T) {
	db := openVectorDB(t)
	h := ReadHandler(db, nil)
	q := up(typeSamples).queries[0]
	all := answerOf(t, h, typeSamples, q)
	require.Len(t, all[0].ts, 10)
	q.hints = &hints{step: 1000, function: "rate"}
	require.Equal(t, all, answerOf(t, h, typeSamples, q), "hints without a range")
	q.hints.start, q.hints.end = vectorStart+fixtureStep, vectorStart+2*fixtureStep
	for _, typ := range []responseType{typeSamples, typeChunks} {
		require.Equal(t, all[0].ts[1:3], answerOf(t, h, typ, q)[0].ts)
	}
}

func TestExternalLabels_AreMergedInOrderAndTheSeriesOwnWin(t *testing.T) {
	ext := external{{Name: "b", Value: "x"}, {Name: "d", Value: "x"}, {Name: "f", Value: "x"}}
	for _, test := range []struct{ own, want string }{
		{`{}`, `{b="x",d="x",f="x"}`},
		{`{a="1"}`, `{a="1",b="x",d="x",f="x"}`},
		{`{b="1"}`, `{b="1",d="x",f="x"}`},
		{`{c="1",e="1",g="1"}`, `{b="x",c="1",d="x",e="1",f="x",g="1"}`},
		{`{b="1",d="2",f="3"}`, `{b="1",d="2",f="3"}`},
		{`{f="1",g="1"}`, `{b="x",d="x",f="1",g="1"}`},
	} {
		require.Equal(t, parse(t, test.want), ext.merge(nil, parse(t, test.own)), test.own)
	}
	require.Equal(t, parse(t, `{a="1"}`), external(nil).merge(nil, parse(t, `{a="1"}`)))
}

// parse reads labels as a selector of equalities.
func parse(t *testing.T, text string) (ls []labels.Label) {
	t.Helper()
	if text == "{}" {
		return nil
	}
	ms, err := labels.ParseSelector(text)
	require.NoError(t, err)
	for _, m := range ms {
		ls = append(ls, labels.Label{Name: m.Name(), Value: m.Value()})
	}
	return ls
}

func TestExternalLabels_OnlyEqualityWithTheirValueIsStripped(t *testing.T) {
	ext := external{{Name: "region", Value: "eu"}}
	sent := []matcher{
		{name: "region", value: "eu"},
		{name: "region", value: "us"},
		{typ: 1, name: "region", value: "eu"},
		{typ: 2, name: "region", value: "eu"},
		{name: "job", value: "eu"},
	}
	want := append([]matcher(nil), sent...)
	want[0].value = ""
	require.Equal(t, want, ext.strip(sent))
	require.Equal(t, "eu", sent[0].value, "the request is not changed")
}

func TestMissingBlock_IsAWarningBehindTheAnswer(t *testing.T) {
	db := openBlocks(t, 3, 1000)
	blocks := db.Blocks()
	require.Greater(t, len(blocks), 1)
	dir := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, db.Snapshot(context.Background(), dir))
	index := filepath.Join(dir, blocks[0].ULID.String(), "index")
	require.NoError(t, os.Truncate(index, 100))
	damaged, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer damaged.Close()
	for _, typ := range []responseType{typeSamples, typeChunks} {
		for db, want := range map[*tsdb.DB][]string{db: nil, damaged: {tsdb.ErrMissing.Error()}} {
			server := httptest.NewServer(ReadHandler(db, nil))
			resp, err := http.Post(server.URL, "", bodyOf(allOf(typ, "requests_total")))
			require.NoError(t, err)
			_, err = resp.Body.Read(make([]byte, 1<<20))
			for err == nil {
				_, err = resp.Body.Read(make([]byte, 1<<20))
			}
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.Trailer.Values(warningTrailer), typ)
			server.Close()
		}
	}
}
