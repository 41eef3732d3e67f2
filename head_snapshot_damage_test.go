package tsdb_test

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// Snapshots of the head that are damaged, or that build on what is not as it was.

// Every bit and every length of a snapshot's files: it is as good as if it were not there.
func TestHeadSnapshot_DamageCostsTimeAndNothingElse(t *testing.T) {
	t.Parallel()
	f := snapshotFixture(t)
	for i, key := range []string{`{kind="int"}`, `{kind="custom"}`, `{kind="float"}`} { // open chunks of each kind
		commitAny(t, f.db, kindRows(series(t, key), 50_000, kindRuns[i:i+1]))
	}
	commitAny(t, f.db, kindRows(series(t, `{kind="all"}`), 50_000, kindRuns))
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, 100_000, 1})
	want := f.all()
	disk := f.fs.KillClone()
	places := sweep.Of(t, 1, 29)
	unseen := 0
	try := func(what, name string, data []byte, gone, covered bool) {
		t.Helper()
		broken := disk.KillClone()
		if gone {
			require.NoError(t, broken.Remove(name))
		} else {
			require.NoError(t, broken.WriteFile(name, data))
		}
		o := *f.opts
		o.FS = broken
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err, what)
		r := db.OpenReport()
		require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64), what)
		require.True(t, r.Clean())
		require.NoError(t, db.Close())
		if r.Snapshot != "" && !covered {
			unseen++
			return
		}
		require.Empty(t, r.Snapshot, what)
		require.Len(t, r.SnapshotsIgnored, 1, what)
		list, err := headsnap.List(broken, fixtureDir)
		require.NoError(t, err)
		require.Empty(t, list, "it is removed")
	}
	files := 0
	for _, name := range disk.Files() {
		if !strings.Contains(name, "head_snapshot.") || strings.HasSuffix(name, "/") {
			continue
		}
		files++
		data, err := disk.ReadFile(name)
		require.NoError(t, err)
		for _, bit := range places.Below(8 * len(data)) {
			flipped := bytes.Clone(data)
			flipped[bit/8] ^= 1 << (bit % 8)
			// The form of the log has bits that mean nothing, in the first byte of a record: three
			// always, and that of one compression beside that of another.
			try(fmt.Sprintf("bit %d of %s", bit, name), name, flipped, false, bit%8 < 4)
		}
		for _, n := range places.Below(len(data)) {
			try(fmt.Sprintf("%s cut to %d", name, n), name, data[:n], false, true)
		}
		try(name+" longer", name, append(bytes.Clone(data), 0), false, true)
		try(name+" gone", name, nil, true, true)
	}
	require.Equal(t, 2, files)
	const records = 1 + 1 + 1 + 1 + 1 // header, full chunks, series, deleted intervals, trailer
	require.LessOrEqual(t, unseen, 4*records)
}

