package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Options are about all calls. The zero value of each field means its default.
type Options struct {
	// FS has the data directory. Default: the operating system's.
	FS tsdb.FS
	// Clock tells the time of a backup. Default: the system's.
	Clock tsdb.Clock
	// Progress is called now and then with the bytes that are done, and those that there are. By
	// one goroutine at a time.
	Progress func(done, total int64)
	// PassedOver is told of each backup that Restore and At do not choose, and that Prune does not
	// count, because its manifest is damaged, and of the damage. Default: nobody is.
	PassedOver func(name string, damage error)
}

func (o *Options) withDefaults() Options {
	var c Options
	if o != nil {
		c = *o
	}
	defaults := tsdb.DefaultOptions()
	if c.FS == nil {
		c.FS = defaults.FS
	}
	if c.Clock == nil {
		c.Clock = defaults.Clock
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	if c.PassedOver == nil {
		c.PassedOver = func(string, error) {}
	}
	return c
}

// Result says what Take did.
type Result struct {
	Backup
	StoredFiles int   // that the store did not have
	StoredBytes int64 // of them
	ReadBytes   int64 // of the directory, to know what is new
	// Damaged are blocks that lack a file, and are backed up as they are.
	Damaged []string
}

// Take backs up a data directory, which may be in use. On an error, or when the process ends, there
// is no new backup, and those before are whole; the next Take goes on with what is stored.
//
// One Take, Prune or RemoveDamaged at a time may write to a store: in a directory the second one
// gets tsdb.ErrLocked. Errors: fs.ErrNotExist, if there is no data directory; those of the store
// and of the file system; the context's.
func Take(ctx context.Context, dir string, store Store, opts *Options) (Result, error) {
	o := opts.withDefaults()
	unlock, err := lockStore(store, o.Clock.Now())
	if err != nil {
		return Result{}, err
	}
	t := &taking{ctx: ctx, o: &o, dir: dir, store: store, files: map[string]file{}}
	err = t.take()
	return t.result, joined(err, unlock())
}

// lockStore keeps a store that can be kept.
func lockStore(store Store, now time.Time) (unlock func() error, _ error) {
	if l, ok := store.(locker); ok {
		return l.lock(now)
	}
	return func() error { return nil }, nil
}

// taking is one Take.
type taking struct {
	ctx   context.Context
	o     *Options
	dir   string
	store Store

	objects map[string]int64 // by hash: sizes of what the store has
	known   map[string]file  // by path: those of the last backup, and those that were read since
	newest  string           // the name of the newest backup
	files   map[string]file  // of this one
	done    int64
	total   int64
	result  Result
}

func (t *taking) take() error {
	if _, err := t.o.FS.ReadDir(t.dir); err != nil {
		return errors.WithMessage(err, "back up")
	}
	if err := t.look(); err != nil {
		return err
	}
	// In this order nothing is missed that moves on meanwhile: see docs/design/backup.md.
	for _, part := range []func() error{t.headChunks, t.log("wbl"), t.log("wal"), t.blocks} {
		if err := t.retry(part); err != nil {
			return err
		}
	}
	if len(t.files) == 0 {
		return errors.Errorf("back up: %s is no data directory, or an empty one", t.dir)
	}
	if err := syncStore(t.store, t.objectDirs()); err != nil {
		return errors.WithMessage(err, "back up: sync what is stored")
	}
	now := t.o.Clock.Now().UTC().Truncate(time.Millisecond)
	if last, err := time.Parse(nameLayout, t.newest); err == nil && !now.After(last) {
		now = last.Add(time.Millisecond) // the clock went back: order counts
	}
	m := manifest{Version: formatVersion, Time: now}
	for _, name := range sortedKeys(t.files) {
		m.Files = append(m.Files, t.files[name])
	}
	text, err := m.encode()
	if err != nil {
		return err
	}
	name := now.Format(nameLayout)
	if err := t.store.Put(t.ctx, manifestsPrefix+name+manifestSuffix, bytes.NewReader(text)); err != nil {
		return errors.WithMessage(err, "back up: write the manifest")
	}
	t.result.Backup = m.backup(name)
	return nil
}

// look sees what the store has.
func (t *taking) look() error {
	t.objects, t.known = map[string]int64{}, map[string]file{}
	err := t.store.List(t.ctx, objectsPrefix, func(name string, size int64) error {
		t.objects[path.Base(name)] = size
		return nil
	})
	if err != nil {
		return errors.WithMessage(err, "list what is stored")
	}
	names, err := listNames(t.ctx, t.store)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		t.newest = names[len(names)-1]
	}
	for i := len(names) - 1; i >= 0; i-- {
		m, err := loadManifest(t.ctx, t.store, names[i])
		if err != nil {
			continue // Verify tells of it; without it more is read
		}
		for _, f := range m.Files {
			t.known[f.Path] = f
		}
		break
	}
	t.total, err = fileutil.TreeSize(t.o.FS, t.dir)
	return err
}

