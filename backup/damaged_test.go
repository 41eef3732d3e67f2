package backup_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// tear leaves the first part of a manifest, as a kill does where a store keeps parts.
func (w *world) tear(name string) {
	w.Helper()
	w.rewriteManifest(name, func(text string) string { return text[:len(text)/2] })
}

func (w *world) rewriteManifest(name string, change func(string) string) {
	w.Helper()
	path := "backups/backups/" + name + ".json"
	text, err := w.fs.ReadFile(path)
	require.NoError(w, err)
	require.NoError(w, w.fs.Remove(path))
	require.NoError(w, w.fs.WriteFile(path, []byte(change(string(text)))))
}

// passedOver has the names that a call passes over.
func (w *world) passedOver() (*backup.Options, *[]string) {
	var names []string
	o := w.options()
	o.PassedOver = func(name string, damage error) {
		require.ErrorIs(w, damage, tsdb.ErrCorrupt)
		require.ErrorContains(w, damage, name)
		names = append(names, name)
	}
	return o, &names
}

// takeSeveral takes backups that have something of their own each, and returns their names and what
// is in them.
func (w *world) takeSeveral(n int) (names []string, want map[string]map[string][]string) {
	w.Helper()
	want = map[string]map[string][]string{}
	for range n {
		w.scrape(15)
		require.NoError(w, w.db.Compact(ctx))
		r := w.take()
		names = append(names, r.Name)
		want[r.Name] = dump(w, w.db)
	}
	return names, want
}

func TestRestore_PassesOverDamagedManifests(t *testing.T) {
	w := newWorld(t)
	names, want := w.takeSeveral(4)
	w.tear(names[3])
	w.rewriteManifest(names[2], func(string) string { return "" })

	o, over := w.passedOver()
	b, err := backup.Restore(ctx, w.store, "", "newest", o)
	require.NoError(t, err)
	require.Equal(t, names[1], b.Name)
	require.Equal(t, []string{names[3], names[2]}, *over)
	require.Equal(t, want[names[1]], w.restored(names[1]))

	o, over = w.passedOver()
	name, err := backup.At(ctx, w.store, w.clock.Now(), o)
	require.NoError(t, err)
	require.Equal(t, names[1], name)
	require.Len(t, *over, 2)
	o, over = w.passedOver()
	at, err := time.Parse("20060102T150405.000Z", names[0])
	require.NoError(t, err)
	name, err = backup.At(ctx, w.store, at, o)
	require.NoError(t, err)
	require.Equal(t, names[0], name)
	require.Empty(t, *over, "they are later")

	_, err = backup.Restore(ctx, w.store, names[3], "named", w.options())
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, names[3])
	_, err = w.fs.Stat("named")
	require.ErrorIs(t, err, fs.ErrNotExist)

	list, err := backup.List(ctx, w.store)
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i, b := range list {
		require.Equal(t, names[i], b.Name)
		require.Equal(t, names[i], b.Time.Format("20060102T150405.000Z"))
		if i < 2 {
			require.NoError(t, b.Damaged)
			require.Positive(t, b.Files)
		} else {
			require.ErrorIs(t, b.Damaged, tsdb.ErrCorrupt)
			require.Zero(t, b.Files)
		}
	}

	w.tear(names[0])
	w.tear(names[1])
	o, over = w.passedOver()
	_, err = backup.Restore(ctx, w.store, "", "none", o)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, names[3], "the newest")
	require.Len(t, *over, 4)
	_, err = backup.At(ctx, w.store, at, nil)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, names[0])
}

