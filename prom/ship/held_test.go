package ship_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// away makes all uploads fail.
func away(op, _ string) error {
	if op == "upload" {
		return errUnavailable
	}
	return nil
}

// An error that may pass does not cost what is held, which may be the last there is of a block.
func TestSync_WhatIsHeldCannotBeReadForNow(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(2)
	w.bucket.before = away
	_, err := w.shipper().Sync(ctx)
	require.ErrorIs(t, err, errUnavailable)
	id := w.db.Blocks()[0].ULID.String()
	require.Contains(t, strings.Join(w.heldFiles(), " "), id)
	_, err = w.db.DropBlocks(ctx, w.db.Blocks()[0].MaxTime)
	require.NoError(t, err)
	for at := 1; ; at++ {
		on := &world{TB: t, fs: w.fs.KillClone(), clock: w.clock, db: w.db, bucket: newCounted(objstore.NewInMemBucket())}
		n := 0
		on.fs.SetHook(func(op tsdbtest.Op) error {
			if strings.HasPrefix(op.Name, "data/thanos/upload/"+id) && !op.Kind.Mutates() {
				if n++; n == at {
					return syscall.EMFILE
				}
			}
			return nil
		})
		s := on.shipper()
		_, _ = s.Sync(ctx)
		on.fs.SetHook(nil)
		if n < at {
			require.Greater(t, at, 10)
			return
		}
		_, err := s.Sync(ctx)
		require.NoError(t, err, at)
		require.Contains(t, objects(t, on.bucket), id+"/meta.json", at)
	}
}

// If a file goes of what is held, the block is held anew: the block itself is not damaged.
func TestSync_AFileGoesOfWhatIsHeld(t *testing.T) {
	for _, file := range []string{"index", "meta.json"} {
		w := newWorld(t)
		w.open(w.options())
		w.blocks(1)
		id := w.db.Blocks()[0].ULID.String()
		w.bucket.before = func(op, name string) error {
			if op == "upload" && name == id+"/chunks/000001" {
				return w.fs.Remove("data/thanos/upload/" + id + "/" + file)
			}
			return nil
		}
		s := w.shipper()
		_, err := s.Sync(ctx)
		require.Error(t, err)
		require.NotErrorIs(t, err, tsdb.ErrCorrupt)
		require.ErrorContains(t, err, "data/thanos/upload/"+id)
		w.sync(s, 1)
		require.Empty(t, reasons(s))
		w.checkBucket()
		w.bucket.once(t)
	}
}

// What another uploader has put into the bucket meanwhile stays whole.
func TestSync_DamagedAndUploadedByAnother(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	other := w.fs.KillClone()
	id := w.db.Blocks()[0].ULID.String()
	name := "data/" + id + "/chunks/000001"
	text, err := w.fs.ReadFile(name)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, w.fs.Remove(name))
	require.NoError(t, w.fs.WriteFile(name, text))
	w.bucket.before = func(op, name string) error {
		if op == "upload" {
			on := &world{TB: t, fs: other, clock: w.clock, db: w.db, bucket: newCounted(w.bucket.Bucket)}
			on.sync(on.shipper(), 1)
		}
		return nil
	}
	_, err = w.shipper().Sync(ctx)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	all := objects(t, w.bucket)
	for _, file := range []string{"/meta.json", "/index", "/chunks/000001"} {
		require.Contains(t, all, id+file)
	}
}

// All that is to be uploaded is held before the bucket is asked: nobody knows when it will answer.
func TestSync_HoldsBeforeItAsks(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(3)
	w.bucket.before = func(string, string) error {
		if len(w.db.Blocks()) == 3 {
			for _, m := range w.db.Blocks() {
				require.Contains(t, w.heldFiles(), "data/thanos/upload/"+m.ULID.String()+"/meta.json")
			}
			_, err := w.db.DropBlocks(ctx, w.db.Blocks()[1].MaxTime)
			require.NoError(t, err)
			require.Len(t, w.db.Blocks(), 1)
		}
		return nil
	}
	w.sync(w.shipper(), 3)
	w.bucket.once(t)
	require.Empty(t, w.heldFiles())
}
