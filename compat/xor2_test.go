package compat

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage"
	theirremote "github.com/prometheus/prometheus/storage/remote"
	reference "github.com/prometheus/prometheus/tsdb"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/remote"
)

// secondEncoding makes the reference write its second encoding of floats, and start
// timestamps to the log.
func secondEncoding(o *reference.Options) {
	o.FloatChunkEncoding, o.EnableSTStorage = theirenc.EncXOR2, true
}

// openTheirXOR2 is the opener of the reference that writes such chunks.
func openTheirXOR2(t testing.TB, dir string) blockEngine {
	t.Helper()
	return openTheirs(t, dir, theirBlockOptions, secondEncoding)
}

// What the reference writes with its second encoding of floats is read, by everyone, as
// what it writes with the first one.
func TestXOR2_ScenesOfTheReference_AreReadByAll(t *testing.T) {
	for i, s := range scenes() {
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openTheirXOR2, plan{Seed: seed(t, 9300+uint64(i)), Series: 40})
			s.play(w)
			w.check("in the end")
			w.e.close()
			requireAllRead(t, 1, left{dir: w.dir, want: w.want})
		})
	}
}

// Both work in turns on one directory, the reference with the second encoding.
func TestXOR2_ThereAndBack(t *testing.T) {
	for i := range scaled(10) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			runRelay(t, i, 9330, secondEncoding)
		})
	}
}

// startedPoint is a sample with its start timestamp.
type startedPoint struct {
	point
	ST int64
}

// appendStarted appends to two series whose samples have start timestamps.
func (r *theirs) appendStarted(from int64, samples int) {
	r.t.Helper()
	set := []series{newSeries("__name__", "counter"), newSeries("__name__", "delta")}
	for k := range int64(samples) {
		at := from + k*minute
		app := r.db.AppenderV2(context.Background())
		_, err := app.Append(0, set[0].theirs, at-at%hour-1, at, float64(k), nil, nil, storage.AppendV2Options{})
		require.NoError(r.t, err)
		_, err = app.Append(0, set[1].theirs, at-minute, at, float64(k%7), nil, nil, storage.AppendV2Options{})
		require.NoError(r.t, err)
		require.NoError(r.t, app.Commit())
	}
}

// dumpStarted reads everything with the reference.
func (r *theirs) dumpStarted() map[string][]startedPoint {
	r.t.Helper()
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, q.Close()) }()
	all := map[string][]startedPoint{}
	set := q.Select(context.Background(), true, nil, theirMatchers(r.t, []matcher{everything})...)
	for set.Next() {
		it := set.At().Iterator(nil)
		key := keyOfTheirs(set.At().Labels())
		for it.Next() != theirenc.ValNone {
			ts, v := it.At()
			all[key] = append(all[key], startedPoint{point{ts, math.Float64bits(v)}, it.AtST()})
		}
		require.NoError(r.t, it.Err())
	}
	require.NoError(r.t, set.Err())
	return all
}

// dumpStarted reads everything with ours.
func (o *ours) dumpStarted() map[string][]startedPoint {
	o.t.Helper()
	q, err := o.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(o.t, err)
	defer func() { require.NoError(o.t, q.Close()) }()
	all := map[string][]startedPoint{}
	for s, err := range q.Select(context.Background(), nil).All() {
		require.NoError(o.t, err)
		it := s.Iterator(nil)
		key := keyOfOurs(s.Labels())
		for it.Next() != chunkenc.ValNone {
			ts, v := it.At()
			all[key] = append(all[key], startedPoint{point{ts, math.Float64bits(v)}, it.AtST()})
		}
		require.NoError(o.t, it.Err())
	}
	return all
}

// Start timestamps of blocks are still there after we have merged, deleted and cleaned, and
// the reference reads them then.
func TestXOR2_StartTimestampsOfBlocks_Stay(t *testing.T) {
	t.Parallel()
	r := openTheirs(t, t.TempDir(), theirBlockOptions, secondEncoding)
	r.appendStarted(worldStart, 11*60)
	r.flush()
	want := r.dumpStarted()
	require.Len(t, want, 2)
	for _, ps := range want {
		require.Len(t, ps, 11*60)
		require.NotZero(t, ps[0].ST)
	}
	dir := r.db.Dir()
	r.close()

	o := openOurs(t, dir, ourBlockOptions)
	require.Equal(t, want, o.dumpStarted())
	mint, maxt := worldStart+3*hour+10*minute+1, worldStart+4*hour+30*minute
	o.delete(mint, maxt, everything)
	for key, ps := range want {
		want[key] = append(ps[:191:191], ps[4*60+31:]...)
	}
	require.Equal(t, want, o.dumpStarted())
	o.cleanTombstones()
	blocks := len(o.db.Blocks())
	o.compact()
	require.Less(t, len(o.db.Blocks()), blocks)
	require.Equal(t, want, o.dumpStarted())
	o.close()

	r = openTheirs(t, dir, theirBlockOptions)
	require.Equal(t, want, r.dumpStarted())
	r.requireUndamaged()
}

