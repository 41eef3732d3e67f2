package ship_test

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Every block is in the bucket as Thanos wants it, once, whoever looks how often.
func TestSync_UploadsEachBlockOnce(t *testing.T) {
	onDisk, err := filesystem.NewBucket(t.TempDir())
	require.NoError(t, err)
	for name, b := range map[string]objstore.Bucket{"file system": onDisk, "in memory": objstore.NewInMemBucket(), "prefixed": objstore.NewPrefixedBucket(objstore.NewInMemBucket(), "a/b")} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.bucket = newCounted(b)
			db := w.open(w.options())
			s, err := ship.New(db, w.bucket, ship.Options{Labels: external})
			require.NoError(t, err)
			w.sync(s, 0)
			w.blocks(3)
			w.sync(s, 3)
			w.checkBucket()
			w.sync(s, 0)
			w.sync(w.shipper(), 0)
			w.blocks(2)
			w.sync(s, 2)
			w.checkBucket()
			w.bucket.once(t)
			for _, name := range w.fs.Files() {
				require.NotRegexp(t, "^data/thanos/upload/.", name, "it is held still")
			}
			stats := s.Stats()
			require.Equal(t, uint64(5), stats.Uploads)
			require.Zero(t, stats.UploadFailures)
			require.Positive(t, stats.UploadedBytes)
			require.Zero(t, stats.Pending)
			require.Empty(t, stats.Skipped)
			require.False(t, stats.LastSync.IsZero())

			text, err := w.fs.ReadFile("data/thanos.shipper.json")
			require.NoError(t, err)
			var state struct {
				Version  int
				Uploaded []string
			}
			require.NoError(t, json.Unmarshal(text, &state))
			require.Equal(t, 1, state.Version)
			require.Len(t, state.Uploaded, 5)
		})
	}
}

// What a Shipper writes beside the blocks is of no matter to the database.
func TestSync_LeavesACleanDirectory(t *testing.T) {
	w := newWorld(t)
	db := w.open(w.options())
	w.blocks(2)
	w.bucket.before = func(op, _ string) error {
		if op == "upload" {
			return errUnavailable
		}
		return nil
	}
	s := w.shipper()
	_, err := s.Sync(ctx)
	require.ErrorIs(t, err, errUnavailable) // a block is held
	require.NoError(t, db.Close())
	report, err := tsdb.Verify(ctx, "data", &tsdb.VerifyOptions{FS: w.fs})
	require.NoError(t, err)
	require.True(t, report.Clean(), "%+v", report.Findings)
	open := w.open(w.options()).OpenReport()
	require.True(t, open.Clean(), "%+v", open)
	w.bucket.before = nil
	w.sync(s, 2)
	w.checkBucket()
}

// The meta file tells readers how much to ask for.
func TestSync_TellsTheLargestChunk(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	w.sync(w.shipper(), 1)
	for name, text := range objects(t, w.bucket) {
		if strings.HasSuffix(name, "/meta.json") {
			var m uploadedMeta
			require.NoError(t, json.Unmarshal(text, &m))
			require.Greater(t, m.Thanos.IndexStats["chunk_max_size"], int64(10))
			require.Less(t, m.Thanos.IndexStats["chunk_max_size"], int64(200))
		}
	}
}

func TestNew_RefusesWhatWouldLoseBlocks(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Blocks.MaxRange = 30 * time.Minute
	db := w.open(o)
	_, err := ship.New(db, w.bucket, ship.Options{Labels: external})
	require.ErrorIs(t, err, ship.ErrMerges)
	require.ErrorContains(t, err, "30m")
	for _, want := range []struct {
		err    error
		change func(o *tsdb.Options)
	}{
		{ship.ErrMerges, func(o *tsdb.Options) { o.Head.OutOfOrderWindow = time.Hour }},
		{ship.ErrRetention, func(o *tsdb.Options) { o.Blocks.Retention = time.Hour }},
		{ship.ErrRetention, func(o *tsdb.Options) { o.Blocks.RetentionBytes = 1 << 30 }},
		{ship.ErrRetention, func(o *tsdb.Options) { o.Blocks.RetentionPercent = 50 }},
	} {
		require.NoError(t, db.Close())
		o := w.options()
		want.change(o)
		db = w.open(o)
		_, err := ship.New(db, w.bucket, ship.Options{Labels: external})
		require.ErrorIs(t, err, want.err)
		require.NoError(t, db.Close())
		db = w.open(w.shipper().Prepare(o))
		_, err = ship.New(db, w.bucket, ship.Options{Labels: external})
		require.NoError(t, err)
	}
	_, err = ship.NewDir("data", w.bucket, ship.Options{})
	require.ErrorIs(t, err, ship.ErrLabels)
	_, err = ship.NewDir("data", w.bucket, ship.Options{Labels: labels.FromStrings("", "x")})
	require.ErrorIs(t, err, ship.ErrLabels)
}

