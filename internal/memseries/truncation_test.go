package memseries

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/labels"
)

// chunkStore plays the head-chunk files: it has what was written, by ref.
type chunkStore struct {
	data map[chunks.Ref][]byte
}

// take collects full chunks as a writer would before it writes.
func (cs *chunkStore) take(d *Directory) []Full {
	fulls, _ := d.Shelf.Collect(nil, 0, math.MaxInt)
	return fulls
}

// write stores collected chunks and tells the directory.
func (cs *chunkStore) write(d *Directory, fulls []Full) {
	if cs.data == nil {
		cs.data = map[chunks.Ref][]byte{}
	}
	refs := make([]chunks.Ref, len(fulls))
	for i, f := range fulls {
		refs[i] = chunks.Ref(len(cs.data) + 1)
		cs.data[refs[i]] = append([]byte(nil), f.Data...)
	}
	d.Shelf.Written(fulls, refs)
}

// samples reads a series as of the newest commit, and hands each chunk's bounds to see.
func (cs *chunkStore) samples(t require.TestingT, d *Directory, s *Series, see func(c ExcerptChunk)) map[int64]float64 {
	var v Excerpt
	d.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &v)
	got := map[int64]float64{}
	for i, c := range v.Chunks {
		before := len(got)
		data := cs.data[c.Ref]
		if c.Ref == 0 {
			data = v.Data(c)
		}
		decodeInto(t, got, data, v.Maxt)
		require.Equal(t, c.Num, len(got)-before, "chunk %d of %d", i, len(v.Chunks))
		require.Contains(t, got, c.MinT)
		require.Contains(t, got, c.MaxT)
		if i > 0 {
			require.Greater(t, c.MinT, v.Chunks[i-1].MaxT)
		}
		if see != nil {
			see(c)
		}
	}
	return got
}

func TestCutAt_SplitsOpenAndFullChunksAtEveryPlace(t *testing.T) {
	const n = 300 // two full chunks and an open one
	var cs chunkStore
	for cut := int64(-1); cut <= n; cut++ {
		d := NewDirectory(defaultCutting)
		s := newSeries(t, d, "a", "b")
		want := map[int64]float64{}
		for i := range int64(n) {
			commit(d, uint64(i+1), uint64(i+1), s, i*1000, float64(i))
			want[i*1000] = float64(i)
		}
		for _, at := range []int64{cut*1000 - 500, cut * 1000} { // between two samples, and on one
			require.Zero(t, d.Truncation.CutAt(at))
			require.Equal(t, want, cs.samples(t, d, s, func(c ExcerptChunk) {
				require.True(t, c.MaxT < at || c.MinT >= at, "%v, cut at %d", c, at)
			}))
		}
		require.EqualValues(t, (n-1)*1000, s.PendingT())
		require.Equal(t, math.Float64bits(n-1), s.PendingSum())
	}
}

func TestCutAt_ChunksThatGoOnOrBeginLaterEndThere(t *testing.T) {
	d := NewDirectory(defaultCutting)
	goesOn, later := newSeries(t, d, "i", "1"), newSeries(t, d, "i", "2")
	commit(d, 1, 1, goesOn, 1000, 1)
	d.Truncation.CutAt(50_000)
	for i := range int64(100) {
		if i > 1 {
			commit(d, uint64(i), uint64(i), goesOn, i*1000, 1)
		}
		commit(d, uint64(i+1), uint64(i+1), later, i*1000, 1)
	}
	for _, s := range []*Series{goesOn, later} {
		var cs chunkStore
		cs.samples(t, d, s, func(c ExcerptChunk) { require.True(t, c.MaxT < 50_000 || c.MinT == 50_000, "%v", c) })
	}
}

func TestCutAt_CountsWhatIsInFilesOrOnTheWayThere(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	for i := range int64(130) {
		commit(d, uint64(i+1), uint64(i+1), s, i, float64(i))
	}
	var cs chunkStore
	fulls := cs.take(d)
	require.Len(t, fulls, 1)
	require.Equal(t, 1, d.Truncation.CutAt(fulls[0].MaxT), "it is on the way")
	cs.write(d, fulls)
	require.Equal(t, 1, d.Truncation.CutAt(fulls[0].MinT+1), "it is there")
	require.Zero(t, d.Truncation.CutAt(fulls[0].MinT))
	require.Len(t, cs.samples(t, d, s, nil), 130)
}

