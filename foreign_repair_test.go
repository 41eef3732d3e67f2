package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// oddBlocks are blocks of two hours whose series stand in the wrong order, with a sample a minute;
// each reaches over its end by a quarter of an hour.
func oddBlocks(n int) (blocks []*oddBlock) {
	base := testNow.UnixMilli()/disorderRange*disorderRange - 200*disorderRange
	for i := range int64(n) {
		b := &oddBlock{mint: base + i*disorderRange, maxt: base + (i+1)*disorderRange}
		b.id = ulid.MustNew(uint64(testNow.UnixMilli()+i), nil)
		for _, job := range []string{"b", "a"} {
			s := oddSeries{labels: [][2]string{{"job", job}}}
			for at := b.mint; at < b.maxt+15*minute; {
				c := &oddChunk{}
				for range 45 {
					c.add(at, float64(at%1000_003))
					at += minute
				}
				s.chunks = append(s.chunks, c)
			}
			b.series = append(b.series, s)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

func worldOf(blocks []*oddBlock) *disorderWorld {
	w := newDisorderWorld(1)
	w.blocks, w.odd, w.want = blocks, make([]bool, len(blocks)), map[string]map[int64][]uint64{}
	for i, b := range blocks {
		w.odd[i] = true
		for _, s := range b.series {
			name := fmt.Sprintf(`{job="%s"}`, s.labels[0][1])
			for _, c := range s.chunks {
				for _, p := range c.samples {
					if w.want[name] == nil {
						w.want[name] = map[int64][]uint64{}
					}
					w.want[name][p.T] = append(w.want[name][p.T], p.V)
				}
			}
		}
	}
	return w
}

// Every block reaches into the next one. What lies outside goes into blocks of its own, so merges
// end with blocks of the lengths that they should have, and not with one of everything.
func TestForeignBlocks_ChunksOverTheEndsOfAllBlocksMakeNoGiantOne(t *testing.T) {
	for _, first := range []string{"compact", "repair"} {
		t.Run(first, func(t *testing.T) {
			w := worldOf(oddBlocks(30))
			fs := w.disk(t)
			if first == "repair" {
				r := repair(t, fs, nil)
				require.Len(t, r.Blocks, 30)
				for _, b := range r.Blocks {
					require.NoError(t, b.Err)
					require.Len(t, b.Beside, 1)
				}
			}
			o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
			o.Blocks.MaxRange = 18 * time.Hour
			manual(o)
			db, err := tsdb.Open(fixtureDir, o)
			require.NoError(t, err)
			w.requireAll(t, db, math.MinInt64, math.MaxInt64)
			require.NoError(t, db.Compact(ctx))
			w.requireAll(t, db, math.MinInt64, math.MaxInt64)
			require.Less(t, len(db.Blocks()), 12)
			for _, m := range db.Blocks() {
				require.LessOrEqual(t, m.MaxTime-m.MinTime, 19*hour)
			}
			require.NoError(t, db.Close())
		})
	}
}

// A block that was looked at, and is in order, is known to be from then on, whoever wrote it; one
// that is not is looked at each time.
func TestForeignBlocks_WhichAreInOrderIsWrittenDown(t *testing.T) {
	blocks := oddBlocks(2)
	good := blocks[0]
	good.series[0], good.series[1] = good.series[1], good.series[0]
	for i := range good.series {
		last := good.series[i].chunks[2]
		last.samples = last.samples[:len(last.samples)-15]
	}
	w := worldOf(blocks)
	fs := w.disk(t)
	require.NoError(t, openWorld(t, fs).Close())
	for i, b := range blocks {
		d, err := blockdir.Open(fs, blockdir.Path(fixtureDir, b.id))
		require.NoError(t, err)
		require.Equal(t, i == 0, d.InOrder())
		require.False(t, d.NeedsSidecar())
		require.NoError(t, d.Close())
	}
	db := openWorld(t, fs)
	damages := db.OpenReport().Damages
	require.Len(t, damages, 1)
	require.True(t, damages[0].Harmless)
	require.Contains(t, damages[0].File, blocks[1].id.String())
	require.NoError(t, db.Close())
}

// A series that has no chunks is in no list of labels, though nothing else is odd about the block.
func TestForeignBlocks_ASeriesWithoutChunksIsNotListed(t *testing.T) {
	b := oddBlocks(1)[0]
	b.series[0], b.series[1] = b.series[1], b.series[0]
	b.maxt += hour // nothing lies outside
	b.series = append(b.series, oddSeries{labels: [][2]string{{"job", "c"}, {"nothing", "at all"}}})
	w := worldOf([]*oddBlock{{series: b.series[:2], id: b.id, mint: b.mint, maxt: b.maxt}})
	w.blocks = []*oddBlock{b}
	fs := w.disk(t)
	for range 2 { // the second time a sidecar may say what was seen
		db := openWorld(t, fs)
		w.requireAll(t, db, math.MinInt64, math.MaxInt64)
		require.NoError(t, db.Close())
	}
	r, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	w.requireAll(t, r, math.MinInt64, math.MaxInt64)
	require.NoError(t, r.Close())
}

func TestForeignBlocks_TwoValuesOfOneLabelAreAWarningThatNamesTheBlock(t *testing.T) {
	b := oddBlocks(1)[0]
	b.series = b.series[:1]
	b.series[0].labels = append(b.series[0].labels, [2]string{"job", "other"})
	w := worldOf([]*oddBlock{b})
	db := openWorld(t, w.disk(t))
	defer db.Close()
	w.requireAll(t, db, math.MinInt64, math.MaxInt64)
	ws := warningsOf(t, db, b.mint, b.maxt)
	require.Len(t, ws, 1)
	require.ErrorIs(t, ws[0], tsdb.ErrCorrupt)
	require.ErrorContains(t, ws[0], b.id.String())
	require.Empty(t, warningsOf(t, db, b.maxt+hour, math.MaxInt64))
}

// What is damaged costs itself, in a block that is not in order, too.
func TestRepair_OfABlockThatIsDamagedAndNotInOrderSavesTheRest(t *testing.T) {
	b := oddBlocks(1)[0]
	w := worldOf([]*oddBlock{b})
	fs := w.disk(t)
	lost := b.series[1].chunks[1]
	require.NoError(t, flipped(b.id.String()+"/chunks/000001", int(lost.ref)+20)(fs))
	report := repair(t, fs, nil)
	require.Len(t, report.Blocks, 1)
	require.NoError(t, report.Blocks[0].Err)
	require.EqualValues(t, 1, report.Blocks[0].LostChunks)
	require.EqualValues(t, len(lost.samples), report.Blocks[0].LostSamples)
	for _, p := range lost.samples {
		delete(w.want[`{job="a"}`], p.T)
	}
	db := openWorld(t, fs)
	w.requireAll(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
}

// A damaged entry in the index of such a block costs its series, and a warning names it.
func TestForeignBlocks_ADamagedEntryOfABlockNotInOrderCostsItsSeries(t *testing.T) {
	b := oddBlocks(1)[0]
	b.series = append(b.series, oddSeries{labels: [][2]string{{"job", "0"}}, chunks: b.series[0].chunks})
	w := worldOf([]*oddBlock{b})
	fs := w.disk(t)
	db := openWorld(t, fs)
	at := db.OpenReport().Damages[0].Offset // of the first entry that is not in its place
	require.NoError(t, db.Close())
	require.NoError(t, flipped(b.id.String()+"/index", int(at)+4)(fs))
	delete(w.want, `{job="a"}`)
	o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
	manual(o)
	db, err := tsdb.Open(fixtureDir, o)
	require.NoError(t, err)
	defer db.Close()
	w.requireAll(t, db, math.MinInt64, math.MaxInt64)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	set := q.Select(ctx, nil)
	for set.Next() {
	}
	require.NoError(t, set.Err())
	require.Len(t, set.Warnings(), 1)
	require.ErrorIs(t, set.Warnings()[0], tsdb.ErrMissing)
	require.ErrorContains(t, set.Warnings()[0], b.id.String())
}

// failing fails what is done with files whose names have a part, as often as it is done.
func failing(fs *tsdbtest.MemFS, part string, kinds ...tsdbtest.OpKind) {
	fs.SetHook(func(op tsdbtest.Op) error {
		for _, k := range kinds {
			if op.Kind == k && strings.Contains(op.Name, part) {
				return syscall.EIO
			}
		}
		return nil
	})
}

func TestRepair_GoesOnBehindABlockThatFailsAndReportsAll(t *testing.T) {
	blocks := oddBlocks(3)
	w := worldOf(blocks)
	fs := w.disk(t)
	bad := blocks[1].id.String()
	failing(fs, "quarantine/"+bad, tsdbtest.OpOpen)
	report, err := tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}})
	fs.SetHook(nil)
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorContains(t, err, bad)
	require.NotNil(t, report)
	require.Len(t, report.Blocks, 3)
	for i, b := range report.Blocks {
		if i == 1 {
			require.ErrorIs(t, b.Err, syscall.EIO)
			require.Nil(t, b.Saved)
			require.Equal(t, bad, b.Original, "it is back where it was")
			continue
		}
		require.NoError(t, b.Err)
		require.NotNil(t, b.Saved)
	}
	require.Positive(t, report.Log.Blocks, "the log is repaired, too")
	w.requireNamed(t, fs)

	report = repair(t, fs, nil)
	require.Len(t, report.Blocks, 1)
	require.NotNil(t, report.Blocks[0].Saved)
	require.Empty(t, findings(verify(t, fs), tsdb.SeverityWarning))
	db := openWorld(t, fs)
	w.requireAll(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
}

// Whatever fails while blocks that are not in order are repaired, another Repair makes them whole.
func TestRepair_OfDisorderInterruptedAnywhereCanBeDoneAgain(t *testing.T) {
	t.Parallel()
	w := worldOf(oddBlocks(2))
	odd := w.disk(t)
	match := func(op tsdbtest.Op) bool { return op.Kind != tsdbtest.OpMapRead }
	places := sweep.Of(t, 1, 7)
	for nth := int64(1 + places.First); ; nth += int64(places.Step) {
		disk := odd.KillClone()
		fsys := faultfs.New(disk)
		fsys.Inject(faultfs.Fault{Err: syscall.EIO, Match: match, Nth: nth})
		_, err := tsdb.Repair(context.Background(), fixtureDir, &tsdb.RepairOptions{Options: &tsdb.Options{FS: fsys, Clock: tsdbtest.NewClock(testNow)}})
		if len(fsys.Hits()) == 0 {
			require.NoError(t, err)
			require.Greater(t, nth, int64(20))
			return
		}
		for _, after := range []*tsdbtest.MemFS{disk.KillClone(), disk.CrashClone(tsdbtest.CrashOptions{Seed: uint64(nth)})} {
			repair(t, after, nil)
			require.Empty(t, findings(verify(t, after), tsdb.SeverityWarning), "%d: %v", nth, fsys.Hits())
			db := openWorld(t, after)
			w.requireAll(t, db, math.MinInt64, math.MaxInt64)
			require.NoError(t, db.Close())
		}
	}
}

// A block that cannot be written anew keeps no other one from it, in CleanTombstones and in
// Compact, and the error names it.
func TestCompactAndClean_GoOnBehindABlockThatFails(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli()/disorderRange*disorderRange - 60*disorderRange
	f.scrapes(3, base, base+20*hour)
	require.NoError(t, f.db.Flush(ctx))
	blocks := f.db.Blocks()
	require.Len(t, blocks, 10)
	bad := blocks[1].ULID.String()
	for _, b := range blocks {
		require.NoError(t, f.db.Delete(ctx, b.MinTime, b.MinTime+30*minute))
	}
	rest := func() map[string][]point { return dump(t, f.db, blocks[2].MinTime, math.MaxInt64) }
	want := rest()
	require.NoError(t, f.db.Close())
	f.db = nil
	require.NoError(t, flipped(bad+"/chunks/000001", 40)(f.fs))
	f.open()
	for _, do := range []func(context.Context) error{f.db.CleanTombstones, f.db.Compact, f.db.CleanTombstones} {
		err := do(ctx)
		require.ErrorIs(t, err, tsdb.ErrCorrupt)
		require.ErrorContains(t, err, bad)
		for _, m := range f.db.Blocks() {
			require.Equal(t, m.ULID.String() == bad, m.Stats.NumTombstones > 0, "the others are free of what is deleted")
		}
		require.Equal(t, want, rest())
	}
	require.Less(t, len(f.db.Blocks()), len(blocks), "windows without it are merged")
}

// A block that comes back, or could not be removed, after another one was made of it.
func TestRepair_ABlockThatAnotherOneHasTheSamplesOf_LosesNothing(t *testing.T) {
	w := worldOf(oddBlocks(2))
	fs := w.disk(t)
	require.Len(t, repair(t, fs, nil).Blocks, 2)
	require.NoError(t, oddBlocks(1)[0].write(fs, fixtureDir))
	r := repair(t, fs, nil)
	require.Len(t, r.Blocks, 1)
	require.Nil(t, r.Blocks[0].Saved)
	require.ErrorContains(t, r.Blocks[0].Err, "other blocks have its samples")
	require.True(t, r.Clean(), "%+v", r)
	db := openWorld(t, fs)
	w.requireAll(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
}

// A mapping that cannot be read for a moment is no damage of a block of which all could be read.
func TestRepair_WhatCannotBeReadForAMoment_IsNotLost(t *testing.T) {
	w := worldOf(oddBlocks(1))
	whole, failed := w.disk(t), 0
	for nth := int64(1); ; nth++ {
		disk := whole.KillClone()
		fs := faultfs.New(disk)
		fs.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpMapRead}, Nth: nth, Err: fileutil.ErrMemoryFault})
		o := &tsdb.RepairOptions{Options: &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}}
		r, err := tsdb.Repair(ctx, fixtureDir, o)
		if len(fs.Hits()) == 0 {
			break
		}
		if err != nil {
			if strings.Contains(err.Error(), "cannot be read now") {
				failed++
				_, err := disk.Stat(fixtureDir + "/" + w.blocks[0].id.String())
				require.NoError(t, err, "it is where it was")
			}
			r = repair(t, disk, nil)
		}
		require.True(t, r.Clean(), "%d: %+v", nth, r)
		db := openWorld(t, disk)
		w.requireAll(t, db, math.MinInt64, math.MaxInt64)
		require.NoError(t, db.Close())
	}
	require.Positive(t, failed)
}
