package chunks

import (
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Segments is the segment files of one block, mapped for reading. It is safe for
// concurrent use; Close must not run beside anything else.
type Segments struct {
	dir   string
	files []segmentFile // by number; one without a mapping is missing or damaged
	size  int64
}

// segmentFile is one mapped file.
type segmentFile struct {
	path    string
	size    int64
	mapping fileutil.Mapping // nil if damage says why
	damage  *encbuf.CorruptError
}

// OpenSegments maps all segment files of dir and checks their headers. Names that are no
// numbers are ignored. A missing directory, a number that is missing, double or not a
// file's, and a bad header are encbuf.ErrCorrupt.
func OpenSegments(fsys fileutil.FS, dir string) (*Segments, error) {
	s, err := openSegments(fsys, dir)
	if err != nil {
		return nil, err
	}
	if damage := s.Damage(); len(damage) > 0 {
		return nil, fileutil.JoinErrors(damage[0], s.Close())
	}
	return s, nil
}

// SalvageSegments is OpenSegments for a damaged block: what can be read of files that are
// missing or have no good header is nothing, and Damage tells which those are.
func SalvageSegments(fsys fileutil.FS, dir string) (*Segments, error) {
	return openSegments(fsys, dir)
}

func openSegments(fsys fileutil.FS, dir string) (*Segments, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, encbuf.Corrupt(0, "directory of chunk segments is missing").At(dir, 0)
	}
	if err != nil {
		return nil, err
	}
	s := &Segments{dir: dir}
	if err := s.list(entries); err != nil {
		return nil, err
	}
	for i := range s.files {
		f := &s.files[i]
		if f.damage != nil {
			continue
		}
		if err := f.open(fsys); err != nil {
			return nil, fileutil.JoinErrors(err, s.Close())
		}
		s.size += f.size
	}
	return s, nil
}

// list makes the table of files, with holes for the numbers that are missing.
func (s *Segments) list(entries []fs.DirEntry) error {
	byNumber := map[uint64]fs.DirEntry{}
	var numbers []uint64
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		n, err := strconv.ParseUint(e.Name(), 10, 32)
		switch {
		case err != nil || n == 0 || n > math.MaxInt32:
			return encbuf.Corrupt(0, "number of a chunk segment is out of range").At(path, 0)
		case e.IsDir():
			return encbuf.Corrupt(0, "a directory has the name of a chunk segment").At(path, 0)
		case byNumber[n] != nil:
			return encbuf.Corrupt(0, "another chunk segment has the same number").At(path, 0)
		}
		byNumber[n] = e
		numbers = append(numbers, n)
	}
	sort.Slice(numbers, func(i, j int) bool { return numbers[i] < numbers[j] })
	for _, n := range numbers {
		if missing := n - 1 - uint64(len(s.files)); missing > maxMissingSegments {
			path := filepath.Join(s.dir, byNumber[n].Name())
			return encbuf.Corrupt(0, fmt.Sprintf("the %d chunk segments before it are missing", missing)).At(path, 0)
		}
		for uint64(len(s.files)) < n-1 {
			path := filepath.Join(s.dir, fileName(uint32(len(s.files)+1)))
			s.files = append(s.files, segmentFile{path: path, damage: encbuf.Corrupt(0, "chunk segment is missing").At(path, 0)})
		}
		s.files = append(s.files, segmentFile{path: filepath.Join(s.dir, byNumber[n].Name())})
	}
	return nil
}

// maxMissingSegments bounds the holes before one file: a name costs a table of them.
const maxMissingSegments = 1 << 16

// open maps the file and checks its header. Damage is kept, other errors are returned.
func (f *segmentFile) open(fsys fileutil.FS) error {
	handle, err := fsys.Open(f.path)
	if err != nil {
		return err
	}
	err = f.mapFile(handle)
	if closeErr := handle.Close(); closeErr != nil {
		return fileutil.JoinErrors(err, closeErr)
	}
	return err
}

func (f *segmentFile) mapFile(handle fileutil.File) error {
	size, err := handle.Size()
	if err != nil {
		return err
	}
	if size < segmentHeaderSize {
		f.damage = encbuf.Corrupt(int(size), "chunk segment ends inside its header").At(f.path, 0)
		return nil
	}
	if size > math.MaxInt {
		return errors.Errorf("map chunk segment %s: %d bytes are more than this machine can address", f.path, size)
	}
	m, err := handle.Mmap(size)
	if err != nil {
		return err
	}
	f.mapping, f.size = m, size
	header, err := m.At(0, segmentHeaderSize)
	if err != nil {
		return err
	}
	var damage *encbuf.CorruptError
	err = fileutil.GuardFaults(func() error {
		damage = checkSegmentHeader(header)
		return nil
	})
	if err != nil {
		damage = encbuf.Corrupt(0, err.Error())
	}
	if damage != nil {
		f.damage = damage.At(f.path, 0)
	}
	return nil
}

