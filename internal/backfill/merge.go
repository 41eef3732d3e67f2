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
	"github.com/seed347100a3/tsdb/internal/minheap"
)

// pollEvery is after how many series a merge looks at its context.
const pollEvery = 256

// Chunk is a finished chunk with samples from MinT to MaxT, both included.
type Chunk struct {
	MinT, MaxT int64
	Num        int
	Encoding   chunkenc.Encoding
	Data       []byte // valid during the call
}

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
	same        []*sectionReader // runs that have the series which is being read
	weave       weaver
}

const (
	unused = 0
	used   = 1 // a symbol of the block, which has no number yet
)

// Merge spills what is in memory and prepares reading. Close it. ErrDuplicate, as for
// Block: samples that were sorted in memory have shown it.
func (s *Store) Merge() (*Merge, error) {
	if err := s.Spill(); err != nil {
		return nil, err
	}
	if s.sorter.conflict != nil {
		return nil, s.sorter.conflict
	}
	s.arena.slabs, s.sorter.scratch = nil, nil // makes room
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
// ErrDuplicate: a series has several values at one time, and that is an error. It names both.
func (m *Merge) Block(ctx context.Context, window, mint, maxt int64, out Output) error {
	if err := m.markSymbols(ctx, window, mint, maxt); err != nil {
		return err
	}
	if err := m.writeSymbols(out); err != nil {
		return err
	}
	m.join = joiner{out: out, mint: mint, maxt: maxt, width: m.s.opts.Range, buf: m.join.buf}
	err := m.eachSection(window, true, func(rs []*sectionReader) error { return m.writeSeries(ctx, rs, out) })
	if errors.Is(err, ErrDuplicate) {
		return m.explain(err)
	}
	return err
}

// eachSection gives what runs have of a window.
func (m *Merge) eachSection(window int64, chunks bool, use func([]*sectionReader) error) error {
	var all []*sectionReader
	for i, r := range m.s.runs {
		at, ok := slices.BinarySearchFunc(r.sections, window, func(s section, w int64) int {
			return compare(s.window, w)
		})
		if !ok {
			continue
		}
		s := newSectionReader(m.s.fsys, r, r.sections[at], chunks)
		s.run, s.global = i, m.global[i]
		all = append(all, s)
	}
	return use(all)
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

// writeSeries merges sections by labels; those of one series come in the order of runs,
// which is that of Append.
func (m *Merge) writeSeries(ctx context.Context, rs []*sectionReader, out Output) error {
	queue := minheap.Heap[*sectionReader]{Less: func(a, b *sectionReader) bool {
		c := slices.Compare(a.entry.names, b.entry.names)
		return c < 0 || c == 0 && a.run < b.run
	}}
	for _, r := range rs {
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			queue.Push(r)
		}
	}
	for n := 0; len(queue.Items) > 0; n++ {
		if err := poll(ctx, n); err != nil {
			return err
		}
		m.rename(queue.Items[0].entry.names)
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

// writeOne writes the series on top, from all runs that have it.
func (m *Merge) writeOne(queue *minheap.Heap[*sectionReader]) error {
	m.join.begin()
	m.same = m.same[:0]
	for len(queue.Items) > 0 && slices.Equal(queue.Items[0].entry.names, m.join.names) {
		m.same = append(m.same, queue.Items[0])
		queue.Pop()
	}
	if err := m.writeRuns(m.same); err != nil {
		return err
	}
	for _, r := range m.same {
		ok, err := r.next()
		if err != nil {
			return err
		}
		if ok {
			queue.Push(r)
		}
	}
	return m.join.flush()
}

// scratchName is a file of the merge beside the runs.
func (m *Merge) scratchName() string { return filepath.Join(m.s.dir, "merge-symbols") }
