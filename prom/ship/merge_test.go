package ship_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
)

// late makes a block, and one of late samples that overlaps it.
func (w *world) late() {
	w.Helper()
	w.scrape(10)
	app := w.db.Appender()
	_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", "1"), w.clock.Now().Add(-5*time.Minute-time.Second).UnixMilli(), 1)
	require.NoError(w, err)
	_, err = app.Commit(ctx)
	require.NoError(w, err)
	require.NoError(w, w.db.Flush(ctx))
	require.Len(w, w.db.Blocks(), 2)
}

func lateOptions(w *world) *tsdb.Options {
	o := w.options()
	o.Head.OutOfOrderWindow = time.Hour
	return o
}

// Blocks that are seen are held: a merge that does not ask takes none away, and what it makes is
// not uploaded.
func TestSync_MergedAfterTheyWereSeen(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	o := s.Prepare(lateOptions(w))
	o.Blocks.MayMerge = nil
	w.open(o)
	w.late()
	want, names := map[string][]byte{}, []string(nil)
	for _, m := range w.db.Blocks() {
		names = append(names, m.ULID.String())
		require.Eventually(t, func() bool {
			_, err := w.fs.Stat("data/thanos/upload/" + m.ULID.String() + "/meta.json")
			return err == nil
		}, time.Minute, time.Millisecond)
		for _, file := range []string{"/index", "/chunks/000001"} {
			text, err := w.fs.ReadFile("data/" + m.ULID.String() + file)
			require.NoError(t, err)
			want[m.ULID.String()+file] = text
		}
	}
	require.NoError(t, w.db.Compact(ctx))
	require.Len(t, w.db.Blocks(), 1)
	require.Equal(t, 2, w.db.Blocks()[0].Compaction.Level)
	w.sync(w.shipper(), 2) // also by another process
	checkBlocks(t, w.bucket, names, func(name string) ([]byte, error) { return want[name], nil })
	w.sync(w.shipper(compacted), 0)
	w.bucket.once(t)
	require.Empty(t, reasons(s))
	require.NoError(t, w.fs.Remove("data/thanos.shipper.json"))
	w.sync(w.shipper(compacted), 0)
}

// What was merged before anybody saw it is told, and uploaded if that is wanted.
func TestSync_MergedBefore(t *testing.T) {
	w := newWorld(t)
	w.open(lateOptions(w))
	w.late()
	require.NoError(t, w.db.Compact(ctx))
	s := w.shipper()
	w.sync(s, 0)
	require.Len(t, reasons(s), 1)
	require.Contains(t, reasons(s)[0], "Options.Compacted")
	s = w.shipper(compacted)
	w.sync(s, 1)
	require.Empty(t, reasons(s))
	w.checkBucket()
	w.bucket.once(t)
}

// If a part of a merged block is uploaded, and the rest is not, the merged one is not uploaded: its
// reason says what is missing.
func TestSync_MergedOfUploadedAndOthers(t *testing.T) {
	w := newWorld(t)
	w.open(lateOptions(w))
	w.late()
	list := w.db.Blocks()
	w.bucket.before = func(op, name string) error {
		if op == "upload" && strings.HasPrefix(name, list[1].ULID.String()) {
			return errUnavailable
		}
		return nil
	}
	s := w.shipper(compacted)
	_, err := s.Sync(ctx)
	require.ErrorIs(t, err, errUnavailable)
	w.bucket.before = nil
	require.NoError(t, w.db.Compact(ctx))
	for _, name := range w.fs.Files() {
		if strings.HasPrefix(name, "data/thanos/upload/") && !strings.HasSuffix(name, "/") {
			require.NoError(t, w.fs.Remove(name)) // or it would be uploaded from there
		}
	}
	w.sync(s, 0)
	require.Len(t, reasons(s), 1)
	require.Contains(t, reasons(s)[0], list[1].ULID.String())
	require.False(t, s.Keep(w.db.Blocks()[0]))
}

// A block that is removed while it is uploaded is uploaded whole, also by the next one, if this one
// does not come to its end.
func TestSync_RemovedMeanwhile(t *testing.T) {
	for at := 1; at <= 6; at++ {
		w := newWorld(t)
		w.open(w.options())
		w.blocks(2)
		want, names := map[string][]byte{}, []string(nil)
		for _, m := range w.db.Blocks()[:1] { // the newest one stays where the head begins
			names = append(names, m.ULID.String())
		}
		names = append(names, w.db.Blocks()[1].ULID.String())
		for _, name := range w.fs.Files() {
			if text, err := w.fs.ReadFile(name); err == nil {
				want[strings.TrimPrefix(name, "data/")] = text
			}
		}
		uploads := 0
		w.bucket.before = func(op, _ string) error {
			if op != "upload" {
				return nil
			}
			if uploads++; uploads == 1 {
				_, err := w.db.DropBlocks(ctx, w.clock.Now().UnixMilli())
				require.NoError(w, err)
				require.Less(w, len(w.db.Blocks()), 2)
			}
			if uploads == at {
				return errUnavailable
			}
			return nil
		}
		s := w.shipper()
		_, err := s.Sync(ctx)
		require.ErrorIs(t, err, errUnavailable)
		w.bucket.before = nil
		_, err = w.shipper().Sync(ctx)
		require.NoError(t, err)
		checkBlocks(t, w.bucket, names, func(name string) ([]byte, error) { return want[name], nil })
		w.bucket.once(t)
	}
}

