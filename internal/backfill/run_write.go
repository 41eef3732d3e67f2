package backfill

import (
	"bufio"
	stderrors "errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/minheap"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// fileBuffer is how much of a scratch file is written at a time, in bytes.
const fileBuffer = 256 << 10

// spilled is one run on disk: three files, and in memory what is where in them. What
// lies in a section is sorted by labels, and the chunks of a series by time.
type spilled struct {
	symbols, series, chunks string // names of the files
	numSymbols              int
	symbolBytes             int64
	symbolCRC               uint32
	sections                []section // by window
	sizeBytes               int64
}

// section is what a run has of one window.
type section struct {
	window         int64 // number of the window: floor of time by width
	series, chunks extent
	crc            uint32 // of the series; each chunk has its own
}

// extent is a part of a file.
type extent struct{ off, end int64 }

// chunkHead is what a run says of a chunk in front of its bytes.
type chunkHead struct {
	minT, maxT int64
	num        int
	size       int // bytes
	enc        chunkenc.Encoding
	crc        uint32
}

// runWriter writes one run.
type runWriter struct {
	s    *Store
	run  *spilled
	open []*scratch

	order []uint32 // series by labels
	names [][]byte // of each in order: its labels in numbers of symbols
	queue minheap.Heap[pending]
	enc   xorchunk.Encoder // of a series that has floats only
	built builder          // of any other one
	heads []chunkHead
	buf   []byte
}

// pending is the samples of a series that are not written yet: the next of them is in
// this window.
type pending struct {
	window int64
	order  uint32 // place in runWriter.order
	cursor cursor
}

// writeRun writes all samples in memory. On an error nothing is left of it.
func (s *Store) writeRun(number int) (*spilled, error) {
	base := filepath.Join(s.dir, fmt.Sprintf("run-%06d-", number))
	w := &runWriter{s: s, run: &spilled{symbols: base + "symbols", series: base + "series", chunks: base + "chunks"}}
	err := w.write()
	for _, f := range w.open {
		w.run.sizeBytes += f.off
		err = fileutil.JoinErrors(err, f.close())
	}
	if err != nil {
		return nil, stderrors.Join(err, removeRuns(s.fsys, []*spilled{w.run}))
	}
	return w.run, nil
}

func (w *runWriter) write() error {
	w.sort()
	for _, i := range w.order {
		w.s.num -= int64(w.s.sorter.sort(&w.s.series[i], &w.s.arena, &w.s.pages))
	}
	if err := w.writeSymbols(); err != nil {
		return err
	}
	series, err := w.create(w.run.series)
	if err != nil {
		return err
	}
	chunks, err := w.create(w.run.chunks)
	if err != nil {
		return err
	}
	w.enqueue()
	for len(w.queue.Items) > 0 {
		if err := w.writeSection(series, chunks); err != nil {
			return err
		}
	}
	return fileutil.JoinErrors(series.flush(), chunks.flush())
}

// sort puts series that have samples in the order of their labels.
func (w *runWriter) sort() {
	all := w.s.series
	for i := range all {
		if all[i].run.num > 0 {
			w.order = append(w.order, uint32(i))
		}
	}
	slices.SortFunc(w.order, func(a, b uint32) int { return labels.Compare(all[a].ls, all[b].ls) })
}

// writeSymbols writes the different strings of all labels, sorted, and makes names.
func (w *runWriter) writeSymbols() error {
	numbers := make(map[string]uint32)
	for _, i := range w.order {
		for l := range w.s.series[i].ls.All() {
			numbers[l.Name], numbers[l.Value] = 0, 0
		}
	}
	sorted := slices.AppendSeq(make([]string, 0, len(numbers)), maps.Keys(numbers))
	slices.Sort(sorted)
	f, err := w.create(w.run.symbols)
	if err != nil {
		return err
	}
	for i, s := range sorted {
		numbers[s] = uint32(i)
		w.buf = encbuf.AppendString(w.buf[:0], s)
		w.run.symbolCRC = encbuf.UpdateChecksum(w.run.symbolCRC, w.buf)
		if err := f.write(w.buf); err != nil {
			return err
		}
	}
	w.run.numSymbols, w.run.symbolBytes = len(sorted), f.off
	w.nameAll(numbers)
	return f.flush()
}

func (w *runWriter) nameAll(numbers map[string]uint32) {
	var all []byte
	ends := make([]int, 0, len(w.order))
	for _, i := range w.order {
		for l := range w.s.series[i].ls.All() {
			all = encbuf.AppendUvarint(all, uint64(numbers[l.Name]))
			all = encbuf.AppendUvarint(all, uint64(numbers[l.Value]))
		}
		ends = append(ends, len(all))
	}
	w.names = make([][]byte, len(ends))
	start := 0
	for i, end := range ends {
		w.names[i], start = all[start:end], end
	}
}

// enqueue puts each series where its first window is.
func (w *runWriter) enqueue() {
	w.queue = minheap.Heap[pending]{
		Items: make([]pending, 0, len(w.order)),
		Less: func(a, b pending) bool {
			return a.window < b.window || a.window == b.window && a.order < b.order
		},
	}
	for n, i := range w.order {
		c := w.s.series[i].run.cursor()
		w.queue.Push(pending{window: WindowOf(c.peek(&w.s.arena).t, w.s.opts.Range), order: uint32(n), cursor: c})
	}
}

// writeSection writes one window: each series that has samples in it, in order.
func (w *runWriter) writeSection(series, chunks *scratch) error {
	sec := section{window: w.queue.Items[0].window, series: extent{off: series.off}, chunks: extent{off: chunks.off}}
	for len(w.queue.Items) > 0 && w.queue.Items[0].window == sec.window {
		top := &w.queue.Items[0]
		if err := w.writeChunks(top, chunks); err != nil {
			return err
		}
		w.appendEntry(w.names[top.order])
		sec.crc = encbuf.UpdateChecksum(sec.crc, w.buf)
		if err := series.write(w.buf); err != nil {
			return err
		}
		if top.cursor.left == 0 {
			w.queue.Pop()
		} else {
			w.queue.Fix()
		}
	}
	sec.series.end, sec.chunks.end = series.off, chunks.off
	w.run.sections = append(w.run.sections, sec)
	return nil
}

// writeChunks encodes what a series has in its window and goes on to the next window.
func (w *runWriter) writeChunks(p *pending, chunks *scratch) error {
	w.heads = w.heads[:0]
	if w.s.series[w.order[p.order]].run.wide {
		return w.writeWide(p, chunks)
	}
	end := LastOf(p.window, w.s.opts.Range)
	first, last := int64(0), int64(0)
	for p.cursor.left > 0 {
		x := p.cursor.peek(&w.s.arena)
		if x.t > end {
			p.window = WindowOf(x.t, w.s.opts.Range)
			break
		}
		if n := w.enc.Len(); n == chunkenc.TargetSamples || n > 0 && w.enc.SizeBytes() > chunkenc.TargetBytes {
			if err := w.writeChunk(first, last, chunks); err != nil {
				return err
			}
		}
		if w.enc.Len() == 0 {
			first = x.t
		}
		if err := w.enc.Append(x.t, x.v); err != nil {
			return err
		}
		last = x.t
		p.cursor.skip()
	}
	return w.writeChunk(first, last, chunks)
}

func (w *runWriter) writeChunk(first, last int64, chunks *scratch) error {
	w.buf = w.enc.AppendTo(w.buf[:0])
	w.heads = append(w.heads, chunkHead{first, last, w.enc.Len(), len(w.buf), chunkenc.EncXOR, encbuf.Checksum(w.buf)})
	w.enc.Reset()
	return chunks.write(w.buf)
}

// writeWide is writeChunks for a series with samples of any kind.
func (w *runWriter) writeWide(p *pending, chunks *scratch) error {
	end := LastOf(p.window, w.s.opts.Range)
	for p.cursor.left > 0 {
		x := p.cursor.peek(&w.s.arena)
		if x.t > end {
			p.window = WindowOf(x.t, w.s.opts.Range)
			break
		}
		wide := w.s.pages.at(x)
		taken, err := w.built.add(&wide, w.s.opts.Range)
		if !taken && err == nil {
			if err = w.writeBuilt(chunks); err == nil {
				_, err = w.built.add(&wide, w.s.opts.Range)
			}
		}
		if err != nil {
			return err
		}
		p.cursor.skip()
	}
	return w.writeBuilt(chunks)
}

func (w *runWriter) writeBuilt(chunks *scratch) error {
	c := w.built.take(w.buf)
	w.buf = c.Data
	w.heads = append(w.heads, chunkHead{c.MinT, c.MaxT, c.Num, len(c.Data), c.Encoding, encbuf.Checksum(c.Data)})
	return chunks.write(c.Data)
}

// appendEntry puts a series and the heads of its chunks into the buffer:
//
//	+----------------+-------+----------------+------------------------------------------+
//	| uvarint length | names | uvarint chunks | of each: varint minT less the maxT       |
//	+----------------+-------+----------------+ before it (0 at first), uvarint duration,|
//	                                          | uvarint samples, uvarint bytes,          |
//	                                          | uvarint encoding, be32 crc               |
//	                                          +------------------------------------------+
func (w *runWriter) appendEntry(names []byte) {
	w.buf = encbuf.AppendString(w.buf[:0], names)
	w.buf = encbuf.AppendUvarint(w.buf, uint64(len(w.heads)))
	prev := int64(0)
	for _, h := range w.heads {
		w.buf = encbuf.AppendVarint(w.buf, h.minT-prev)
		w.buf = encbuf.AppendUvarint(w.buf, uint64(h.maxT-h.minT))
		w.buf = encbuf.AppendUvarint(w.buf, uint64(h.num))
		w.buf = encbuf.AppendUvarint(w.buf, uint64(h.size))
		w.buf = encbuf.AppendUvarint(w.buf, uint64(h.enc))
		w.buf = encbuf.AppendBE32(w.buf, h.crc)
		prev = h.maxT
	}
}

// create makes a scratch file that ends with the run.
func (w *runWriter) create(name string) (*scratch, error) {
	f, err := createScratch(w.s.fsys, name)
	if err == nil {
		w.open = append(w.open, f)
	}
	return f, err
}

// scratch is a file that is being written. Nobody reads it after a crash, so it is not
// synced.
type scratch struct {
	f   fileutil.File
	w   *bufio.Writer
	off int64
}

func createScratch(fsys fileutil.FS, name string) (*scratch, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	return &scratch{f: f, w: bufio.NewWriterSize(f, fileBuffer)}, nil
}

func (s *scratch) write(b []byte) error {
	n, err := s.w.Write(b)
	s.off += int64(n)
	return err
}

func (s *scratch) flush() error { return s.w.Flush() }

func (s *scratch) close() error { return s.f.Close() }

// removeRuns removes the files of runs.
func removeRuns(fsys fileutil.FS, runs []*spilled) error {
	var errs []error
	for _, r := range runs {
		for _, name := range []string{r.symbols, r.series, r.chunks} {
			errs = append(errs, fileutil.RemoveAll(fsys, name))
		}
	}
	return fileutil.JoinErrors(errs...)
}
