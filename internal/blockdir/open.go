package blockdir

import (
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// maxTombstonesBytes bounds what is read as a tombstones file: some 30 million intervals.
const maxTombstonesBytes = 512 << 20

// Dir is an open block.
type Dir struct {
	fs        fileutil.FS
	path      string
	index     *index.Reader
	chunks    *chunks.Segments
	side      sidecarState // when it was opened
	sizeBytes int64        // likewise
	shape     *index.Shape // what Look has found; nil: nobody has looked

	change sync.Mutex // held while files are replaced
	meta   atomic.Pointer[Meta]
	stones atomic.Pointer[tombstones.Set]
}

// Open opens a block. All files but the chunks themselves and the series are read
// and checked. Damage, a missing file and a directory that has another block's name are
// encbuf.ErrCorrupt, and the error names the file; ErrUnsupportedVersion is a newer
// one. A block with the wrong version numbers of Prometheus 2.1 gets the right ones.
func Open(fsys fileutil.FS, blockDir string) (*Dir, error) {
	d, err := OpenReadOnly(fsys, blockDir)
	if !errors.Is(err, ErrNeedsRepair) {
		return d, err
	}
	if err := repairVersions(fsys, blockDir); err != nil {
		return nil, err
	}
	return OpenReadOnly(fsys, blockDir)
}

// OpenReadOnly is Open without writing: wrong version numbers are ErrNeedsRepair.
func OpenReadOnly(fsys fileutil.FS, blockDir string) (*Dir, error) {
	m, side, err := readMeta(fsys, blockDir)
	if err != nil {
		return nil, err
	}
	if m.Version == metaVersionBug {
		return nil, errors.WithMessage(ErrNeedsRepair, blockDir)
	}
	if id, ok := ParseName(filepath.Base(blockDir)); ok && id != m.ULID {
		reason := "meta file belongs to block " + m.ULID.String()
		return nil, encbuf.Corrupt(0, reason).At(filepath.Join(blockDir, metaName), 0)
	}
	d := &Dir{fs: fsys, path: blockDir, side: side}
	if err := d.open(&m); err != nil {
		return nil, fileutil.JoinErrors(err, d.Close())
	}
	d.meta.Store(&m)
	return d, nil
}

func (d *Dir) open(m *Meta) (err error) {
	stones, size, err := readTombstones(d.fs, d.path, m)
	if err != nil {
		return err
	}
	d.stones.Store(stones)
	// A crash may have come between the two files, and it is this one that counts.
	m.Stats.NumTombstones = uint64(stones.Len())
	info, err := d.fs.Stat(filepath.Join(d.path, metaName))
	if err != nil {
		return err
	}
	if d.index, err = openIndex(d.fs, d.path); err != nil {
		return err
	}
	path := filepath.Join(d.path, chunksName)
	if d.chunks, err = chunks.OpenSegments(d.fs, path); err != nil {
		return err
	}
	if d.chunks.Len() == 0 && m.Stats.NumChunks > 0 {
		return encbuf.Corrupt(0, "all chunk segments of the block are missing").At(path, 0)
	}
	d.sizeBytes = size + info.Size() + d.index.Size() + d.chunks.Size()
	return nil
}

// isFile returns damage if there is something else than a file, which could not be read, or
// only for ever.
func isFile(fsys fileutil.FS, path string) error {
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return encbuf.Corrupt(0, "it is no regular file").At(path, 0)
	}
	return err
}

func openIndex(fsys fileutil.FS, blockDir string) (*index.Reader, error) {
	path := filepath.Join(blockDir, indexName)
	if err := isFile(fsys, path); err != nil {
		return nil, err
	}
	r, err := index.OpenReader(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, encbuf.Corrupt(0, "index of the block is missing").At(path, 0)
	}
	return r, err
}

// readTombstones reads the deleted intervals. A block that has some by its meta file and
// none on disk would show samples that were deleted.
func readTombstones(fsys fileutil.FS, blockDir string, m *Meta) (*tombstones.Set, int64, error) {
	path := filepath.Join(blockDir, tombstones.FileName)
	if err := isFile(fsys, path); err != nil {
		return nil, 0, err
	}
	b, err := fileutil.ReadFile(fsys, path, maxTombstonesBytes)
	set := &tombstones.Set{}
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, 0, err
	}
	if !missing {
		if set, err = tombstones.Decode(b); err != nil {
			return nil, 0, placed(err, path)
		}
	}
	if set.Len() == 0 && m.Stats.NumTombstones > 0 {
		return nil, 0, encbuf.Corrupt(0, "the deleted intervals of the block are missing").At(path, 0)
	}
	return set, int64(len(b)), nil
}

// Path returns the directory.
//
//go:noinline
func (d *Dir) Path() string { return d.path }

// Meta returns the meta file as it is now, with the count of what Tombstones returned when
// the block was opened or later. What is in it is shared, and is not changed.
//
//go:noinline
func (d *Dir) Meta() Meta { return *d.meta.Load() }

// Index returns the reader of the index. It is closed with the Dir.
func (d *Dir) Index() *index.Reader { return d.index }

// Chunks returns the reader of the chunks. It is closed with the Dir.
func (d *Dir) Chunks() *chunks.Segments { return d.chunks }

// Tombstones returns what is deleted of the block now, by series id of its index. The set
// is a snapshot that nobody changes; it must not be changed by the caller either.
func (d *Dir) Tombstones() *tombstones.Set { return d.stones.Load() }

// NeedsSidecar tells whether the checksum sidecar of the meta file was missing, damaged or
// out of date when the block was opened: RenewSidecar writes it.
func (d *Dir) NeedsSidecar() bool { return d.side.stale }

// InOrder reports whether all series of the block are known to be in order, with chunks inside its
// bounds: this library wrote it, or has looked at it. Of any other block index.Reader.Shape tells.
func (d *Dir) InOrder() bool { return d.side.inOrder }

// SizeBytes returns the bytes of the block's files when it was opened.
func (d *Dir) SizeBytes() int64 { return d.sizeBytes }

// CachedBytes estimates how many bytes of the chunks the page cache has: none where the system
// does not tell.
func (d *Dir) CachedBytes() (n int64) {
	for i := range d.chunks.Len() {
		n += cachedBytes(d.fs, d.chunks.Path(chunks.NewBlockRef(uint32(i), 0)))
	}
	return n
}

// cachedBytes takes a file that it cannot ask for one that is not cached: a merge that reads it
// meets the error, if there is one.
func cachedBytes(fsys fileutil.FS, path string) int64 {
	f, err := fsys.Open(path)
	if err != nil {
		return 0
	}
	n, err := fileutil.CachedBytes(f)
	if closeErr := f.Close(); err != nil || closeErr != nil {
		return 0
	}
	return n
}

// Close unmaps and closes the files. Nothing may be read after it.
func (d *Dir) Close() error {
	var errs []error
	if d.index != nil {
		errs = append(errs, d.index.Close())
	}
	if d.chunks != nil {
		errs = append(errs, d.chunks.Close())
	}
	return fileutil.JoinErrors(errs...)
}