func TestCutAt_SamplesThatNeedMoreRoomWithoutThoseBefore(t *testing.T) {
	d := NewDirectory(Cutting{Range: 1 << 40, Samples: 1000})
	s := newSeries(t, d, "a", "b")
	// A wide window at first, then values that fit it and, beginning anew, need a new
	// window each time.
	want := map[int64]float64{}
	bits := uint64(0)
	for i := range int64(500) {
		switch {
		case i == 1:
			bits ^= 1<<32 - 1
		case i > 1:
			bits ^= (1<<31 - 1) << (i & 1)
		}
		want[i] = math.Float64frombits(bits)
		commit(d, uint64(i+1), uint64(i+1), s, i, want[i])
	}
	var cs chunkStore
	require.Zero(t, d.Truncation.CutAt(2)) // a full chunk
	require.Equal(t, want, cs.samples(t, d, s, nil))
	d.Truncation.CutAt(s.enc.FirstT() + 1) // and the open one
	require.Equal(t, want, cs.samples(t, d, s, nil))
	require.Greater(t, d.Shelf.Bytes(), int64(0))
	cs.write(d, cs.take(d))
	require.Zero(t, d.Shelf.Bytes())
	require.Equal(t, want, cs.samples(t, d, s, nil))
}

// A chunk that CutAt made may be longer than any that grew sample by sample; it is collected
// like others, and its pieces are used again.
func TestCutAt_AChunkThatGrows(t *testing.T) {
	d := NewDirectory(Cutting{Range: 1 << 40, Samples: 240})
	s := newSeries(t, d, "a", "b")
	rnd := rand.New(rand.NewPCG(3, 4))
	bits := uint64(0x4123456789abcde0)
	want := map[int64]float64{}
	for i := int64(0); s.numMapped == 0; i++ { // the widest window, then values that miss narrower ones by a bit
		switch {
		case i == 0:
		case i == 1:
			bits ^= 1<<63 | 1
		case i%2 == 0:
			bits ^= 1<<63 | rnd.Uint64()&(1<<62-1)&^3 | 2
		default:
			bits ^= 1<<62 | rnd.Uint64()&(1<<62-1)&^1 | 1
		}
		if v := math.Float64frombits(bits); v != v {
			bits ^= 1 << 55 // one that is equal to itself
		}
		want[i*10] = math.Float64frombits(bits)
		commit(d, uint64(i+1), uint64(i+1), s, i*10, want[i*10])
	}
	require.Zero(t, d.Truncation.CutAt(20))
	var cs chunkStore
	fulls := cs.take(d)
	require.Greater(t, len(fulls[1].Data), maxPieces*piecePayload)
	require.Equal(t, fulls[1].Size(), len(fulls[1].Data))
	cs.write(d, fulls)
	require.Equal(t, want, cs.samples(t, d, s, nil))

	var free recycled
	var next chunkBytes
	again := pieces{arena: d.chunkBytes}
	next.add(&again, fulls[1].Data)
	free.put(next)
	seen := map[uint32]bool{}
	for range (int(next.size) + piecePayload - 1) / piecePayload {
		n := free.get(d.chunkBytes)
		require.NotZero(t, n)
		require.False(t, seen[n])
		seen[n] = true
	}
	require.Zero(t, free.get(d.chunkBytes))
}

func TestDropBefore_FreesWhatEndsBeforeAndKeepsTheOrder(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s, old := newSeries(t, d, "i", "1"), newSeries(t, d, "i", "2")
	var cs chunkStore
	for i := range int64(500) {
		commit(d, uint64(i+1), uint64(i+1), s, i, float64(i))
		if i < 200 {
			commit(d, uint64(i+1), uint64(i+1), old, i, float64(i))
		}
		if i == 300 {
			cs.write(d, cs.take(d))
		}
	}
	d.Truncation.CutAt(400)
	lowest := d.Truncation.DropBefore(200)
	got := cs.samples(t, d, s, nil)
	require.Contains(t, got, int64(200))
	require.Contains(t, got, int64(499))
	require.NotZero(t, lowest)
	require.LessOrEqual(t, lowest, chunks.Ref(len(cs.data)))

	require.Equal(t, chunks.Ref(math.MaxUint64), d.Truncation.DropBefore(400), "nothing of a file is left")
	require.Len(t, cs.samples(t, d, s, nil), 100)
	require.EqualValues(t, 400, s.Mint())
	require.Equal(t, waitingBytes(d), d.Shelf.Bytes())

	require.EqualValues(t, int64(NoTime), old.Maxt())
	require.EqualValues(t, 199, old.PendingT())
	require.Equal(t, math.Float64bits(199), old.PendingSum())
	require.False(t, d.Past(math.MaxUint64).Visible(old, math.MinInt64, math.MaxInt64))
	require.False(t, d.Past(100).Visible(old, math.MinInt64, math.MaxInt64), "an old snapshot")
	commit(d, 600, 600, old, 700, 7)
	require.Equal(t, map[int64]float64{700: 7}, cs.samples(t, d, old, nil))
	require.False(t, d.Past(100).Visible(old, math.MinInt64, math.MaxInt64), "the new sample is not of its time")

	require.Equal(t, chunks.Ref(math.MaxUint64), d.Truncation.DropBefore(math.MaxInt64))
	require.Empty(t, cs.samples(t, d, s, nil))
	d.Shards.Lock(Bit(s))
	d.Shards.UnreserveLocked(s)
	d.Shards.Unlock(Bit(s))
	require.EqualValues(t, int64(NoTime), s.PendingT())
}

