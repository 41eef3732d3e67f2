package index

import (
	"io/fs"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// WriterOptions are the options of a Writer; the zero value is good.
type WriterOptions struct {
	// Written is called behind each write of n bytes and may sleep to pace them. An
	// error of it ends the writing. Nil: none.
	Written func(n int) error
	// PostingsBytes is how much memory the postings lists may take while they are
	// gathered; the largest list is held in any case. 0: 16 MiB, or half of what all of
	// them take if that is more, four bytes for each label of each series.
	PostingsBytes int
}

// Memory for postings lists by default: at least so many bytes, and as many as it takes to
// gather them in two or three groups, each with a look at all series. Else the time
// for very many series would grow with their square.
const (
	defaultPostingsBytes = 16 << 20
	defaultGroups        = 2
)

// Writer writes the index file of a block: first all symbols, then all series, then
// Finish. It belongs to one goroutine.
//
// It holds in memory the symbol table, about twenty bytes for each symbol and each
// label pair, and the postings lists up to PostingsBytes: with more of them the series
// are read back from the file once for each part.
//
// Errors are ErrInvalid and ErrTooLarge, which leave the file as it was, and those of
// the file system, behind which nothing is written any more.
type Writer struct {
	fsys   fileutil.FS
	name   string
	out    blockOut
	opts   WriterOptions
	limits limits
	toc    toc
	gone   bool // Abort has removed the file

	symbols     writtenSymbols
	begun       bool // a series was added, or none will be
	firstSeries int64
	series      uint64 // how many there are
	pairs       *pairIndex
	counts      []uint32 // series of each pair
	order       seriesOrder
	body        []byte // scratch
}

// writtenSymbols are the symbols of an index that is being written.
type writtenSymbols struct {
	text []byte   // encoded
	offs []uint32 // of each symbol in text
}

// NewWriter makes an index file, which must not exist.
func NewWriter(fsys fileutil.FS, name string, opts WriterOptions) (*Writer, error) {
	f, err := fsys.Create(name)
	if err != nil {
		return nil, err
	}
	w := &Writer{fsys: fsys, name: name, opts: opts, limits: formatLimits}
	w.out = blockOut{f: f, written: opts.Written}
	w.out.buf = encbuf.AppendBE32(w.out.buf, blockMagic)
	w.out.buf = append(w.out.buf, blockVersion)
	return w, nil
}

// AddSymbol adds a string to the symbol table. They come in strictly ascending order
// by bytes and get the numbers 0, 1, 2 and so on; series may leave some unused.
func (w *Writer) AddSymbol(s string) error {
	if w.begun {
		return errors.WithMessage(ErrInvalid, "a symbol follows a series")
	}
	if n := len(w.symbols.offs); n > 0 && s <= string(w.symbols.at(uint32(n-1))) {
		return errors.WithMessagef(ErrInvalid, "symbol %q does not ascend", s)
	}
	size := uvarintBytes(uint64(len(s))) + len(s)
	if countBytes+uint64(len(w.symbols.text))+uint64(size) > w.limits.section {
		return errors.WithMessage(ErrTooLarge, "symbol table")
	}
	w.symbols.add(s)
	return nil
}

func (ws *writtenSymbols) add(s string) {
	ws.offs = append(ws.offs, uint32(len(ws.text)))
	ws.text = encbuf.AppendString(ws.text, s)
}

// at returns the string of a symbol.
func (ws *writtenSymbols) at(n uint32) []byte {
	d := encbuf.NewDec(ws.encoded(n))
	return d.Str()
}

// encoded returns a symbol with its length before it.
//
//go:noinline
func (ws *writtenSymbols) encoded(n uint32) []byte {
	if int(n)+1 < len(ws.offs) {
		return ws.text[ws.offs[n]:ws.offs[n+1]]
	}
	return ws.text[ws.offs[n]:]
}

// begin writes the symbol table, before the first series.
func (w *Writer) begin() error {
	if w.begun {
		return w.out.err
	}
	w.begun = true
	w.toc.symbols = uint64(w.out.pos())
	w.pairs = newPairIndex(len(w.symbols.offs))
	w.order.emptyFirst = len(w.symbols.offs) > 0 && len(w.symbols.at(0)) == 0
	head := encbuf.AppendBE32(nil, uint32(countBytes+len(w.symbols.text)))
	head = encbuf.AppendBE32(head, uint32(len(w.symbols.offs)))
	crc := encbuf.UpdateChecksum(encbuf.Checksum(head[sectionHeadBytes:]), w.symbols.text)
	for _, part := range [][]byte{head, w.symbols.text, encbuf.AppendBE32(nil, crc)} {
		if err := w.out.write(part); err != nil {
			return err
		}
	}
	w.toc.series = uint64(w.out.pos())
	w.firstSeries = w.out.pos()
	return nil
}

// Finish writes the postings and the tables, syncs the file and closes it; its name is
// durable after SyncDir. After an error Abort is what is left to do.
func (w *Writer) Finish() error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.writeRest(); err != nil {
		w.out.err = err
		return err
	}
	return w.out.finish()
}

// writeRest gathers all that comes behind the series.
func (w *Writer) writeRest() error {
	lists, err := w.layOut()
	if err != nil {
		return err
	}
	if err := w.writeLists(lists); err != nil {
		return err
	}
	if err := w.writeTable(lists); err != nil {
		return err
	}
	w.out.buf = w.toc.appendTo(w.out.buf)
	return nil
}

// Abort closes the file, if Finish has not, and removes it. It may be called at any
// time and more than once.
func (w *Writer) Abort() error {
	if w.gone {
		return nil
	}
	w.gone = true
	var closeErr error
	if !errors.Is(w.out.err, ErrClosed) {
		closeErr = w.out.f.Close()
		w.out.err = ErrClosed
	}
	if err := w.fsys.Remove(w.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileutil.JoinErrors(closeErr, err)
	}
	return closeErr
}

// Size returns how many bytes of the file there are, written or about to be.
func (w *Writer) Size() int64 { return w.out.pos() }
