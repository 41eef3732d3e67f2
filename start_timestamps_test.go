package tsdb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Blocks of others may have chunks of the second encoding of floats, and samples with
// start timestamps in them.

// started is a sample as it was read, with its start timestamp.
type started struct {
	T, ST int64
	V     uint64
}

// startedChunk encodes samples: as XOR if xor is set, which wants them without start
// timestamps.
func startedChunk(t testing.TB, xor bool, samples []started) blockdir.Chunk {
	t.Helper()
	last := samples[len(samples)-1]
	c := blockdir.Chunk{MinT: samples[0].T, MaxT: last.T, Num: len(samples), Encoding: chunkenc.EncXOR2}
	var first xorchunk.Encoder
	var second xorchunk.Encoder2
	for _, s := range samples {
		if xor {
			require.Zero(t, s.ST)
			require.NoError(t, first.Append(s.T, math.Float64frombits(s.V)))
		} else {
			require.NoError(t, second.Append(s.T, math.Float64frombits(s.V), s.ST))
		}
	}
	c.Data = second.AppendTo(nil)
	if xor {
		c.Encoding, c.Data = chunkenc.EncXOR, first.AppendTo(nil)
	}
	return c
}

// startedBlocks makes one to three blocks in dir that overlap, of both encodings, with
// deletes, and returns what they have, by series. No time is in two blocks.
func startedBlocks(m *mergeTest, r *rand.Rand) map[string][]started {
	all := map[string][]started{}
	for n := range int64(1 + r.IntN(3)) {
		base := 3 * int64(r.IntN(1000))
		var series []blockSeries
		of := map[string][]started{}
		for i := range 4 {
			s := only(m, fmt.Sprintf(`{s="%d"}`, i))
			next := base + n
			for range 1 + r.IntN(4) {
				samples, xor := drawStarted(r, next)
				next = samples[len(samples)-1].T + 3*int64(1+r.IntN(50))
				s.Chunks = append(s.Chunks, startedChunk(m, xor, samples))
				of[s.Labels.String()] = append(of[s.Labels.String()], samples...)
			}
			series = append(series, s)
		}
		d := m.block(base, base+100_000, series...)
		if r.IntN(2) == 0 {
			gone := tombstones.Interval{Mint: base + int64(r.IntN(500)), Maxt: base + 500 + int64(r.IntN(1000))}
			remove(m, d, `{s=~"1|2"}`, gone.Mint, gone.Maxt)
			for _, key := range []string{`{s="1"}`, `{s="2"}`} {
				of[key] = slices.DeleteFunc(of[key], func(s started) bool { return gone.Contains(s.T) })
			}
		}
		for key, samples := range of {
			all[key] = append(all[key], samples...)
		}
	}
	for key := range all {
		slices.SortFunc(all[key], func(a, b started) int { return int(a.T - b.T) })
	}
	return all
}

// drawStarted makes the samples of a chunk from a time on, three milliseconds apart or
// more. xor: none has a start timestamp.
func drawStarted(r *rand.Rand, at int64) (samples []started, xor bool) {
	xor = r.IntN(3) == 0
	from := r.IntN(200) // the first one with a start timestamp; maybe none
	st := at - 10
	for i := range []int{1, 2, 30, 119, 120, 121, 200}[r.IntN(7)] {
		s := started{T: at, V: math.Float64bits(float64(at))}
		if r.IntN(20) == 0 {
			s.V = 0x7ff0000000000002 // a stale marker
			st = at
		}
		if !xor && i >= from {
			s.ST = st
		}
		samples = append(samples, s)
		at += 3 * int64(1+r.IntN(2)*r.IntN(20))
	}
	return samples, xor
}

// startedReaders read all of an iterator in different ways.
var startedReaders = map[string]func(it chunkenc.Iterator) []started{
	"one by one": func(it chunkenc.Iterator) (all []started) {
		for it.Next() != chunkenc.ValNone {
			t, v := it.At()
			all = append(all, started{t, it.AtST(), math.Float64bits(v)})
		}
		return all
	},
	"seeking": func(it chunkenc.Iterator) (all []started) {
		for it.Seek(math.MinInt64) != chunkenc.ValNone {
			t, v := it.At()
			all = append(all, started{t, it.AtST(), math.Float64bits(v)})
			if t == math.MaxInt64 || it.Seek(t+1) == chunkenc.ValNone {
				break
			}
		}
		return all
	},
	"in batches": func(it chunkenc.Iterator) (all []started) {
		for b := chunkenc.NewBatch(50); it.NextBatch(b) != chunkenc.ValNone; {
			for i, t := range b.T {
				all = append(all, started{t, b.StartOf(i), math.Float64bits(b.V[i])})
			}
		}
		return all
	},
	"in batches after the first ones": func(it chunkenc.Iterator) (all []started) {
		for range 7 {
			if it.Next() == chunkenc.ValNone {
				return all
			}
			t, v := it.At()
			all = append(all, started{t, it.AtST(), math.Float64bits(v)})
		}
		for b := chunkenc.NewBatch(50); it.NextBatch(b) != chunkenc.ValNone; {
			for i, t := range b.T {
				all = append(all, started{t, b.StartOf(i), math.Float64bits(b.V[i])})
			}
		}
		return all
	},
}