func TestDropBefore_AChunkOnItsWayToAFileIsForgottenThere(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	for i := range int64(130) {
		commit(d, uint64(i+1), uint64(i+1), s, i, float64(i))
	}
	var cs chunkStore
	fulls := cs.take(d)
	bytes := append([]byte(nil), fulls[0].Data...)
	d.Truncation.DropBefore(130)
	require.Zero(t, d.Shelf.Bytes())
	for i := range int64(130) { // it must not get the writer's buffer
		commit(d, uint64(i+200), uint64(i+200), s, i+200, math.Pi*float64(i))
	}
	require.Equal(t, bytes, fulls[0].Data)
	waiting := d.Shelf.Bytes()
	require.Positive(t, waiting)
	cs.write(d, fulls)
	require.Equal(t, waiting, d.Shelf.Bytes())
	require.Len(t, cs.samples(t, d, s, nil), 130)
}

// TestTruncation_EqualsAMap runs random appends, cuts, drops and writes of full chunks
// against a map of samples.
func TestTruncation_EqualsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDirectory(Cutting{Range: 1000, Samples: rapid.SampledFrom([]int{4, 8, 120}).Draw(t, "samples")})
		s, _, err := d.GetOrCreate(labels.FromStrings("a", "b"))
		require.NoError(t, err)
		want := map[int64]float64{}
		next, seq, cut, dropped := int64(-500), uint64(0), int64(math.MinInt64), int64(math.MinInt64)
		var cs chunkStore
		var taken []Full
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				for range rapid.IntRange(1, 50).Draw(t, "n") {
					next += rapid.Int64Range(1, 40).Draw(t, "gap")
					v := rapid.Float64().Draw(t, "v")
					seq++
					commit(d, seq, seq, s, max(next, dropped), v)
					next = max(next, dropped)
					want[next] = v
				}
			},
			"cut": func(t *rapid.T) {
				cut = max(dropped, next-rapid.Int64Range(-100, 500).Draw(t, "behind"))
				over := d.Truncation.CutAt(cut)
				crossing := 0
				cs.samples(t, d, s, func(c ExcerptChunk) {
					if c.MinT < cut && c.MaxT >= cut {
						crossing++
					}
				})
				require.Equal(t, over, crossing)
				require.LessOrEqual(t, over, 1)
			},
			"drop": func(t *rapid.T) {
				dropped = max(dropped, next-rapid.Int64Range(-100, 500).Draw(t, "behind"))
				lowest := d.Truncation.DropBefore(dropped)
				kept := chunks.Ref(math.MaxUint64)
				var first int64 = math.MaxInt64
				cs.samples(t, d, s, func(c ExcerptChunk) {
					first = min(first, c.MinT)
					require.GreaterOrEqual(t, c.MaxT, dropped)
					if c.Ref != 0 {
						kept = min(kept, c.Ref)
					}
				})
				require.Equal(t, kept, lowest)
				for ts := range want {
					if ts < dropped && ts < first {
						delete(want, ts)
					}
				}
			},
			"take": func(t *rapid.T) {
				if taken == nil {
					taken = cs.take(d)
					require.True(t, slices.IsSortedFunc(taken, func(a, b Full) int { return cmp.Compare(a.MinT, b.MinT) }), "not in the order of time")
				}
			},
			"write": func(t *rapid.T) {
				cs.write(d, taken)
				taken = nil
			},
			"fail to write": func(t *rapid.T) {
				d.Shelf.Unwritten(taken)
				taken = nil
			},
			"": func(t *rapid.T) {
				requirePieces(t, d, taken)
				require.Equal(t, want, cs.samples(t, d, s, nil))
				if len(want) > 0 {
					require.Equal(t, next, s.Maxt())
				}
			},
		})
		cs.write(d, taken)
		cs.write(d, cs.take(d))
		require.Zero(t, d.Shelf.Bytes())
		require.Equal(t, want, cs.samples(t, d, s, nil))
		requirePieces(t, d, nil)
	})
}

