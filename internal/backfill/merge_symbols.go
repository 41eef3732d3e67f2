package backfill

import (
	stderrors "errors"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/minheap"
	"github.com/seed347100a3/tsdb/labels"
)

// symbolReader reads the symbols of a run.
type symbolReader struct {
	run    int
	stream *stream
	crc    uint32 // of all of them
	at     []byte // valid until next
	n      uint32 // its number in the run
}

func newSymbolReader(fsys fileutil.FS, name string, run int, size int64, crc uint32) *symbolReader {
	s := newStream(fsys, name, extent{end: size})
	s.checksums = true
	return &symbolReader{run: run, stream: s, crc: crc}
}

// next reads a symbol; ok is false behind the last.
func (r *symbolReader) next() (ok bool, err error) {
	if r.stream.left() == 0 {
		if r.stream.crc != r.crc {
			return false, r.stream.damage("checksum of the symbols does not match")
		}
		return false, nil
	}
	size, err := r.stream.uvarint(maxEntrySize)
	if err != nil {
		return false, err
	}
	r.at, err = r.stream.next(int(size))
	return err == nil, err
}

// mergeSymbols writes the symbols of all runs into one file and numbers them.
func (m *Merge) mergeSymbols() error {
	runs := m.s.runs
	m.global = make([][]uint32, len(runs))
	for i, r := range runs {
		m.global[i] = make([]uint32, r.numSymbols)
	}
	if len(runs) == 1 { // its own numbers are those of all
		for i := range m.global[0] {
			m.global[0][i] = uint32(i)
		}
		m.symbols, m.symbolBytes, m.symbolCRC = runs[0].symbols, runs[0].symbolBytes, runs[0].symbolCRC
		m.numbers = make([]uint32, runs[0].numSymbols)
		return nil
	}
	m.symbols = m.scratchName()
	out, err := createScratch(m.s.fsys, m.symbols)
	if err != nil {
		return err
	}
	num, err := m.mergeInto(out)
	m.numbers = make([]uint32, num)
	return fileutil.JoinErrors(err, out.close())
}

// mergeInto writes each different symbol once and returns how many there are.
func (m *Merge) mergeInto(out *scratch) (num int, err error) {
	queue := minheap.Heap[*symbolReader]{Less: func(a, b *symbolReader) bool { return string(a.at) < string(b.at) }}
	for i, r := range m.s.runs {
		reader := newSymbolReader(m.s.fsys, r.symbols, i, r.symbolBytes, r.symbolCRC)
		if ok, err := reader.next(); !ok {
			return 0, err
		}
		queue.Push(reader)
	}
	var last, buf []byte
	for len(queue.Items) > 0 {
		r := queue.Items[0]
		if num == 0 || string(r.at) != string(last) {
			last = append(last[:0], r.at...)
			buf = encbuf.AppendString(buf[:0], last)
			m.symbolCRC = encbuf.UpdateChecksum(m.symbolCRC, buf)
			if err := out.write(buf); err != nil {
				return num, err
			}
			num++
		}
		if int(r.n) >= len(m.global[r.run]) {
			return num, r.stream.damage("more symbols than were written")
		}
		m.global[r.run][r.n] = uint32(num - 1)
		r.n++
		ok, err := r.next()
		if err != nil {
			return num, err
		}
		if ok {
			queue.Fix()
			continue
		}
		queue.Pop()
	}
	m.symbolBytes = out.off
	return num, out.flush()
}

// eachSymbol calls fn with each symbol of all runs; the bytes are valid during the call.
func (m *Merge) eachSymbol(fn func(n int, s []byte) error) error {
	r := newSymbolReader(m.s.fsys, m.symbols, 0, m.symbolBytes, m.symbolCRC)
	for n := 0; ; n++ {
		ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		if n >= len(m.numbers) {
			return r.stream.damage("more symbols than were written")
		}
		if err := fn(n, r.at); err != nil {
			return err
		}
	}
}

// writeSymbols gives the block its symbols and numbers them.
func (m *Merge) writeSymbols(out Output) error {
	next := uint32(0)
	return m.eachSymbol(func(n int, s []byte) error {
		if m.numbers[n] == unused {
			return nil
		}
		m.numbers[n] = next
		next++
		return out.AddSymbol(string(s))
	})
}

// explain adds the labels of the series that the error is of.
func (m *Merge) explain(err error) error {
	strings := make(map[uint32]string)
	for _, n := range m.join.names {
		strings[n] = ""
	}
	if e := m.eachSymbol(func(n int, s []byte) error {
		if _, ok := strings[uint32(n)]; ok {
			strings[uint32(n)] = string(s)
		}
		return nil
	}); e != nil {
		return stderrors.Join(err, e)
	}
	pairs := make([]string, 0, len(m.join.names))
	for _, n := range m.join.names {
		pairs = append(pairs, strings[n])
	}
	return errors.WithMessagef(err, "series %v at time %d", labels.FromStrings(pairs...), m.weave.conflictT)
}