func TestPrune_DoesNotCountDamagedManifests(t *testing.T) {
	w := newWorld(t)
	names, want := w.takeSeveral(6)
	w.tear(names[0])
	w.tear(names[3])
	w.tear(names[5])
	before := w.fs.Files()

	o, over := w.passedOver()
	p, err := backup.Prune(ctx, w.store, 2, o) // 2 and 4 stay, and 3 and 5
	require.NoError(t, err)
	require.Equal(t, names[:2], p.Backups)
	require.Zero(t, p.Objects, "a damaged one may have them")
	require.Len(t, w.fs.Files(), len(before)-2)
	require.Equal(t, []string{names[5], names[3]}, *over)
	disk := w.fs.KillClone()
	on := &world{T: t, fs: disk, clock: w.clock, store: backup.NewDirStore("backups", disk)}
	for _, name := range []string{names[2], names[4]} {
		require.Equal(t, want[name], on.restored(name))
	}

	problems, err := backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Len(t, problems, 2)
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()))
	problems, err = backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	list, err := backup.List(ctx, w.store)
	require.NoError(t, err)
	require.Len(t, list, 2)

	p, err = backup.Prune(ctx, w.store, 2, w.options())
	require.NoError(t, err)
	require.Empty(t, p.Backups)
	require.Positive(t, p.Objects, "now nobody has them")
	for _, name := range []string{names[2], names[4]} {
		require.Equal(t, want[name], w.restored(name))
	}
}

// As long as there are too few good ones nothing goes; what is only damaged is no reason to fail.
func TestPrune_OfTooFewGoodBackups(t *testing.T) {
	w := newWorld(t)
	names, want := w.takeSeveral(2)
	w.tear(names[0])
	p, err := backup.Prune(ctx, w.store, 2, w.options())
	require.NoError(t, err)
	require.Zero(t, p)
	require.Equal(t, want[names[1]], w.restored(names[1]))
	p, err = backup.Prune(ctx, w.store, 1, w.options())
	require.NoError(t, err)
	require.Equal(t, names[:1], p.Backups)
	w.tear(names[1])
	p, err = backup.Prune(ctx, w.store, 1, w.options())
	require.NoError(t, err)
	require.Zero(t, p)
}

// What an interrupted Put leaves goes with the next Prune, whatever it was a part of, and whether
// manifests are damaged or not.
func TestPrune_RemovesWhatWasNeverWhole(t *testing.T) {
	w := newWorld(t)
	names, _ := w.takeSeveral(2)
	w.tear(names[1])
	for _, name := range []string{"backups/backups/20270101T000000.000Z.json.tmp-backup", "backups/objects/ab/abc.tmp-backup"} {
		require.NoError(t, w.fs.MkdirAll(filepath.Dir(name)))
		require.NoError(t, w.fs.WriteFile(name, []byte("x")))
	}
	p, err := backup.Prune(ctx, w.store, 2, w.options())
	require.NoError(t, err)
	require.Equal(t, 2, p.Objects)
	for _, name := range w.fs.Files() {
		require.NotContains(t, name, "tmp-backup")
	}
}

// What was mended since it was found to be damaged stays.
func TestRemoveDamaged_LeavesWhatIsWholeByNow(t *testing.T) {
	w := newWorld(t)
	names, want := w.takeSeveral(2)
	whole := w.fs.KillClone()
	w.tear(names[0])
	for _, name := range w.fs.Files() {
		if strings.HasPrefix(name, "backups/objects/") {
			require.NoError(t, w.fs.Remove(name))
			require.NoError(t, w.fs.WriteFile(name, []byte("other")))
		}
	}
	problems, err := backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Greater(t, len(problems), 5)
	on := &world{T: t, fs: whole, clock: w.clock, store: backup.NewDirStore("backups", whole)}
	before := whole.Files()
	require.NoError(t, backup.RemoveDamaged(ctx, on.store, problems, on.options()))
	require.Subset(t, whole.Files(), before)
	for _, name := range names {
		require.Equal(t, want[name], on.restored(name))
	}
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()))
	list, err := backup.List(ctx, w.store)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()), "it is gone already")
}