// Start timestamps of the head are read, go into our blocks, and the reference gets them back.
func TestXOR2_StartTimestampsOfTheHead_Stay(t *testing.T) {
	t.Parallel()
	r := openTheirs(t, t.TempDir(), theirBlockOptions, secondEncoding)
	r.appendStarted(worldStart, 100)
	want := r.dumpStarted()
	dir := r.db.Dir()
	r.close()

	o := openOurs(t, copyDir(t, dir), ourBlockOptions)
	o.requireClean()
	require.Equal(t, want, o.dumpStarted())
	o.appendStarted(worldStart+100*minute, 200, want)
	require.Equal(t, want, o.dumpStarted())
	back := o.db.Dir()
	o.close()
	r = openTheirs(t, copyDir(t, back), theirBlockOptions, secondEncoding)
	require.Equal(t, want, r.dumpStarted())
	r.requireUndamaged()
	r.close()

	o = openOurs(t, back, ourBlockOptions)
	require.Equal(t, want, o.dumpStarted())
	o.flush()
	require.Equal(t, want, o.dumpStarted())
	o.close()
	r = openTheirs(t, back, theirBlockOptions)
	require.Equal(t, want, r.dumpStarted())
	r.requireUndamaged()
}

// appendStarted appends to the two series of theirs, and to what is wanted of them.
func (o *ours) appendStarted(from int64, samples int, want map[string][]startedPoint) {
	o.t.Helper()
	set := []series{newSeries("__name__", "counter"), newSeries("__name__", "delta")}
	for k := range int64(samples) {
		at := from + k*minute
		app := o.db.Appender()
		for i, st := range []int64{at - at%hour - 1, at - minute} {
			_, err := app.AppendSample(0, set[i].ours, tsdb.Sample{T: at, ST: st, V: float64(k)})
			require.NoError(o.t, err)
			key := keyOfOurs(set[i].ours)
			want[key] = append(want[key], startedPoint{point{at, math.Float64bits(float64(k))}, st})
		}
		_, err := app.Commit(context.Background())
		require.NoError(o.t, err)
	}
}

// streamedTypes asks for everything in frames and counts the types of chunks.
func streamedTypes(t testing.TB, h http.Handler) map[prompb.Chunk_Encoding]int {
	t.Helper()
	req := &prompb.ReadRequest{
		Queries: []*prompb.Query{{StartTimestampMs: math.MinInt64, EndTimestampMs: math.MaxInt64,
			Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".*"}}}},
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
	}
	body, err := req.Marshal()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(snappy.Encode(nil, body))))
	require.Equal(t, http.StatusOK, w.Code)
	types := map[prompb.Chunk_Encoding]int{}
	frames := theirremote.NewChunkedReader(w.Body, 1<<30, nil)
	for {
		var res prompb.ChunkedReadResponse
		if frames.NextProto(&res) != nil {
			return types
		}
		for _, s := range res.ChunkedSeries {
			for _, c := range s.Chunks {
				types[c.Type]++
			}
		}
	}
}

// Both servers answer both clients of blocks with the second encoding, ours as it is stored
// or transcoded.
func TestXOR2_RemoteRead_Agrees(t *testing.T) {
	w := remoteWorld(t, openTheirXOR2, 9340)
	w.e.flush()
	dir := w.dir
	w.e.close()
	e := openOurBlocks(t, copyDir(t, dir))
	db := e.(*ours).db
	servers := map[string]http.Handler{
		"our server":             remote.ReadHandler(db, nil),
		"our server, transcoded": remote.ReadHandler(db, &remote.ReadOptions{NoStartTimestamps: true}),
		"their server":           theirHandler(t, openTheirXOR2(t, dir)),
	}
	for server, h := range servers {
		types := streamedTypes(t, h)
		require.Equal(t, server == "our server, transcoded", types[prompb.Chunk_XOR2] == 0, "%s: %v", server, types)
		s := httptest.NewServer(h)
		defer s.Close()
		for client, read := range remotePeers() {
			for _, streamed := range []bool{true, false} {
				for _, c := range remoteSelections {
					want := e.query(c.mint, c.maxt, c.ms...).changed(point.wire)
					requireEqual(t, want, read(t, s.URL, streamed, c.mint, c.maxt, c.ms...).changed(point.wire), server+", "+client+", "+c.name)
				}
			}
		}
	}
	requireEqual(t, w.want, e.dump(), "what was compared to")
}