// requirePieces checks that each piece is in one place: an open chunk, a full one, one that
// was collected and dropped since, a shard, or never used.
func requirePieces(t require.TestingT, d *Directory, collected []Full) {
	seen := map[uint32]bool{0: true}
	see := func(n uint32) {
		require.False(t, seen[n], "piece %d is in two places", n)
		seen[n] = true
	}
	chunk := func(c chunkBytes) {
		n := c.first
		for left := int(c.size); left > 0; left -= piecePayload {
			see(n)
			n = d.chunkBytes.at(n).next
		}
	}
	for s := range d.All() {
		chunk(s.bytes)
	}
	for i := range d.Shards.all {
		sh := &d.Shards.all[i]
		for _, f := range sh.mu.waiting.all() {
			chunk(f.bytes)
		}
		for n := sh.mu.pieces.free; n != 0; n = d.chunkBytes.at(n).next {
			see(n)
		}
		for k := range sh.mu.pieces.freshLeft {
			see(sh.mu.pieces.fresh + k)
		}
	}
	for _, f := range collected {
		if d.Shards.of(f.Series).mu.waiting.get(f.ref) == nil {
			chunk(f.bytes)
		}
	}
	for k := range d.chunkBytes.mu.left {
		see(d.chunkBytes.mu.next + k)
	}
	blocks := 0
	for _, b := range *d.chunkBytes.blocks.Load() {
		if b != nil {
			blocks++
		}
	}
	require.Len(t, seen, max(1, blocks*pieceBlockLen))
}

func TestSizeBytes_FallsWhenAHeadIsTruncated(t *testing.T) {
	d := NewDirectory(defaultCutting)
	empty := d.SizeBytes()
	const n = 20_000
	for i := range n {
		s := newSeries(t, d, "__name__", "m", "pod", fmt.Sprint("pod-", i))
		s.Unpin()
		for k := range 150 {
			commit(d, uint64(k+1), 100, s, int64(k), float64(i*k))
		}
	}
	full := d.SizeBytes()
	d.Truncation.DropBefore(1000)
	dropped := d.SizeBytes()
	require.Less(t, dropped, full*2/3)
	require.Len(t, d.RemoveIdle(1000, nil), n)
	require.Zero(t, d.Len())
	removed := d.SizeBytes()
	t.Logf("empty %d, full %d, dropped %d, removed %d", empty, full, dropped, removed)
	require.Less(t, removed, dropped*2/3)
	// The same again in what was given back.
	for i := range n {
		s := newSeries(t, d, "__name__", "m", "pod", fmt.Sprint("again-", i))
		s.Unpin()
		for k := range 150 {
			commit(d, uint64(k+1), 100, s, int64(k), float64(i*k))
		}
	}
	require.InEpsilon(t, full, d.SizeBytes(), 0.1)
}

// reserve and apply are the two halves of a commit of one sample.
func reserve(d *Directory, s *Series, t int64, v float64, turns *Turns) {
	d.Shards.Lock(Bit(s))
	d.Shards.TakeTurnsLocked(Bit(s), turns)
	s.Reserve(t, math.Float64bits(v))
	d.Shards.Unlock(Bit(s))
}

func apply(d *Directory, s *Series, t int64, v float64, seq uint64, turns *Turns) {
	d.Shards.LockInTurn(Bit(s), turns)
	d.Shards.ApplyLocked([]Sample{plain(s, t, v)}, nil, seq, seq, alwaysOpen{})
	d.Shards.EndTurn(Bit(s))
}

func TestBarrier_WaitsForCommitsThatHadTheirTurnsAndForNoOthers(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	d.Shards.Barrier()
	var first, second Turns
	reserve(d, s, 1, 1, &first)
	passed := make(chan struct{})
	go func() {
		d.Shards.Barrier()
		close(passed)
	}()
	for queued := 0; queued == 0; {
		sh := d.Shards.of(s)
		sh.mu.Lock()
		queued = sh.mu.queued
		sh.mu.Unlock()
	}
	select {
	case <-passed:
		require.Fail(t, "it did not wait")
	default:
	}
	reserve(d, s, 2, 2, &second)
	apply(d, s, 1, 1, 1, &first)
	<-passed // though the second one is on its way
	apply(d, s, 2, 2, 2, &second)
}