// requireStarted compares what all readers find in a range.
func requireStarted(t testing.TB, db *tsdb.DB, want map[string][]started, mint, maxt int64) {
	t.Helper()
	q, err := db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	inside := func(key string) (in []started) {
		for _, s := range want[key] {
			if mint <= s.T && s.T <= maxt {
				in = append(in, s)
			}
		}
		return in
	}
	seen := map[string]bool{}
	for s, err := range q.Select(context.Background(), nil).All() {
		require.NoError(t, err)
		for how, read := range startedReaders {
			it := s.Iterator(nil)
			require.Equal(t, inside(s.Labels().String()), read(it), "%s from %d to %d %s", s.Labels(), mint, maxt, how)
			require.NoError(t, it.Err())
		}
		seen[s.Labels().String()] = true
	}
	for s, err := range q.SelectChunks(context.Background(), nil).All() {
		require.NoError(t, err)
		var got []started
		it := s.Chunks(nil)
		for it.Next() {
			c := it.At().Chunk
			got = append(got, startedReaders["one by one"](c.Iterator(nil))...)
		}
		require.NoError(t, it.Err())
		require.Equal(t, inside(s.Labels().String()), got, "%s from %d to %d in chunks", s.Labels(), mint, maxt)
	}
	for key := range want {
		require.True(t, seen[key] || len(inside(key)) == 0, "%s is missing", key)
	}
}

// Every reader of blocks, and of what they are merged to, finds each sample with its
// start timestamp: in chunks as they are stored, cut by a range or a delete, and merged
// with others.
func TestStartTimestamps_OfBlocks_AreRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(fewer(40, 12)) {
		r := rand.New(rand.NewPCG(seed, 4))
		m := newMergeTest(t)
		want := startedBlocks(m, r)
		db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
		require.NoError(t, err)
		check := func() {
			t.Helper()
			requireStarted(t, db, want, math.MinInt64, math.MaxInt64)
			for range 10 {
				mint := int64(r.IntN(5000))
				requireStarted(t, db, want, mint, mint+int64(r.IntN(2000)))
			}
		}
		check()
		require.NoError(t, db.CleanTombstones(t.Context()))
		require.NoError(t, db.Compact(t.Context()))
		check()
		require.NoError(t, db.Close())
		report, err := tsdb.Verify(t.Context(), "data", &tsdb.VerifyOptions{FS: m.fs})
		require.NoError(t, err)
		require.Empty(t, report.Findings)
	}
}

// Chunks of the second encoding pass through a merge as they are. What has to be encoded
// again becomes XOR, unless a sample has a start timestamp.
func TestMerge_SecondEncoding_PassesOrBecomesXOR(t *testing.T) {
	run := func(from int64, n int, st int64) (samples []started) {
		for i := range int64(n) {
			samples = append(samples, started{T: from + 2*i, ST: st, V: math.Float64bits(1)})
		}
		return samples
	}
	second := func(from int64, n int, st int64) blockdir.Chunk { return startedChunk(t, false, run(from, n, st)) }
	m := newMergeTest(t)
	whole := []blockdir.Chunk{second(0, 3, 0), second(10, 130, 5), second(400, 2, 0)}
	d := m.block(0, 5000,
		only(t, `{a="pass"}`, whole...),
		only(t, `{a="cut"}`, second(0, 100, 0), second(300, 100, 7)),
		only(t, `{a="overlap"}`, second(0, 50, 0)),
		only(t, `{a="overlap, started"}`, second(0, 50, 3)))
	m.block(0, 5000,
		only(t, `{a="overlap"}`, second(1, 50, 0)),
		only(t, `{a="overlap, started"}`, startedChunk(t, true, run(1, 50, 0))))
	remove(t, d, `{a="cut"}`, 10, 19)
	remove(t, d, `{a="cut"}`, 310, 319)
	got, r := m.merge()
	chunks := blockChunks(t, got)
	require.Equal(t, whole, chunks[`{a="pass"}`])
	encodings := func(key string) (encs []chunkenc.Encoding) {
		for _, c := range chunks[key] {
			encs = append(encs, c.Encoding)
		}
		return encs
	}
	require.Equal(t, []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncXOR2}, encodings(`{a="cut"}`))
	require.Equal(t, []chunkenc.Encoding{chunkenc.EncXOR}, encodings(`{a="overlap"}`))
	require.Equal(t, []chunkenc.Encoding{chunkenc.EncXOR2}, encodings(`{a="overlap, started"}`))
	require.Equal(t, r.Meta.Stats.NumSamples, r.Meta.Stats.NumFloatSamples)
	require.EqualValues(t, 3+130+2+95+95+100+100, r.Meta.Stats.NumSamples)
}