// A manifest of a later version is not damaged: nothing is chosen in its place, and it stays.
func TestManifest_OfALaterVersion(t *testing.T) {
	w := newWorld(t)
	names, _ := w.takeSeveral(2)
	w.rewriteManifest(names[1], func(text string) string { return strings.Replace(text, `"version": 1`, `"version": 2`, 1) })
	o, over := w.passedOver()
	_, err := backup.Restore(ctx, w.store, "", "restored", o)
	require.ErrorIs(t, err, tsdb.ErrUnsupported)
	_, err = backup.Prune(ctx, w.store, 1, o)
	require.ErrorIs(t, err, tsdb.ErrUnsupported)
	require.Empty(t, *over)
	problems, err := backup.Verify(ctx, w.store, nil)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()))
	_, err = w.fs.Stat("backups/backups/" + names[1] + ".json")
	require.NoError(t, err)
	list, err := backup.List(ctx, w.store)
	require.ErrorIs(t, err, tsdb.ErrUnsupported)
	require.Len(t, list, 1)
}

// unreadStore cannot read manifests.
type unreadStore struct {
	backup.Store
	err error
}

func (s *unreadStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.HasPrefix(name, "backups/") {
		return nil, s.err
	}
	return s.Store.Get(ctx, name)
}

// What cannot be read just now is not damaged: no older backup is taken for the newest, and nothing
// is removed.
func TestManifest_ThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.takeSeveral(2)
	unread := errors.New("unread")
	store := &unreadStore{w.store, unread}
	before := w.fs.Files()
	o, over := w.passedOver()
	_, err := backup.Restore(ctx, store, "", "restored", o)
	require.ErrorIs(t, err, unread)
	_, err = backup.At(ctx, store, w.clock.Now(), o)
	require.ErrorIs(t, err, unread)
	_, err = backup.Prune(ctx, store, 1, o)
	require.ErrorIs(t, err, unread)
	list, err := backup.List(ctx, store)
	require.ErrorIs(t, err, unread)
	require.Empty(t, list)
	problems, err := backup.Verify(ctx, store, nil)
	require.NoError(t, err)
	require.Len(t, problems, 2)
	require.NoError(t, backup.RemoveDamaged(ctx, store, problems, o))
	torn := problems[0]
	torn.Err = tsdb.ErrCorrupt // as it was, when it could be read
	require.ErrorIs(t, backup.RemoveDamaged(ctx, store, []backup.Problem{torn}, o), unread)
	require.Subset(t, w.fs.Files(), before)
	require.Empty(t, *over)
}

// A text that is no name of a backup leads to no file.
func TestManifest_OfNoName(t *testing.T) {
	w := newWorld(t)
	w.takeSeveral(1)
	require.NoError(t, w.fs.WriteFile("mine.json", []byte("no manifest")))
	const name = "../../mine"
	_, err := backup.Restore(ctx, w.store, name, "restored", w.options())
	require.ErrorIs(t, err, fs.ErrNotExist)
	problems, err := backup.Verify(ctx, w.store, nil, name)
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0].Err, fs.ErrNotExist)
	problems[0].Err = tsdb.ErrCorrupt
	require.NoError(t, backup.RemoveDamaged(ctx, w.store, problems, w.options()))
	_, err = w.fs.Stat("mine.json")
	require.NoError(t, err)
}

// A Take goes on behind a damaged manifest: the newest whole one says what need not be read again,
// and the name is a later one.
func TestTake_BehindADamagedManifest(t *testing.T) {
	w := newWorld(t)
	names, _ := w.takeSeveral(3)
	w.tear(names[2])
	r, err := backup.Take(ctx, "data", w.store, &backup.Options{FS: w.fs, Clock: tsdbtest.NewClock(time.UnixMilli(0))})
	require.NoError(t, err)
	require.Greater(t, r.Name, names[2])
	require.Zero(t, r.StoredBytes)
	require.Equal(t, dump(t, w.db), w.restored(""))
}
