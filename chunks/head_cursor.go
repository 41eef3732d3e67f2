package chunks

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// HeadCursor reads chunks for the holder of a pin. It remembers the file that was read last: the
// next chunk is mostly in there, and then nothing is locked or counted. The zero value
// reads nothing before Reset. It is for one goroutine.
type HeadCursor struct {
	t     *headTable
	file  *headFile // nil: none was read
	buf   []byte    // the record that was read last
	usual int       // about how long records are
}

// Reset makes c read for the holder of p, and only until that is released.
func (c *HeadCursor) Reset(p *Pin) { c.t, c.file = p.t, nil }

// Read is HeadFiles.Read with memory of its own: the data is valid until the next Read.
func (c *HeadCursor) Read(ref Ref) (enc chunkenc.Encoding, data []byte, err error) {
	if c.file == nil || c.file.number != ref.File() {
		if err := c.find(ref); err != nil {
			return 0, nil, err
		}
	}
	enc, c.buf, data, err = c.file.read(int64(ref.Offset()), c.buf)
	c.usual += (len(c.buf) - c.usual) / usualOf
	return enc, data, err
}

// Place says in an error that the chunk at ref is what it is about: it was read, and cannot be
// decoded.
func (c *HeadCursor) Place(ref Ref, err error) error {
	if c.find(ref) != nil {
		return err
	}
	return place(err, c.file.path, int64(ref.Offset()))
}

func (c *HeadCursor) find(ref Ref) (err error) {
	c.file, err = c.t.find(ref)
	return err
}

const (
	cacheLine = 64             // bytes
	usualOf   = 8              // records, about: the usual length is that of the last ones
	maxAhead  = 16 * cacheLine // of a record: no less than most take
)

// Ahead asks the memory for the chunks at refs, which are read next: of each as many bytes as a
// record has as a rule. Lines of all of them are on their way at once; while one chunk is
// copied after the other, each is waited for, as it is not known before its head is there how
// long it is (BenchmarkReadHead of package remote). What is wrong with a chunk, or its file, is
// for Read to say, which maps files, too: here it is passed over.
func (c *HeadCursor) Ahead(refs []Ref) {
	length := min(c.usual+cacheLine, maxAhead)
	var content []byte // of the file
	for i, ref := range refs {
		if i == 0 || c.file == nil || c.file.number != ref.File() {
			content = c.content(ref)
		}
		rest := content[min(int64(ref.Offset()), int64(len(content))):]
		for at := 0; at < min(length, len(rest)); at += cacheLine {
			prefetch.Line(&rest[at])
		}
	}
}

// content returns all that readers may see of the file of ref, nothing if it is not mapped. The
// file becomes the one that was read last.
func (c *HeadCursor) content(ref Ref) []byte {
	if c.find(ref) != nil {
		return nil
	}
	m := c.file.mapping.Load()
	if m == nil {
		return nil
	}
	b, err := (*m).At(0, int(c.file.size.Load()))
	if err != nil {
		return nil
	}
	return b
}
