package ship_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// full lets nothing be written any more below some names.
func full(names ...string) func(tsdbtest.Op) error {
	return func(op tsdbtest.Op) error {
		switch op.Kind {
		case tsdbtest.OpCreate, tsdbtest.OpMkdirAll, tsdbtest.OpWrite:
			for _, name := range names {
				if strings.HasPrefix(op.Name, name) {
					return syscall.ENOSPC
				}
			}
		}
		return nil
	}
}

// heldFiles are those of the blocks that are held.
func (w *world) heldFiles() (list []string) {
	for _, name := range w.fs.Files() {
		if strings.HasPrefix(name, "data/thanos/upload/") && !strings.HasSuffix(name, "/") {
			list = append(list, name)
		}
	}
	return list
}

// On a full disk blocks are uploaded, and what is held of them makes room again. That they are
// uploaded is written down later, or found out after a kill.
func TestSync_OnAFullDisk(t *testing.T) {
	for _, where := range []string{"data/thanos.shipper.json", "data/thanos/upload", "data/thanos"} {
		w := newWorld(t)
		w.open(w.options())
		w.blocks(2)
		w.bucket.before = func(op, _ string) error {
			if op == "upload" {
				return errUnavailable
			}
			return nil
		}
		s := w.shipper()
		_, err := s.Sync(ctx)
		require.ErrorIs(t, err, errUnavailable)
		require.NotEmpty(t, w.heldFiles())
		w.bucket.before = nil
		w.blocks(1)
		w.fs.SetHook(full(where))
		n, err := s.Sync(ctx)
		require.Equal(t, 3, n)
		require.Empty(t, w.heldFiles())
		w.checkBucket()
		require.Equal(t, uint64(1), s.Stats().UploadFailures)
		if where != "data/thanos/upload" { // the list is written beside it
			require.ErrorIs(t, err, syscall.ENOSPC)
			n, err = s.Sync(ctx)
			require.Zero(t, n)
			require.ErrorIs(t, err, syscall.ENOSPC)
		} else {
			require.NoError(t, err)
		}
		disk := w.fs.KillClone()
		killed := &world{TB: t, fs: disk, clock: w.clock, db: w.db, bucket: w.bucket}
		killed.sync(killed.shipper(), 0)
		w.fs.SetHook(nil)
		w.sync(s, 0)
		_, err = w.fs.Stat("data/thanos.shipper.json")
		require.NoError(t, err)
		w.bucket.once(t)
	}
}

// While it is not written down what is uploaded, it is not merged: after a kill nobody would know
// what the merged block has.
func TestPrepare_MergesWaitForTheList(t *testing.T) {
	w := newWorld(t)
	w.mergedBlocks()
	s := w.shipper(compacted)
	db := w.open(s.Prepare(mergeOn(w)))
	w.fs.SetHook(full("data/thanos"))
	n, err := s.Sync(ctx)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, 4, n)
	require.NoError(t, db.Compact(ctx))
	require.Len(t, db.Blocks(), 4)
	w.fs.SetHook(nil)
	w.sync(s, 0)
	require.NoError(t, db.Compact(ctx))
	require.Len(t, db.Blocks(), 2)
	w.sync(w.shipper(compacted), 0)
	w.bucket.once(t)
}