// tries is how often a part is listed anew because a file of it went, or changed, meanwhile.
const tries = 20

// retry takes a part that changes meanwhile.
func (t *taking) retry(part func() error) (err error) {
	for n := 0; n < tries; n++ {
		before := len(t.known)
		t.result.Damaged = nil
		err = part()
		if !isGone(err) && !errors.Is(err, errChanged) {
			return err
		}
		if len(t.known) > before {
			n = 0 // what is new was read, and is not read again
		}
	}
	return errors.WithMessagef(err, "back up: %d times", tries)
}

// headChunks takes the files of full chunks. One that goes meanwhile has what blocks have by now.
func (t *taking) headChunks() error {
	entries, err := t.o.FS.ReadDir(filepath.Join(t.dir, "chunks_head"))
	if err != nil {
		return fileutil.IgnoreNotExist(err)
	}
	for _, e := range entries {
		if !e.IsDir() && isNumber(e.Name()) {
			if err := fileutil.IgnoreNotExist(t.file(path.Join("chunks_head", e.Name()), false)); err != nil {
				return err
			}
		}
	}
	return nil
}

// log takes a log: its newest checkpoint and its segments.
func (t *taking) log(name string) func() error {
	return func() error {
		t.forget(name + "/")
		entries, err := t.segments(name)
		if err != nil {
			return fileutil.IgnoreNotExist(err)
		}
		newest := ""
		for _, e := range entries {
			if number, ok := strings.CutPrefix(e.Name(), "checkpoint."); ok && e.IsDir() && isNumber(number) && e.Name() > newest {
				newest = e.Name()
			}
		}
		if newest != "" {
			if err := t.directory(path.Join(name, newest), false); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if !e.IsDir() && isNumber(e.Name()) {
				if err := t.file(path.Join(name, e.Name()), false); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// segments lists a log. A listing that was made while files went may lack some; one that says the
// same twice does not.
func (t *taking) segments(name string) (entries []fs.DirEntry, err error) {
	var before string
	for range tries {
		if entries, err = t.o.FS.ReadDir(filepath.Join(t.dir, name)); err != nil {
			return nil, err
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		now := strings.Join(names, "/")
		if now == before {
			return entries, nil
		}
		before = now
	}
	return nil, errChanged
}

// blocks takes all blocks. One that is replaced meanwhile is there under another name.
func (t *taking) blocks() error {
	entries, err := t.o.FS.ReadDir(t.dir)
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, e := range entries {
		id, err := ulid.ParseStrict(e.Name())
		if err != nil || id.String() != e.Name() || !e.IsDir() {
			continue
		}
		taken[e.Name()] = true
		err = t.block(e.Name(), false)
		if isGone(err) && t.has(e.Name()) {
			if !t.has(e.Name(), "meta.json") {
				t.forget(e.Name() + "/")
				continue // it is there, and no block
			}
			err = t.block(e.Name(), true)
		}
		if err != nil {
			return err
		}
	}
	for name := range t.files {
		if id, _, _ := strings.Cut(name, "/"); len(id) == ulid.EncodedSize && !taken[id] {
			delete(t.files, name) // by an earlier try
		}
	}
	return nil
}

// has reports whether something is there.
func (t *taking) has(parts ...string) bool {
	_, err := t.o.FS.Stat(filepath.Join(append([]string{t.dir}, parts...)...))
	return err == nil
}

// block takes a block. What never changes of it comes last: when that is there the rest was, too,
// and a block that goes meanwhile is not taken without what was deleted of it. damaged: it is taken
// as it is, although something is missing.
func (t *taking) block(id string, damaged bool) error {
	t.forget(id + "/")
	meta := path.Join(id, "meta.json")
	before := t.known[meta]
	if err := t.file(meta, false); err != nil {
		return err
	}
	for _, name := range []string{"meta.json.crc", "tombstones"} {
		if err := fileutil.IgnoreNotExist(t.file(path.Join(id, name), false)); err != nil {
			return err
		}
	}
	// Under another meta file it may be another block, of another directory.
	fixed := before == t.files[meta]
	index := t.file(path.Join(id, "index"), fixed)
	if index != nil && !(damaged && isGone(index)) {
		return index
	}
	chunks := t.directory(path.Join(id, "chunks"), fixed)
	if chunks != nil && !(damaged && isGone(chunks)) {
		return chunks
	}
	if index != nil || chunks != nil {
		t.result.Damaged = append(t.result.Damaged, id)
	}
	return nil
}

// directory takes the numbered files of a directory.
func (t *taking) directory(name string, fixed bool) error {
	entries, err := t.o.FS.ReadDir(filepath.Join(t.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() && isNumber(e.Name()) {
			if err := t.file(path.Join(name, e.Name()), fixed); err != nil {
				return err
			}
		}
	}
	return nil
}

// file takes a file as it is now. fixed: it is known that it does not change under its name.
func (t *taking) file(name string, fixed bool) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	f, err := t.o.FS.Open(filepath.Join(t.dir, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	err = t.open(f, name, fixed)
	return errors.WithMessage(joined(err, f.Close()), name)
}

func (t *taking) open(f fileutil.File, name string, fixed bool) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	defer func() {
		t.done = min(t.done+size, t.total)
		t.o.Progress(t.done, t.total)
	}()
	if old, ok := t.known[name]; ok && fixed && old.Size == size && t.stored(old) {
		t.files[name] = old
		return nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, t.reader(f, size)); err != nil {
		return err
	}
	t.result.ReadBytes += size
	entry := file{name, size, hex.EncodeToString(h.Sum(nil))}
	if !t.stored(entry) {
		h.Reset()
		object := &objectReader{r: io.TeeReader(t.reader(f, size), h), size: size}
		if err := t.store.Put(t.ctx, entry.objectName(), object); err != nil && !object.short {
			return err
		}
		if hex.EncodeToString(h.Sum(nil)) != entry.Sum {
			return joined(errChanged, t.store.Delete(t.ctx, entry.objectName()))
		}
		t.objects[entry.Sum] = size
		t.result.StoredFiles++
		t.result.StoredBytes += size
	}
	t.files[name], t.known[name] = entry, entry
	return nil
}

// stored reports whether the store has a file, whole.
func (t *taking) stored(f file) bool {
	size, there := t.objects[f.Sum]
	return there && size == f.Size
}

// reader reads the first bytes of a file, until the context ends. Something may be written behind
// them.
func (t *taking) reader(f fileutil.File, size int64) io.Reader {
	return &endedReader{t.ctx, io.NewSectionReader(f, 0, size)}
}

// objectReader tells stores how long an object is before they read it: buckets send one of unknown
// length in parts, with a large buffer, or not at all.
type objectReader struct {
	r     io.Reader
	size  int64
	read  int64
	short bool // the file has become shorter
}

// ObjectSize is looked for by github.com/thanos-io/objstore.
func (o *objectReader) ObjectSize() (int64, error) { return o.size, nil }

func (o *objectReader) Read(b []byte) (int, error) {
	n, err := o.r.Read(b)
	o.read += int64(n)
	o.short = o.short || err == io.EOF && o.read < o.size
	return n, err
}

// forget drops what was taken of a directory.
func (t *taking) forget(prefix string) {
	for name := range t.files {
		if strings.HasPrefix(name, prefix) {
			delete(t.files, name)
		}
	}
}

// objectDirs are the directories of a store that the objects of this backup are in.
func (t *taking) objectDirs() []string {
	dirs := map[string]bool{"": true, objectsPrefix: true}
	for _, f := range t.files {
		dirs[path.Dir(f.objectName())+"/"] = true
	}
	return sortedKeys(dirs)
}

func isNumber(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}