// Retention waits for what is to be uploaded, and takes it then.
func TestKeep_RetentionWaits(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	o := w.options()
	o.Blocks.Retention = 20 * time.Minute
	w.open(s.Prepare(o))
	w.bucket.before = func(string, string) error { return errUnavailable }
	w.blocks(6)
	require.NoError(t, w.db.Compact(ctx))
	require.Len(t, w.db.Blocks(), 6)
	_, err := s.Sync(ctx)
	require.ErrorIs(t, err, errUnavailable)
	require.Equal(t, 6, s.Stats().Pending)
	require.NoError(t, w.db.Compact(ctx))
	require.Len(t, w.db.Blocks(), 6)
	w.bucket.before = nil
	w.sync(s, 6)
	w.checkBucket()
	require.NoError(t, w.db.Compact(ctx))
	require.Less(t, len(w.db.Blocks()), 4)
	w.sync(s, 0)
	w.bucket.once(t)
}

// Chunks that Thanos does not know do not get into the bucket, and somebody is told.
func TestSync_ChunksWithStartTimestamps(t *testing.T) {
	w := newWorld(t)
	s := w.shipper()
	w.open(s.Prepare(w.options()))
	w.blocks(1)
	w.scrape(10, func(s *tsdb.Sample) { s.ST = s.T - 1000 })
	require.NoError(t, w.db.Flush(ctx))
	w.blocks(1)
	w.sync(s, 2)
	require.Len(t, reasons(s), 1)
	require.Contains(t, reasons(s)[0], "encoding 4 (XOR2)")
	unsuited := s.Stats().Skipped[0].Block
	for name := range objects(t, w.bucket) {
		require.NotContains(t, name, unsuited.String())
	}
	for _, m := range w.db.Blocks() {
		require.False(t, s.Keep(m), "it would be kept for ever")
	}
	w.sync(s, 0)
	require.Len(t, reasons(s), 1)
	again := w.shipper()
	w.sync(again, 0)
	require.Equal(t, reasons(s), reasons(again))
	w.bucket.once(t)
}

// Blocks that are written anew, as what was deleted in them goes, are uploaded once, like those that
// they take the place of: after these or instead of them.
func TestSync_WrittenAnew(t *testing.T) {
	for _, change := range []func(*ship.Options){compacted, func(*ship.Options) {}} {
		for _, uploadedBefore := range []bool{true, false} {
			w := newWorld(t)
			s := w.shipper(change)
			w.open(s.Prepare(w.options()))
			w.blocks(1)
			if uploadedBefore {
				w.sync(s, 1)
			}
			w.deleteSome()
			n, err := s.Sync(ctx)
			require.NoError(t, err)
			w.sync(w.shipper(change), 0)
			require.Len(t, w.uploadedBlocks(), 1)
			require.Equal(t, !uploadedBefore, n == 1)
			require.Empty(t, reasons(s))
			w.bucket.once(t)
		}
	}
}

// deleteSome deletes a series, so that the blocks are written anew.
func (w *world) deleteSome() {
	w.Helper()
	require.NoError(w, w.db.Delete(ctx, 0, w.clock.Now().UnixMilli(), labels.Equal("i", "3")))
	require.NoError(w, w.db.CleanTombstones(ctx))
	require.Equal(w, 2, w.db.Blocks()[0].Compaction.Level)
}

func (w *world) uploadedBlocks() []string {
	w.Helper()
	blocks := map[string]bool{}
	for name := range objects(w, w.bucket) {
		blocks[strings.Split(name, "/")[0]] = true
	}
	return sortedNames(blocks)
}

// A block is written anew after a kill, before it was written down that it is uploaded.
func TestSync_WrittenAnewAfterAKill(t *testing.T) {
	for _, held := range []bool{true, false} {
		w := newWorld(t)
		w.open(w.options())
		w.blocks(1)
		s := w.shipper()
		w.sync(s, 1)
		w.blocks(1)
		if held {
			w.bucket.after = func(_, name string) error {
				if strings.HasSuffix(name, "meta.json") {
					return errUnavailable // it is there all the same
				}
				return nil
			}
			_, err := s.Sync(ctx)
			require.ErrorIs(t, err, errUnavailable)
			require.NotEmpty(t, w.heldFiles())
			w.bucket.after = nil
		} else {
			w.fs.SetHook(full("data/thanos"))
			_, err := s.Sync(ctx)
			require.ErrorIs(t, err, syscall.ENOSPC)
			w.fs.SetHook(nil)
		}
		w.deleteSome()
		w.sync(w.shipper(), 0)
		require.Len(t, w.uploadedBlocks(), 2)
		w.bucket.once(t)
	}
}

var errUnavailable = errors.New("the bucket is not available")