// Blocks are merged when they are uploaded, and not before; hooks that there are go on.
func TestPrepare_MergesWaitForUploads(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	require.NotNil(t, s.Prepare(nil).Blocks.MayMerge)
	before := w.options()
	before.Blocks.MaxRange = 9 * blockRange
	never, told := make(map[string]bool), make(chan tsdb.BlockMeta, 100)
	before.Blocks.MayMerge = func(m tsdb.BlockMeta) bool { return !never[m.ULID.String()] }
	before.Blocks.OnBlock = func(m tsdb.BlockMeta) { told <- m }
	o := s.Prepare(before)
	require.Nil(t, before.Blocks.Keep, "what was given is not changed")
	db := w.open(o)
	_, err := ship.New(db, w.bucket, ship.Options{Labels: external})
	require.NoError(t, err)
	w.blocks(12)
	require.NoError(t, db.Compact(ctx))
	require.Len(t, db.Blocks(), 12)
	w.sync(s, 12)
	w.checkBucket()
	for _, m := range db.Blocks()[:9] {
		never[m.ULID.String()] = true
	}
	require.NoError(t, db.Compact(ctx))
	clear(never)
	require.NoError(t, db.Compact(ctx))
	require.Less(t, len(db.Blocks()), 6)
	w.sync(s, 0)
	require.NoError(t, w.fs.Remove("data/thanos.shipper.json"))
	w.sync(w.shipper(compacted), 0)
	require.Empty(t, reasons(s))
	w.bucket.once(t)
	require.Eventually(t, func() bool { return len(told) > 12 }, time.Minute, time.Millisecond)
}

// Run uploads a block as soon as it is there, and ends with its context.
func TestRun_UploadsAtOnce(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	w.open(s.Prepare(w.options()))
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(running, time.Hour)
	}()
	w.blocks(2)
	require.Eventually(t, func() bool { return s.Stats().Uploads == 2 }, time.Minute, time.Millisecond)
	end()
	<-ended
	w.checkBucket()
	w.bucket.once(t)
}

func TestSync_EndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	ended, end := context.WithCancel(ctx)
	end()
	s := w.shipper()
	_, err := s.Sync(ended)
	require.ErrorIs(t, err, context.Canceled)
	w.sync(s, 1)
	require.Equal(t, uint64(1), s.Stats().SyncFailures)
}

func TestShipper_IsACollector(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(2)
	s := w.shipper()
	w.sync(s, 2)
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(s))
	families, err := r.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	require.Len(t, values, 10)
	require.Equal(t, 2.0, values["thanos_shipper_uploads_total"])
	require.Equal(t, 1.0, values["thanos_shipper_dir_syncs_total"])
	require.Positive(t, values["tsdb_ship_uploaded_bytes_total"])
}

// Where it cannot be read what was uploaded there is no shipper beside the error.
func TestNewDir_WhoseStateCannotBeRead_HasNoShipper(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	w.sync(w.shipper(), 1)
	w.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpOpen && strings.HasSuffix(op.Name, "thanos.shipper.json") {
			return syscall.EIO
		}
		return nil
	})
	s, err := ship.NewDir("data", w.bucket, ship.Options{Labels: external, FS: w.fs})
	require.ErrorIs(t, err, syscall.EIO)
	require.Nil(t, s)
	s, err = ship.New(w.db, w.bucket, ship.Options{Labels: external})
	require.ErrorIs(t, err, syscall.EIO)
	require.Nil(t, s)
	w.fs.SetHook(nil)
	w.sync(w.shipper(), 0)
}

// A missing directory is an error, and one that comes later is not.
func TestNewDir_BeforeThereIsADirectory(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	_, err := s.Sync(ctx)
	require.ErrorContains(t, err, "data")
	w.open(w.options())
	w.blocks(1)
	w.sync(s, 1)
	require.True(t, s.Keep(tsdb.BlockMeta{Stats: w.db.Blocks()[0].Stats}), "an unknown block is kept")
	require.False(t, s.Keep(w.db.Blocks()[0]))
}
