package ship_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// failures are what can go wrong with an operation on a bucket.
var failures = map[string]func(b *countedBucket, at int, done *int){
	"not done": func(b *countedBucket, at int, done *int) {
		b.before = func(string, string) error {
			if *done++; *done == at {
				return errors.New("the bucket failed")
			}
			return nil
		}
	},
	"done, and not told": func(b *countedBucket, at int, done *int) {
		b.after = func(string, string) error {
			if *done++; *done == at {
				return errors.New("the bucket failed")
			}
			return nil
		}
	},
	"everything from then on": func(b *countedBucket, at int, done *int) {
		b.before = func(string, string) error {
			if *done++; *done >= at {
				return errors.New("the bucket failed")
			}
			return nil
		}
	},
}

// A bucket that fails at any operation has every block in the end, and what it has already is not
// uploaded again; by the same Shipper, or by another one that has nothing but the disk.
func TestSync_BucketFailsAnywhere(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(2)
	for name, fail := range failures {
		for _, other := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				for at := 1; ; at++ {
					on := &world{TB: t, fs: w.fs.KillClone(), clock: w.clock, db: w.db, bucket: newCounted(objstore.NewInMemBucket())}
					done := 0
					fail(on.bucket, at, &done)
					s := on.shipper()
					first, err := s.Sync(ctx)
					on.bucket.before, on.bucket.after = nil, nil
					if done < at {
						require.NoError(t, err)
						require.Greater(t, at, 9)
						return
					}
					require.ErrorContains(t, err, "the bucket failed", at)
					if other {
						s = on.shipper()
					}
					second, err := s.Sync(ctx)
					require.NoError(t, err)
					require.GreaterOrEqual(t, 2, first+second)
					on.checkBucket()
					on.bucket.once(t)
					on.sync(s, 0)
					require.Equal(t, 0, s.Stats().Pending)
				}
			})
		}
	}
}

// cutBucket stops in the middle of an upload, as a bucket that is a directory does when the process
// is killed: a part of the object is there.
type cutBucket struct {
	objstore.Bucket
	at, uploads int
}

func (b *cutBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	if b.uploads++; b.uploads != b.at {
		return b.Bucket.Upload(ctx, name, r, o...)
	}
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := b.Bucket.Upload(ctx, name, strings.NewReader(string(all[:len(all)/2])), o...); err != nil {
		return err
	}
	return errors.New("cut")
}

// A part of an object is not taken for it, be it of the meta file.
func TestSync_APartOfAnObjectIsUploadedAgain(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	for at := 1; ; at++ {
		inner, err := filesystem.NewBucket(t.TempDir())
		require.NoError(t, err)
		cut := &cutBucket{Bucket: inner, at: at}
		on := &world{TB: t, fs: w.fs.KillClone(), clock: w.clock, db: w.db, bucket: newCounted(cut)}
		_, err = on.shipper().Sync(ctx)
		if cut.uploads < at {
			require.NoError(t, err)
			require.Equal(t, 4, at, "chunks, index, meta file")
			return
		}
		require.ErrorContains(t, err, "cut")
		on.sync(on.shipper(), 1)
		on.checkBucket()
	}
}

// An end at any operation on the data directory, by a kill or a power failure, costs nothing: what
// was uploaded is found again.
func TestSync_EndsAnywhere(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(2)
	for at := 1; ; at++ {
		disk := w.fs.KillClone()
		n, cuts := 0, []*tsdbtest.MemFS(nil)
		disk.SetHook(func(op tsdbtest.Op) error {
			if !op.Kind.Mutates() {
				return nil
			}
			if n++; n >= at {
				if cuts == nil {
					cuts = []*tsdbtest.MemFS{disk.KillClone(), disk.CrashClone(tsdbtest.CrashOptions{})}
				}
				return errors.New("cut")
			}
			return nil
		})
		on := &world{TB: t, fs: disk, clock: w.clock, db: w.db, bucket: newCounted(objstore.NewInMemBucket())}
		_, err := on.shipper().Sync(ctx)
		disk.SetHook(nil)
		if cuts == nil {
			require.NoError(t, err)
			require.Greater(t, at, 20)
			return
		}
		uploaded := objects(t, on.bucket)
		for _, disk := range append(cuts, disk) {
			bucket := objstore.NewInMemBucket()
			for name, text := range uploaded {
				require.NoError(t, bucket.Upload(ctx, name, strings.NewReader(string(text))))
			}
			again := &world{TB: t, fs: disk, clock: w.clock, db: w.db, bucket: newCounted(bucket)}
			_, err := again.shipper().Sync(ctx)
			require.NoError(t, err, "at %d", at)
			again.checkBucket()
			for name := range again.bucket.uploads {
				require.NotContains(t, uploaded, name, "at %d", at)
			}
			again.sync(again.shipper(), 0)
		}
	}
}