// Damage returns what is wrong with whole files; only what SalvageSegments opened has any.
func (s *Segments) Damage() []*encbuf.CorruptError {
	var all []*encbuf.CorruptError
	for i := range s.files {
		if s.files[i].damage != nil {
			all = append(all, s.files[i].damage)
		}
	}
	return all
}

// Read returns the encoding and the data of the chunk at ref. The data is copied to
// dst[:0], which grows if it has to, and its checksum is verified. Everything that is
// not a whole chunk at that place, also a file that was cut behind our back, is
// encbuf.ErrCorrupt with file and offset. It allocates nothing if dst is large enough.
func (s *Segments) Read(ref BlockRef, dst []byte) (chunkenc.Encoding, []byte, error) {
	if uint64(ref.Segment()) >= uint64(len(s.files)) {
		reason := fmt.Sprintf("a chunk is in segment %d, but there are %d", uint64(ref.Segment())+1, len(s.files))
		return 0, dst[:0], encbuf.Corrupt(0, reason).At(s.dir, int64(ref.Offset()))
	}
	f := &s.files[ref.Segment()]
	off := int64(ref.Offset())
	if f.damage != nil {
		return 0, dst[:0], f.damage
	}
	if off < segmentHeaderSize || off >= f.size {
		reason := fmt.Sprintf("a chunk is said to be here, but the segment has %d bytes", f.size)
		return 0, dst[:0], encbuf.Corrupt(0, reason).At(f.path, off)
	}
	enc, dst, _, damage := f.read(off, dst)
	if damage != nil {
		return 0, dst[:0], damage
	}
	return enc, dst, nil
}

// read copies the chunk at off, which is inside the file, to dst[:0]. size is that of
// its record, 0 if that is not known.
func (f *segmentFile) read(off int64, dst []byte) (enc chunkenc.Encoding, data []byte, size int, _ *encbuf.CorruptError) {
	var damage *encbuf.CorruptError
	b, err := f.mapping.At(off, int(f.size-off))
	if err == nil {
		err = fileutil.GuardFaults(func() error {
			enc, dst, size, damage = copySegmentChunk(b, dst)
			return nil
		})
	}
	if err != nil {
		damage = encbuf.Corrupt(0, err.Error())
	}
	if damage != nil {
		return 0, dst[:0], size, damage.At(f.path, off)
	}
	return enc, dst, size, nil
}

// Walk calls fn with every whole chunk in the order of the files; data is valid during the call.
// What is between two whole chunks, or behind the last one, is passed to damaged, once for each run
// of it. A chunk with a wrong checksum is stepped over by its length. Where the length makes no
// sense the rest of its file is lost. An error of either function ends Walk and is returned; there
// are no others.
func (s *Segments) Walk(fn func(ref BlockRef, enc chunkenc.Encoding, data []byte) error, damaged func(*encbuf.CorruptError) error) error {
	var buf []byte
	for i := range s.files {
		f := &s.files[i]
		if f.damage != nil {
			if err := damaged(f.damage); err != nil {
				return err
			}
			if f.mapping == nil {
				continue
			}
		}
		var err error
		if buf, err = f.walk(uint32(i), buf, fn, damaged); err != nil {
			return err
		}
	}
	return nil
}

func (f *segmentFile) walk(segment uint32, buf []byte, fn func(BlockRef, chunkenc.Encoding, []byte) error, damaged func(*encbuf.CorruptError) error) ([]byte, error) {
	reported := false
	for off := int64(segmentHeaderSize); off < f.size && off <= maxSegmentOffset; {
		enc, data, size, damage := f.read(off, buf)
		buf = data
		var err error
		switch {
		case damage == nil:
			reported = false
			err = fn(NewBlockRef(segment, uint32(off)), enc, data)
		case !reported:
			reported = true
			err = damaged(damage)
		}
		if err != nil {
			return buf, err
		}
		if size == 0 {
			break
		}
		off += int64(size)
	}
	return buf, nil
}

// Path returns the file that ref leads to, the directory if there is none.
func (s *Segments) Path(ref BlockRef) string {
	if uint64(ref.Segment()) >= uint64(len(s.files)) {
		return s.dir
	}
	return s.files[ref.Segment()].path
}

// Place says in an error that the chunk at ref is what it is about: it was read, and cannot be
// decoded.
func (s *Segments) Place(ref BlockRef, err error) error {
	return place(err, s.Path(ref), int64(ref.Offset()))
}

// place adds file and offset of a chunk to an error.
func place(err error, file string, off int64) error {
	if damage, ok := encbuf.AsCorrupt(err); ok {
		return damage.At(file, off)
	}
	return errors.WithMessagef(err, "chunk in %s at offset %d", file, off)
}

// Len returns the number of files.
func (s *Segments) Len() int { return len(s.files) }

// Size returns the bytes of all files.
func (s *Segments) Size() int64 { return s.size }

// Close unmaps the files. What Read copied stays; nothing may be read after it.
func (s *Segments) Close() error {
	var errs []error
	for i := range s.files {
		if m := s.files[i].mapping; m != nil {
			s.files[i].mapping = nil
			errs = append(errs, m.Close())
		}
	}
	return fileutil.JoinErrors(errs...)
}
