package verify

import (
	stderrors "errors"
	"fmt"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Head-chunk files repeat what is in the log.
const (
	meaningHeadChunk = "nothing is lost as long as the log is good: Open rebuilds the chunks from it"
	adviceHeadChunk  = "none: Open mends the files and keeps the originals in quarantine"
)

// headChunks decodes every chunk of the head-chunk files.
func (v *verification) headChunks() error {
	path := filepath.Join(v.dir, datadir.HeadChunksDir)
	for try := 1; ; try++ {
		c := &headCheck{v: v, newest: map[chunks.SeriesRef]int64{}}
		err := c.run(path)
		switch {
		case err == nil:
			return nil
		case v.ctx.Err() != nil:
			return v.ctx.Err()
		case try < readTries && v.report.InUse:
			continue // files went away meanwhile
		}
		return v.trouble(path, err, "Open refuses the directory", "move it out of the directory")
	}
}

// headChunkTimes is what the log is held against: a chunk of it must be in the log.
type headChunkTimes struct {
	series uint64
	maxt   int64
}

// headCheck is one look at the head-chunk files.
type headCheck struct {
	v         *verification
	files     *chunks.HeadFiles
	newest    map[chunks.SeriesRef]int64 // end of the newest chunk of each series
	each      []headChunkTimes           // those that the head uses
	n         int
	samples   uint64
	unordered int
	found     []Finding
	buf       []byte
	it        chunkenc.Iterator
}

func (c *headCheck) run(path string) (err error) {
	if c.files, err = chunks.OpenHead(c.v.fs, path, chunks.HeadOptions{}); err != nil {
		return err
	}
	report, err := c.files.Load(c.chunk)
	if err = stderrors.Join(err, c.files.Close()); err != nil {
		return err
	}
	v := c.v
	v.progress(report.Bytes)
	v.report.HeadChunks, v.report.HeadSamples, v.headTimes = c.n, c.samples, c.each
	for _, f := range c.found {
		v.find(f)
	}
	if d := report.Damage; d != nil {
		f := Finding{Severity: Warning, File: d.File, Offset: d.Offset, What: d.Reason, Meaning: meaningHeadChunk, Advice: adviceHeadChunk}
		if v.report.InUse {
			f.Meaning = "a write that is under way looks the same; if it is none, " + f.Meaning
		}
		v.find(f)
	}
	if report.Unwritten != "" {
		v.find(Finding{Severity: Note, File: report.Unwritten, What: "the file was made and not written yet",
			Meaning: "other programs do not start with such a file", Advice: "none: Open removes it"})
	}
	if c.unordered > 0 {
		v.find(Finding{Severity: Warning, File: path, What: fmt.Sprintf("%d chunks are not newer than one of their series before them", c.unordered),
			Meaning: "they are not used; " + meaningHeadChunk})
	}
	return nil
}

// chunk decodes one chunk.
func (c *headCheck) chunk(h chunks.HeadChunk) error {
	const pollEvery = 256
	if c.n%pollEvery == 0 && c.v.ctx.Err() != nil {
		return c.v.ctx.Err()
	}
	c.n++
	if !h.OutOfOrder {
		newest, ok := c.newest[h.Series]
		if ok && h.MinT <= newest {
			c.unordered++
		} else if h.MaxT >= c.v.start {
			c.each = append(c.each, headChunkTimes{uint64(h.Series), h.MaxT})
		}
		if !ok || h.MaxT > newest { // times may be negative
			c.newest[h.Series] = h.MaxT
		}
	}
	if err := c.decode(h); err != nil {
		if !errors.Is(err, encbuf.ErrCorrupt) {
			return err
		}
		c.found = append(c.found, Finding{Severity: Warning,
			File: filepath.Join(c.v.dir, datadir.HeadChunksDir, fmt.Sprintf("%06d", h.Ref.File())), Offset: int64(h.Ref.Offset()),
			What: fmt.Sprintf("chunk of series number %d: %v", h.Series, err), Meaning: "queries that touch it fail",
			Advice: "move the file out of the directory while the database is closed: Open rebuilds the chunks from the log"})
	}
	return nil
}

// decode reads all samples of a chunk and compares them with what its record says.
func (c *headCheck) decode(h chunks.HeadChunk) error {
	enc, data, err := c.files.Read(h.Ref, c.buf)
	c.buf = data
	if err != nil {
		return err
	}
	chunk, err := chunkenc.FromData(enc, data)
	if err != nil {
		return nil // an encoding that this version does not read
	}
	c.it = chunk.Iterator(c.it)
	n, first, last := 0, int64(0), int64(0)
	for c.it.Next() != chunkenc.ValNone {
		t := c.it.AtT()
		if n == 0 {
			first = t
		} else if t <= last {
			return errors.WithMessagef(encbuf.ErrCorrupt, "sample %d at %d is not behind the one at %d", n, t, last)
		}
		last = t
		n++
	}
	c.samples += uint64(n)
	switch {
	case c.it.Err() != nil:
		return c.it.Err()
	case n == 0 || first != h.MinT || last != h.MaxT:
		return errors.WithMessagef(encbuf.ErrCorrupt, "it has %d samples from %d to %d, its record says %d to %d", n, first, last, h.MinT, h.MaxT)
	}
	return nil
}