// Without its state file, or with one that is damaged, a Shipper asks the bucket: for blocks by
// their names, and for those that Thanos has merged since, and removed.
func TestSync_StateIsLost(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(3)
	w.sync(w.shipper(), 3)
	list := w.db.Blocks()
	merged := `{"ulid":"7ZZZZZZZZZZZZZZZZZZZZZZZZZ","minTime":0,"maxTime":1,"stats":{"numSamples":1},"compaction":{"level":2,"sources":["` +
		list[0].ULID.String() + `","` + list[1].ULID.String() + `"]},"version":1,"thanos":{"version":1}}`
	require.NoError(t, w.bucket.Bucket.Upload(ctx, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ/meta.json", strings.NewReader(merged)))
	for name := range objects(t, w.bucket) {
		if strings.HasPrefix(name, list[0].ULID.String()) || strings.HasPrefix(name, list[1].ULID.String()) {
			require.NoError(t, w.bucket.Bucket.Delete(ctx, name))
		}
	}
	for _, text := range []string{"", "gone", "{", `{"version":2,"uploaded":[]}`, `{"version":1,"uploaded":["x"]}`} {
		disk := w.fs.KillClone()
		require.NoError(t, disk.Remove("data/thanos.shipper.json"))
		if text != "gone" {
			require.NoError(t, disk.WriteFile("data/thanos.shipper.json", []byte(text)))
		}
		on := &world{TB: t, fs: disk, clock: w.clock, db: w.db, bucket: w.bucket}
		s := on.shipper()
		on.sync(s, 0)
		for _, m := range list {
			require.False(t, s.Keep(m))
		}
		on.sync(on.shipper(), 0)
	}
	w.bucket.once(t)
}

// A damaged block is named, and keeps the others from nothing.
func TestSync_DamagedBlocks(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(3)
	id := w.db.Blocks()[1].ULID.String()
	for _, file := range []string{"meta.json", "index", "chunks/000001"} {
		for _, how := range []string{"flip", "cut", "gone", "longer"} {
			if file == "index" && how == "flip" {
				continue // of the index only its begin and its end are looked at
			}
			t.Run(file+" "+how, func(t *testing.T) {
				on := &world{TB: t, fs: w.fs.KillClone(), clock: w.clock, db: w.db, bucket: newCounted(objstore.NewInMemBucket())}
				name := "data/" + id + "/" + file
				text, err := on.fs.ReadFile(name)
				require.NoError(t, err)
				switch how {
				case "flip":
					text[len(text)/2] ^= 1
				case "cut":
					text = text[:len(text)-1]
				case "longer":
					text = append(text, 'x')
				}
				require.NoError(t, on.fs.Remove(name))
				if how != "gone" {
					require.NoError(t, on.fs.WriteFile(name, text))
				}
				s := on.shipper()
				n, err := s.Sync(ctx)
				require.ErrorContains(t, err, id)
				require.Equal(t, 2, n)
				require.Len(t, s.Stats().Skipped, 1)
				before := len(on.bucket.order)
				on.sync(s, 0) // it is told once, and sent once
				require.Len(t, on.bucket.order, before)
				require.Len(t, s.Stats().Skipped, 1)
				require.False(t, s.Stats().LastSync.IsZero())
				require.False(t, s.Keep(w.db.Blocks()[1]))
				_, err = on.shipper().Sync(ctx)
				require.ErrorContains(t, err, id)
				for name := range objects(t, on.bucket) {
					require.NotContains(t, name, id)
				}
			})
		}
	}
}

// sizedBucket reads as many bytes of an object as it is told that there are, as some providers do.
type sizedBucket struct{ objstore.Bucket }

func (b *sizedBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	size, err := objstore.TryToGetSize(r)
	if err != nil {
		return err
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return b.Bucket.Upload(ctx, name, strings.NewReader(string(text)), o...)
}

// Damage is seen by who does not read up to the end of a file, too.
func TestSync_OfABucketThatGoesBySizes(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(2)
	id := w.db.Blocks()[0].ULID.String()
	for _, file := range []string{"", "index", "chunks/000001"} {
		on := &world{TB: t, fs: w.fs.KillClone(), clock: w.clock, db: w.db, bucket: newCounted(&sizedBucket{objstore.NewInMemBucket()})}
		if file == "" {
			on.sync(on.shipper(), 2)
			on.checkBucket()
			continue
		}
		name := "data/" + id + "/" + file
		text, err := on.fs.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, on.fs.Remove(name))
		require.NoError(t, on.fs.WriteFile(name, text[:len(text)-1]))
		n, err := on.shipper().Sync(ctx)
		require.ErrorIs(t, err, tsdb.ErrCorrupt)
		require.ErrorContains(t, err, "ends in the middle")
		require.Equal(t, 1, n)
		for name := range objects(t, on.bucket) {
			require.NotContains(t, name, id)
		}
	}
}

// A chunk file that is missing among others is damage.
func TestSync_AChunkFileIsMissing(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	dir := "data/" + w.db.Blocks()[0].ULID.String() + "/chunks/"
	text, err := w.fs.ReadFile(dir + "000001")
	require.NoError(t, err)
	require.NoError(t, w.fs.WriteFile(dir+"000003", text))
	_, err = w.shipper().Sync(ctx)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, "000002 is missing")
	require.Empty(t, objects(t, w.bucket))
}

// Where there are no links a block is uploaded from where it is; if it goes meanwhile that is no
// error, and no other one waits for it.
func TestSync_WithoutLinks(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(3)
	w.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpLink {
			return errors.New("no links")
		}
		return nil
	})
	gone := w.db.Blocks()[0]
	w.bucket.after = func(op, name string) error {
		if op == "upload" && name == gone.ULID.String()+"/chunks/000001" {
			n, err := w.db.DropBlocks(ctx, gone.MaxTime)
			require.NoError(t, err)
			require.Equal(t, 1, n)
		}
		return nil
	}
	s := w.shipper()
	w.sync(s, 2)
	require.Zero(t, s.Stats().Pending)
	require.Zero(t, s.Stats().UploadFailures)
	w.sync(s, 0)
	all := objects(t, w.bucket)
	require.NotContains(t, all, gone.ULID.String()+"/meta.json")
	for name := range all { // Thanos removes such parts
		if strings.HasPrefix(name, gone.ULID.String()) {
			require.NoError(t, w.bucket.Delete(ctx, name))
		}
	}
	w.checkBucket()
}