// samplesV2Record is a record of samples of one series with start timestamps.
func samplesV2Record(ref uint64, samples []started) []byte {
	b := []byte{byte(record.TypeSamplesV2)}
	for i, s := range samples {
		if i == 0 {
			b = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(b, int64(ref)), s.T), s.ST)
		} else {
			b = append(binary.AppendVarint(binary.AppendVarint(b, 0), s.T-samples[0].T), 2)
			b = binary.AppendVarint(b, s.ST-samples[0].ST)
		}
		b = binary.BigEndian.AppendUint64(b, s.V)
	}
	return b
}

// What another engine has in its log and in head-chunk files keeps its start timestamps, also in
// the blocks that it goes to.
func TestStartTimestamps_OfAForeignHead_AreKept(t *testing.T) {
	var all []started
	for i := range int64(100) {
		all = append(all, started{T: 1000 + 10*i, ST: 500 + i, V: math.Float64bits(float64(i % 7))})
	}
	f := withLog(t, [][]byte{seriesRecord(1, "a", "b"), samplesV2Record(1, all)})
	rep := f.db.OpenReport()
	require.True(t, rep.Clean())
	require.EqualValues(t, 100, rep.Samples)
	require.NoError(t, f.db.Close())

	head, err := chunks.OpenHead(f.fs, filepath.Join(fixtureDir, "chunks_head"), chunks.HeadOptions{})
	require.NoError(t, err)
	_, err = head.Load(func(chunks.HeadChunk) error { return nil })
	require.NoError(t, err)
	c := startedChunk(t, false, all[:60])
	_, err = head.Write([]chunks.Full{{Series: 1, MinT: c.MinT, MaxT: c.MaxT, Encoding: c.Encoding, Data: c.Data}})
	require.NoError(t, err)
	require.NoError(t, head.Close())

	f.opts.Blocks.Manual = true
	f.open()
	rep = f.db.OpenReport()
	require.True(t, rep.Clean())
	require.EqualValues(t, 60, rep.SamplesInChunks)
	require.EqualValues(t, 40, rep.Samples)
	want := map[string][]started{`{a="b"}`: slices.Clone(all)}
	check := func() {
		t.Helper()
		requireStarted(t, f.db, want, math.MinInt64, math.MaxInt64)
		requireStarted(t, f.db, want, 1100, 1700)
	}
	check()
	f.reopen()
	check()
	require.NoError(t, f.db.Delete(ctx, 1200, 1209))
	want[`{a="b"}`] = slices.Delete(want[`{a="b"}`], 20, 21)
	check()
	require.NoError(t, f.db.Flush(ctx))
	require.Len(t, f.db.Blocks(), 1)
	check()
	f.reopen()
	check()
}

// Of a damaged block everything else is saved, chunks of the second encoding as they are.
func TestStartTimestamps_OfADamagedBlock_AreSaved(t *testing.T) {
	m := newMergeTest(t)
	run := func(from int64) (samples []started) {
		for i := range int64(50) {
			samples = append(samples, started{T: from + i, ST: from - 1, V: math.Float64bits(float64(i))})
		}
		return samples
	}
	chunks := []blockdir.Chunk{startedChunk(t, false, run(100)), startedChunk(t, false, run(200)), startedChunk(t, false, run(300))}
	d := m.block(0, 1000, only(t, `{a="1"}`, chunks...))
	file := filepath.Join(d.Path(), "chunks", "000001")
	data, err := m.fs.ReadFile(file)
	require.NoError(t, err)
	at := bytes.Index(data, chunks[1].Data)
	require.Positive(t, at)
	data = bytes.Clone(data)
	data[at+20] ^= 1
	require.NoError(t, m.fs.WriteFile(file, data))

	opts := &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}}
	report, err := tsdb.Repair(ctx, "data", &tsdb.RepairOptions{Options: opts})
	require.NoError(t, err)
	require.Len(t, report.Blocks, 1)
	require.EqualValues(t, 1, report.Blocks[0].LostChunks)
	require.EqualValues(t, 50, report.Blocks[0].LostSamples)
	db, err := tsdb.Open("data", opts)
	require.NoError(t, err)
	requireStarted(t, db, map[string][]started{`{a="1"}`: append(run(100), run(300)...)}, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
}
