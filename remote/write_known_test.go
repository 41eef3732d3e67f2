package remote

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// What a cache says is what was put last, or nothing, and it stays within its bound.
func TestSeriesCache_SaysWhatWasPut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{-1, 0, 1 << 10, 64 << 10, 1 << 20}).Draw(t, "limit")
		c := newSeriesCache(limit)
		put := map[string]knownSeries{}
		for range rapid.IntRange(1, 2000).Draw(t, "steps") {
			key := fmt.Sprintf("%0*d", rapid.SampledFrom([]int{1, 10, 300}).Draw(t, "width"), rapid.IntRange(0, 500).Draw(t, "key"))
			hash, got := c.get([]byte(key))
			if got.ref != 0 {
				require.Equal(t, put[key], got)
			}
			if rapid.Bool().Draw(t, "put") {
				put[key] = knownSeries{tsdb.SeriesRef(rapid.Uint32Range(1, 9).Draw(t, "ref")), rapid.Uint32Range(0, 3).Draw(t, "meta")}
				c.put(hash, []byte(key), put[key])
				if limit == 1<<20 {
					_, got = c.get([]byte(key))
					require.Equal(t, put[key], got)
				}
			}
		}
		for i := range c.shards {
			s := &c.shards[i]
			for _, g := range []generation{s.mu.young, s.mu.old} {
				require.LessOrEqual(t, g.used*slotBytes+len(g.keys), max(c.limit, 0))
				require.LessOrEqual(t, 4*g.used, 3*len(g.slots))
			}
		}
	})
}

// What has no room in a cache takes that of nothing else.
func TestSeriesCache_ALongKeyForgetsNothing(t *testing.T) {
	c := newSeriesCache(knownShards * 2 * 2000)
	short, long := []byte("short"), bytes.Repeat([]byte("l"), 3000)
	hash, _ := c.get(short)
	c.put(hash, short, knownSeries{ref: 1})
	c.put(hash, long, knownSeries{ref: 2}) // in the shard of the other one
	_, got := c.get(short)
	require.Equal(t, knownSeries{ref: 1}, got)
	for range 2 {
		c.put(hash, long, knownSeries{ref: 2})
	}
	_, got = c.get(short)
	require.Equal(t, knownSeries{ref: 1}, got)
}

// A series that left the head has another ref when it comes back, and the cache has the old one.
func TestWrite_OfSeriesThatLeftTheHead(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		for step := range int64(4) {
			for k := range int64(3) { // the third one by what the cache has
				now := writeNewest + step*4*3600_000 + k
				requireWritten(t, send(h, v.contentType, v.encode(one("gone", at(now, float64(k))), one("other", at(now, 1)))), v.version, http.StatusNoContent, "/2/0/0")
			}
			require.NoError(t, db.Flush(context.Background()))
			newest := one("newest", at(writeNewest+(step+1)*4*3600_000-1, 1))
			requireWritten(t, send(h, v.contentType, v.encode(newest)), v.version, http.StatusNoContent, "/1/0/0")
			require.NoError(t, db.Flush(context.Background()))
			require.GreaterOrEqual(t, db.Stats().SeriesRemoved, uint64(2*(step+1)), "they left the head")
		}
		require.Len(t, storedSamples(t, db, "gone")[`{__name__="gone"}`], 12)
		require.Len(t, storedSamples(t, db, "other")[`{__name__="other"}`], 12)
	})
}

// The same labels in another order, or of the other version, are the same series.
func TestWrite_OneSeriesHoweverItIsSent(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	for _, cache := range []int{0, -1} {
		h := NewWriteHandler(db, &WriteOptions{Clock: clock, CacheBytes: cache})
		now := int64(writeNewest)
		if cache < 0 {
			now += 1000
		}
		for range 3 {
			for _, v := range writeEncoders {
				for _, pairs := range [][]string{
					{labels.MetricName, "m", "a", "1", "b", "2"},
					{"b", "2", "a", "1", labels.MetricName, "m"},
					{labels.MetricName, "m", "a", "1", "b", "2", "c", ""},
				} {
					now++
					requireWritten(t, send(h, v.contentType, v.encode(sentSeries{pairs: pairs, samples: []tsdb.Sample{at(now, 1)}})), v.version, http.StatusNoContent, "/1/0/0")
				}
			}
		}
	}
	got := storedSamples(t, db, "m")
	require.Equal(t, []string{`{__name__="m", a="1", b="2"}`}, sortedKeys(got))
	require.Len(t, got[`{__name__="m", a="1", b="2"}`], 36)
}

// stream is the messages of a sender whose series have one sample each, one message a time.
func stream(encode func(...sentSeries) []byte, series, messages int, start int64) (all [][]byte) {
	list := make([]sentSeries, series)
	for i := range list {
		list[i] = one("stream")
		list[i].pairs = append(list[i].pairs, "instance", fmt.Sprintf("host-%d:9100", i), "job", "node", "zone", "eu-west-1")
		list[i].meta = tsdb.Metadata{Type: tsdb.MetricCounter, Help: "Help.", Unit: "seconds"}
	}
	for m := range messages {
		for i := range list {
			list[i].samples = []tsdb.Sample{at(start+int64(m)*1000, float64(m*i))}
		}
		all = append(all, encode(list...))
	}
	return all
}

// underRace reports whether this is a build for the race detector.
func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// allocations is how many a call makes, over so many. Under the race detector pools forget now and
// then on purpose: there the fewest of a call count.
func allocations(calls int, f func()) float64 {
	if !underRace() {
		return testing.AllocsPerRun(calls, f)
	}
	fewest := math.Inf(1)
	for range calls / 2 { // each time one call goes before
		fewest = min(fewest, testing.AllocsPerRun(1, f))
	}
	return fewest
}

// Samples of series that are known take no memory: what a request takes does not depend on how
// many it has.
func TestWrite_OfKnownSeriesAllocatesNothingPerSample(t *testing.T) {
	for _, v := range writeEncoders {
		t.Run(v.name, func(t *testing.T) {
			db, clock := openForWrites(t, tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
			h := NewWriteHandler(db, &WriteOptions{Clock: clock})
			start := int64(writeNewest)
			per := func(series int) float64 {
				const runs = 100
				messages := stream(v.encode, series, runs+20, start)
				start += (runs + 20) * 1000
				q := &writeRequest{h: h}
				store := func() {
					q.content, messages = messages[0], messages[1:]
					if err := q.store(context.Background(), v.version, anyMemory()); err != nil || q.refused.n > 0 || q.written[itemSample] != series {
						t.Fatal(err, q.refused.n, q.written)
					}
				}
				for range 15 {
					store()
				}
				return allocations(runs, store)
			}
			few, many := per(10), per(2000)
			t.Logf("%v allocations for a request of 10 samples, %v of 2000", few, many)
			require.Less(t, (many-few)/1990, 0.005)
			require.Less(t, few, 10.0)
		})
	}
}