// While a meta file cannot be read nobody knows what the block was made of: what is uploaded of that
// is not forgotten.
func TestSync_AMetaFileThatCannotBeReadForNow(t *testing.T) {
	w := newWorld(t)
	w.open(lateOptions(w))
	w.late()
	w.sync(w.shipper(), 2)
	require.NoError(t, w.db.Compact(ctx))
	id := w.db.Blocks()[0].ULID.String()
	w.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Name == "data/"+id+"/meta.json" && !op.Kind.Mutates() {
			return syscall.EIO
		}
		return nil
	})
	s := w.shipper(compacted)
	for range 3 {
		w.blocks(1)
		n, err := s.Sync(ctx)
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, 1, n)
	}
	w.fs.SetHook(nil)
	w.sync(s, 0)
	w.sync(w.shipper(compacted), 0)
	w.bucket.once(t)
}

// What Thanos removes of a block, as nobody has completed it for long, is uploaded again.
func TestSync_APartIsRemovedMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.open(w.options())
	w.blocks(1)
	chunks := w.db.Blocks()[0].ULID.String() + "/chunks/000001"
	w.bucket.before = func(op, name string) error {
		if op == "upload" && name != chunks {
			return errUnavailable
		}
		return nil
	}
	s := w.shipper()
	_, err := s.Sync(ctx)
	require.ErrorIs(t, err, errUnavailable)
	w.bucket.before = func(op, name string) error {
		if op == "upload" && strings.HasSuffix(name, "/index") {
			return w.bucket.Bucket.Delete(ctx, chunks)
		}
		return nil
	}
	_, err = s.Sync(ctx)
	require.ErrorContains(t, err, chunks)
	w.bucket.before = nil
	w.sync(s, 1)
	w.checkBucket()
}