// TestTruncation_BesideWriters has writers with changing series, a chunk writer, readers
// and truncation at once. At the end everything that was not dropped is there.
func TestTruncation_BesideWriters(t *testing.T) {
	const writers, rounds, perWriter = 4, 30, 40
	d := NewDirectory(Cutting{Range: 100_000, Samples: 8})
	var minValid, now atomic.Int64
	var seq atomic.Uint64
	var stored sync.Mutex // the chunk writer's; readers look up what is stored
	var cs chunkStore
	stop := make(chan struct{})

	type written struct {
		s *Series
		t int64
		v float64
	}
	all := make([][]written, writers)
	var wg, helpers sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for round := range rounds * 10 {
				for i := range perWriter {
					// A third of the series lives for ten rounds, the others for ever.
					name := fmt.Sprintf("%d/%d", w, i)
					if i%3 == 0 {
						name = fmt.Sprintf("%s/%d", name, round/10)
					}
					s, _, err := d.GetOrCreate(labels.FromStrings("job", "x", "i", name))
					if err != nil {
						panic(err)
					}
					ts, v := now.Add(1), rng.Float64()
					var turns Turns
					d.Shards.Lock(Bit(s))
					d.Shards.TakeTurnsLocked(Bit(s), &turns)
					ok := ts >= minValid.Load() && ts > s.PendingT()
					dead := s.Dead()
					if ok {
						s.Reserve(ts, math.Float64bits(v))
					}
					d.Shards.Unlock(Bit(s))
					d.Shards.LockInTurn(Bit(s), &turns)
					if ok {
						d.Shards.ApplyLocked([]Sample{plain(s, ts, v)}, nil, seq.Add(1), math.MaxUint64, alwaysOpen{})
					}
					d.Shards.EndTurn(Bit(s))
					s.Unpin()
					if dead {
						panic("a pinned series was removed")
					}
					if ok {
						all[w] = append(all[w], written{s: s, t: ts, v: v})
					}
				}
			}
		})
	}
	loop := func(fn func()) {
		helpers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					fn()
				}
			}
		})
	}
	loop(func() { // the chunk writer
		fulls, _ := d.Shelf.Collect(nil, 0, math.MaxInt)
		stored.Lock()
		cs.write(d, fulls)
		stored.Unlock()
	})
	loop(func() { // a reader
		var v Excerpt
		for s := range d.All() {
			d.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &v)
		}
		_ = d.SizeBytes()
	})
	var dropped int64
	truncate := func() {
		at := now.Load() - 100
		if at <= dropped {
			return
		}
		minValid.Store(at)
		d.Shards.Barrier()
		d.Truncation.CutAt(at)
		for s := range d.All() {
			d.Shards.Lock(Bit(s))
			open := s.enc
			d.Shards.Unlock(Bit(s))
			if open.Len() > 0 && open.FirstT() < at && open.LastT() >= at {
				panic("an open chunk reaches over the cut")
			}
		}
		d.Truncation.DropBefore(at)
		for _, ref := range d.RemoveIdle(at, nil) {
			if d.ByRef(ref) != nil {
				panic("a removed series is found")
			}
		}
		dropped = at
	}
	loop(truncate)
	wg.Wait()
	close(stop)
	helpers.Wait()

	cut := dropped
	truncate()
	require.Greater(t, dropped, cut-1)
	live := 0
	for w := range all {
		bySeries := map[*Series]map[int64]float64{}
		for _, x := range all[w] {
			if x.t < dropped {
				continue
			}
			if bySeries[x.s] == nil {
				bySeries[x.s] = map[int64]float64{}
			}
			bySeries[x.s][x.t] = x.v
		}
		for s, want := range bySeries {
			live++
			require.False(t, s.Dead())
			got := cs.samples(t, d, s, nil)
			for ts := range got {
				if ts < dropped {
					delete(got, ts) // of a chunk in a file that reaches over
				}
			}
			require.Equal(t, want, got)
		}
	}
	require.Equal(t, live, d.Len(), "all idle series are gone")
	require.Equal(t, waitingBytes(d), d.Shelf.Bytes())
}

// waitingBytes counts FullBytes anew.
func waitingBytes(d *Directory) (n int64) {
	for i := range d.Shards.all {
		for _, f := range d.Shards.all[i].mu.waiting.all() {
			n += int64(f.bytes.size)
		}
	}
	return n
}