// The log that it was taken from is not there any more, or somebody else has written.
func TestHeadSnapshot_OfAnotherLogIsNotUsed(t *testing.T) {
	foreign := func(f *fixture, disk *tsdbtest.MemFS, n int) {
		log, err := wal.Open(wal.Options{FS: disk, Dir: filepath.Join(fixtureDir, "wal")}, wal.Position{Segment: n, NextSeq: 1000})
		require.NoError(f.t, err)
		require.NoError(f.t, log.Close())
		name := fmt.Sprintf("data/wal/%08d", n)
		require.NoError(f.t, disk.WriteFile(name, foreignRecords(f.t, record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 200_000, V: 1}}))))
	}
	for name, change := range map[string]func(f *fixture, disk *tsdbtest.MemFS){
		"somebody else wrote behind it": func(f *fixture, disk *tsdbtest.MemFS) { foreign(f, disk, 2) },
		"its segment begins with another commit": func(f *fixture, disk *tsdbtest.MemFS) {
			require.NoError(f.t, disk.Remove("data/wal/00000001"))
			log, err := wal.Open(wal.Options{FS: disk, Dir: filepath.Join(fixtureDir, "wal")}, wal.Position{Segment: 1, NextSeq: 77})
			require.NoError(f.t, err)
			require.NoError(f.t, log.Close())
		},
		"its segment is gone": func(f *fixture, disk *tsdbtest.MemFS) {
			require.NoError(f.t, disk.Remove("data/wal/00000001"))
		},
		"its name is that of another": func(f *fixture, disk *tsdbtest.MemFS) {
			require.NoError(f.t, disk.Rename("data/head_snapshot.00000001", "data/head_snapshot.00000002"))
		},
		"a head chunk file is gone": func(f *fixture, disk *tsdbtest.MemFS) {
			require.NoError(f.t, disk.Remove("data/chunks_head/000001"))
		},
		"a head chunk file has another end": func(f *fixture, disk *tsdbtest.MemFS) {
			data, err := disk.ReadFile("data/chunks_head/000001")
			require.NoError(f.t, err)
			require.NoError(f.t, disk.WriteFile("data/chunks_head/000001", data[:len(data)-1]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := snapshotFixture(t)
			require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
			disk := f.fs.KillClone()
			change(f, disk)
			o := *f.opts
			o.FS = disk
			db, err := tsdb.Open(fixtureDir, &o)
			require.NoError(t, err)
			r := db.OpenReport()
			require.Empty(t, r.Snapshot)
			require.Len(t, r.SnapshotsIgnored, 1)
			got := dump(t, db, math.MinInt64, math.MaxInt64)
			require.NoError(t, db.Close())

			// It is as if it had never been there.
			require.NoError(t, removeSnapshots(disk))
			f2 := f.fs.KillClone()
			change(f, f2)
			require.NoError(t, removeSnapshots(f2))
			o.FS = f2
			db, err = tsdb.Open(fixtureDir, &o)
			require.NoError(t, err)
			require.Equal(t, dump(t, db, math.MinInt64, math.MaxInt64), got)
			require.NoError(t, db.Close())
		})
	}
}

// Head-chunk files that the snapshot vouches for are not read by Open. Damage in there is an
// error of who reads it, and is made good by the open after that.
func TestHeadSnapshot_DamagedChunksAreMadeAnewFromTheLog(t *testing.T) {
	f := snapshotFixture(t)
	want := f.all()
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	disk := f.fs.KillClone()
	const name = "data/chunks_head/000001"
	data, err := disk.ReadFile(name)
	require.NoError(t, err)
	noticed := 0
	for i := range data {
		flipped := bytes.Clone(data)
		flipped[i] ^= 0x10
		broken := disk.KillClone()
		require.NoError(t, broken.WriteFile(name, flipped))
		o := *f.opts
		o.FS = broken
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err, "byte %d", i)
		q, err := db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		got, err := readAll(q)
		require.NoError(t, q.Close())
		if err != nil {
			require.ErrorIs(t, err, tsdb.ErrCorrupt)
			noticed++
		} else {
			require.Equal(t, want, got, "byte %d", i)
		}
		require.NoError(t, db.Close())
		db, err = tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64), "byte %d", i)
		require.NoError(t, db.Close())
	}
	require.Positive(t, noticed)
}

// What blocks had when it was taken it has not: when a block is gone, the log may have more.
func TestHeadSnapshot_IsNotUsedWithoutTheBlocksThatItBuildsOn(t *testing.T) {
	f := newFixture(t, minuteBlocks)
	for k := range int64(100) {
		f.commit(sample{`{a="b"}`, k * 1000, float64(k)})
	}
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, 200_000, 1})
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)

	disk := f.fs.KillClone()
	for _, name := range disk.Files() {
		if strings.HasSuffix(name, "/index") {
			data, err := disk.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, disk.WriteFile(name, data[:len(data)/2]))
		}
	}
	o := *f.opts
	o.FS = disk
	db, err := tsdb.Open(fixtureDir, &o)
	require.NoError(t, err)
	require.Equal(t, 1, db.OpenReport().BlocksSetAside)
	require.Len(t, db.OpenReport().SnapshotsIgnored, 1)
	require.Len(t, dump(t, db, math.MinInt64, math.MaxInt64)[`{a="b"}`], 101, "the log had it all")
	require.NoError(t, db.Close())
}

