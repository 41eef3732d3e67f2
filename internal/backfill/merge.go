package backfill

import (
	"context"
	stderrors "errors"
	"path/filepath"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// pollEvery is after how many series a merge looks at its context.
const pollEvery = 256

// Chunk is a finished XOR chunk with samples from MinT to MaxT, both included.
type Chunk struct {
	MinT, MaxT int64
	Num        int
	Data       []byte // valid during the call
}

// Encoding of all chunks.
const Encoding = chunkenc.EncXOR

// Output takes a block: first all symbols, ascending, which are numbered from 0; then
// series, ascending, each after its chunks.
type Output interface {
	AddSymbol(s string) error
	AddChunk(c Chunk) error
	AddSeries(ls []index.SymbolPair) error // valid during the call
}

// Merge reads all samples of a store. The store takes none until it is closed.
type Merge struct {
	s           *Store
	symbols     string // file with all of them
	symbolBytes int64
	symbolCRC   uint32
	numbers     []uint32   // of each symbol in the block that is being read
	global      [][]uint32 // of each run: number of its symbols among all
	ls          []index.SymbolPair
	join        joiner
}

const (
	unused = 0
	used   = 1 // a symbol of the block, which has no number yet
)

// Merge spills what is in memory and prepares reading. Close it.
func (s *Store) Merge() (*Merge, error) {
	if err := s.Spill(); err != nil {
		return nil, err
	}
	s.arena.slabs = nil // makes room
	m := &Merge{s: s}
	if len(s.runs) == 0 {
		return m, nil
	}
	if err := m.mergeSymbols(); err != nil {
		return nil, stderrors.Join(err, m.Close())
	}
	return m, nil
}

// Close removes what the merge has written besides the runs.
func (m *Merge) Close() error {
	if len(m.s.runs) > 1 && m.symbols != "" {
		return fileutil.RemoveAll(m.s.fsys, m.symbols)
	}
	return nil
}

// Windows returns the numbers of all windows that have samples, ascending: the floor of
// time divided by Options.Range.
func (m *Merge) Windows() []int64 {
	var all []int64
	for _, r := range m.s.runs {
		for _, sec := range r.sections {
			all = append(all, sec.window)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Block gives the samples of one window that lie from mint to maxt, both included.
//
// Chunks are passed on as they are, except at the edges, and except short ones that
// follow each other, as the ends of runs leave them: they are put together.
// ErrOutOfOrder, ErrDuplicate: a series that was forgotten came again with samples that
// are not newer.
func (m *Merge) Block(ctx context.Context, window, mint, maxt int64, out Output) error {
	if err := m.markSymbols(ctx, window, mint, maxt); err != nil {
		return err
	}
	if err := m.writeSymbols(out); err != nil {
		return err
	}
	m.join = joiner{out: out, mint: mint, maxt: maxt, buf: m.join.buf}
	err := m.eachSection(window, true, func(rs []*sectionReader) error { return m.writeSeries(ctx, rs, out) })
	if errors.Is(err, ErrOutOfOrder) || errors.Is(err, ErrDuplicate) {
		return m.explain(err)
	}
	return err
}

// eachSection opens what runs have of a window.
func (m *Merge) eachSection(window int64, chunks bool, use func([]*sectionReader) error) (err error) {
	var open []*sectionReader
	defer func() {
		for _, r := range open {
			err = fileutil.JoinErrors(err, r.close())
		}
	}()
	for i, r := range m.s.runs {
		at, ok := slices.BinarySearchFunc(r.sections, window, func(s section, w int64) int {
			return compare(s.window, w)
		})
		if !ok {
			continue
		}
		s, err := openSection(m.s.fsys, r, r.sections[at], chunks)
		if err != nil {
			return err
		}
		s.run, s.global = i, m.global[i]
		open = append(open, s)
	}
	return use(open)
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// markSymbols finds out which symbols the block has.
func (m *Merge) markSymbols(ctx context.Context, window, mint, maxt int64) error {
	clear(m.numbers)
	return m.eachSection(window, false, func(rs []*sectionReader) error {
		for _, r := range rs {
			for n := 0; ; n++ {
				if err := poll(ctx, n); err != nil {
					return err
				}
				ok, err := r.next()
				if err != nil {
					return err
				}
				if !ok {
					break
				}
				if !r.entry.within(mint, maxt) {
					continue
				}
				for _, g := range r.entry.names {
					m.numbers[g] = used
				}
			}
		}
		return nil
	})
}

// within says whether a chunk reaches into the range.
func (e *entry) within(mint, maxt int64) bool {
	for _, h := range e.heads {
		if h.minT <= maxt && h.maxT >= mint {
			return true
		}
	}
	return false
}

func poll(ctx context.Context, n int) error {
	if n%pollEvery != 0 {
		return nil
	}
	return ctx.Err()
}

// writeSeries merges sections by labels, and those of one series by run: later runs
// have newer samples.
func (m *Merge) writeSeries(ctx context.Context, rs []*sectionReader, out Output) error {
	queue := heap[*sectionReader]{less: func(a, b *sectionReader) bool {
		c := slices.Compare(a.entry.names, b.entry.names)
		return c < 0 || c == 0 && a.run < b.run
	}}
	for _, r := range rs {
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			queue.push(r)
		}
	}
	for n := 0; len(queue.items) > 0; n++ {
		if err := poll(ctx, n); err != nil {
			return err
		}
		m.rename(queue.items[0].entry.names)
		if err := m.writeOne(&queue); err != nil {
			return err
		}
		if !m.join.some {
			continue // nothing of it is in the range
		}
		if err := out.AddSeries(m.ls); err != nil {
			return err
		}
	}
	return nil
}

// rename keeps the labels of the series, and has them in the numbers of the block.
func (m *Merge) rename(names []uint32) {
	m.join.names = append(m.join.names[:0], names...)
	m.ls = m.ls[:0]
	for i := 0; i < len(names); i += 2 {
		m.ls = append(m.ls, index.SymbolPair{Name: m.numbers[names[i]], Value: m.numbers[names[i+1]]})
	}
}

// writeOne writes the chunks of the series on top, from all runs that have it.
func (m *Merge) writeOne(queue *heap[*sectionReader]) error {
	m.join.begin()
	for len(queue.items) > 0 && slices.Equal(queue.items[0].entry.names, m.join.names) {
		r := queue.items[0]
		for _, h := range r.entry.heads {
			if h.minT > m.join.maxt || h.maxT < m.join.mint {
				r.pass(h)
				continue
			}
			data, err := r.chunk(h)
			if err != nil {
				return err
			}
			if err := m.join.add(h, data); err != nil {
				return err
			}
		}
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			queue.fix()
		} else {
			queue.pop()
		}
	}
	return m.join.flush()
}

// scratchName is a file of the merge beside the runs.
func (m *Merge) scratchName() string { return filepath.Join(m.s.dir, "merge-symbols") }