// A copy may have a sample of a commit behind its segment. When the log has lost that commit,
// it is lost as a whole, and the series that it brought gets a record again.
func TestHeadSnapshot_DamageBehindItTakesWholeCommits(t *testing.T) {
	f := snapshotFixture(t)
	f.opts.WAL.Compression = tsdb.CompressionNone
	f.reopen()
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpMkdirAll && strings.HasSuffix(op.Name, "tmp-head-snapshot") {
			f.fs.SetHook(nil)
			f.commit(sample{`{a="b"}`, 100_000, 5}, sample{`{a="zzz"}`, 100_000, 5})
			f.commit(sample{`{a="b"}`, 101_000, 5})
		}
		return nil
	})
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	disk, found := f.fs.KillClone(), false
	for _, name := range disk.Files() {
		data, err := disk.ReadFile(name)
		if at := bytes.Index(data, []byte("zzz")); err == nil && at >= 0 && strings.Contains(name, "/wal/") {
			found = true
			data = bytes.Clone(data)
			data[at] ^= 1
			require.NoError(t, disk.WriteFile(name, data))
		}
	}
	require.True(t, found)
	for _, threshold := range []int64{math.MaxInt64, -1} {
		o := *f.opts
		o.FS, o.Head.SnapshotThreshold = disk.KillClone(), threshold
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		require.Empty(t, db.OpenReport().Snapshot)
		got := dump(t, db, math.MinInt64, math.MaxInt64)
		require.NotContains(t, got, `{a="zzz"}`)
		last := got[`{a="b"}`][len(got[`{a="b"}`])-1]
		require.EqualValues(t, 101_000, last.T)
		require.EqualValues(t, 49_000, got[`{a="b"}`][len(got[`{a="b"}`])-2].T)
		require.NoError(t, db.Close())
	}
}

// Damage in the log before it is met by a checkpoint. Series that only the snapshot brought get
// their records again, so that what is committed from then on is in the log, too.
func TestHeadSnapshot_SeriesThatTheLogHasLostGetTheirRecordsAgain(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.Range = time.Minute
		o.Head.SamplesPerChunk = 16
		o.WAL.Sync, o.WAL.Compression = tsdb.SyncCommit(), tsdb.CompressionNone
	})
	commit := func(k int64) {
		f.commit(sample{`{a="b"}`, k * 1000, float64(k)}, sample{`{a="zzz"}`, k * 1000, float64(k)})
	}
	for k := range int64(30) {
		commit(k)
	}
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NoError(t, f.db.Close())
	const segment = "data/wal/00000000"
	data, err := f.fs.ReadFile(segment)
	require.NoError(t, err)
	data = bytes.Clone(data)
	data[bytes.Index(data, []byte("zzz"))] ^= 1
	require.NoError(t, f.fs.WriteFile(segment, data))
	f.open()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	for k := int64(30); k < 400; k++ {
		commit(k)
		if k == 60 || k == 200 || k == 300 {
			require.NoError(t, f.db.Compact(ctx))
		}
	}
	r := bothWays(t, f.fs, *f.opts)
	require.Zero(t, r.SamplesUnknown)
}

// A database that does nothing by itself still lets go of a snapshot that hides damage.
func TestHeadSnapshot_GoesWhenDamageIsMetAlsoByHandOnly(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NoError(t, f.db.Close())
	require.NoError(t, flipped("chunks_head/000001", 60)(f.fs))
	f.open()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	_, err = readAll(q)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.NoError(t, q.Close())
	f.clock.Advance(3 * time.Second)
	list, err := headsnap.List(f.fs, fixtureDir)
	require.NoError(t, err)
	require.Empty(t, list)
}

func removeSnapshots(disk *tsdbtest.MemFS) error {
	list, err := headsnap.List(disk, fixtureDir)
	for _, f := range list {
		if err == nil {
			err = headsnap.Remove(disk, f)
		}
	}
	return err
}

// foreignRecords is a log segment as other engines write it.
func foreignRecords(t *testing.T, recs ...[]byte) []byte {
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("x"))
	w, err := wal.NewSnapshotWriter(wal.SnapshotOptions{FS: fs, Dir: "x", Compression: &wal.None, Start: wal.Start{Segment: 1, NextSeq: 1}})
	require.NoError(t, err)
	for _, rec := range recs {
		require.NoError(t, w.Append(rec))
	}
	_, err = w.Finish()
	require.NoError(t, err)
	require.NoError(t, w.Close())
	data, err := fs.ReadFile("x/00000000")
	require.NoError(t, err)
	return data
}
