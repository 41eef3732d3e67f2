package index

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/internal/foreground"
)

// What flushes and merges write, and verify, is beside commits and queries, which go first:
// after so many series or lists, and after so many comparisons or entries that are passed over.
const (
	wayEvery = 128
	waySteps = 4096
)

// verifier reads a whole index under one guard.
type verifier struct {
	r        *Reader
	ctx      context.Context
	disorder func(error) // nil: it is an error like any other
	polls    int
	way      foreground.Steps

	pairs *pairIndex // numbers are those of the lists
	name  []byte     // of the list before, in the file
	last  SymbolPair // of the list before; no symbols before the first one
	next  []int      // by list: offset in the file of the next id that no series had yet
	end   []int      // by list: offset behind its ids
}

func newVerifier(ctx context.Context, r *Reader, disorder func(error)) *verifier {
	return &verifier{r: r, ctx: ctx, disorder: disorder, pairs: newPairIndex(r.symbols.count), last: SymbolPair{Name: math.MaxUint32}}
}

func (v *verifier) run(fn func(id uint64, ls []SymbolPair, cs []ChunkMeta) error) error {
	for _, step := range []func() error{
		v.sections, v.lists, func() error { return v.series(fn) }, v.allSeen,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) poll() error {
	v.polls++
	v.way.Step(wayEvery)
	if v.polls%pollEvery == 0 {
		return v.ctx.Err()
	}
	return nil
}

// sections repeats the checks of OpenReader and looks at each symbol.
func (v *verifier) sections() error {
	fresh := Reader{file: blockFile{name: v.r.file.name, b: v.r.file.b}}
	if err := fresh.openSections(); err != nil {
		return err
	}
	return v.r.Symbols(func(uint32, []byte) error { return v.poll() })
}

// disordered is about a place where the order is not as it should be.
func (v *verifier) disordered(off int, reason string) error {
	err := v.r.file.corrupt(off, reason)
	if v.disorder == nil {
		return err
	}
	v.disorder(err)
	return nil
}

// lists checks each list and makes it known by its pair.
func (v *verifier) lists() error {
	r := v.r
	c := r.table.cursor(0)
	for num := range r.table.count {
		e, ok := c.next()
		if !ok {
			return r.table.corrupt()
		}
		ids, err := r.lists.get(num, e)
		if err != nil {
			return err
		}
		off := int(e.list)
		first := off + sectionHeadBytes + countBytes
		if err := r.lists.check(off, r.file.b[off+sectionHeadBytes:first+len(ids)], ids); err != nil {
			return err
		}
		for i := 1; i < ids.len(); i++ {
			if ids.at(i) != ids.at(i-1) {
				continue
			}
			if err := v.disordered(off, "postings list has a series twice"); err != nil {
				return err
			}
			break
		}
		v.next = append(v.next, first)
		v.end = append(v.end, first+len(ids))
		if err := v.know(num, e); err != nil {
			return err
		}
	}
	return v.gaps()
}

// gaps makes sure that lists follow each other with nothing but padding in between.
// Those of old writers may be in another order than their entries, and in version 1 they
// need not be aligned.
func (v *verifier) gaps() error {
	order := make([]int, len(v.end))
	for num := range order {
		order[num] = num
	}
	sort.Slice(order, func(i, k int) bool { return v.next[order[i]] < v.next[order[k]] })
	behind := int(v.r.toc.postings) // the list before
	for _, num := range order {
		off := v.next[num] - sectionHeadBytes - countBytes
		if off < behind || off-behind >= listAlign || v.r.version > 1 && off%listAlign != 0 {
			return v.r.file.corrupt(off, "postings list does not follow the one before")
		}
		for i := behind; i < off; i++ {
			if v.r.file.b[i] != 0 {
				return v.r.file.corrupt(i, "padding before a postings list is not zero")
			}
		}
		behind = v.end[num] + crcBytes
	}
	if t := v.r.toc; t.labelIndicesTable == t.postingsTable && behind != int(t.postingsTable) {
		return v.r.file.corrupt(behind, "postings offset table does not follow the last list")
	}
	return nil
}

// know enters the pair of a list.
func (v *verifier) know(num int, e tableEntry) error {
	if num == 0 {
		return nil
	}
	// Entries ascend by name and value, so a value stands behind the one before.
	if v.last.Name >= uint32(v.r.symbols.count) || string(v.name) != string(e.name) {
		name, ok := v.r.symbols.find(string(e.name))
		if !ok {
			return v.noSymbol(e)
		}
		v.name, v.last = e.name, SymbolPair{Name: name}
	}
	value, ok := v.r.symbols.findFrom(v.last.Value, string(e.value))
	if !ok {
		return v.noSymbol(e)
	}
	v.last.Value = value
	v.pairs.set(v.last, uint32(num))
	return v.poll()
}

func (v *verifier) noSymbol(e tableEntry) error {
	return v.r.file.corrupt(int(e.list), "postings list of a label that is no symbol")
}

// series walks over the series section, with nothing but padding between entries.
func (v *verifier) series(fn func(id uint64, ls []SymbolPair, cs []ChunkMeta) error) error {
	r := v.r
	order := seriesOrder{emptyFirst: r.symbols.empty}
	var ls []SymbolPair
	var cs []ChunkMeta
	off, end := int(r.series.first), int(r.series.end)
	for {
		for off < end && r.file.b[off] == 0 {
			off++
		}
		if off == end {
			return nil
		}
		id, err := r.series.idAt(off)
		if err != nil {
			return err
		}
		body, next, err := r.series.entryAt(off)
		if err != nil {
			return err
		}
		if ls, cs, err = r.series.decode(off, body, ls[:0], cs[:0]); err != nil {
			return err
		}
		switch reason := order.breaks(ls, cs); reason {
		case "":
		case endsEarly: // nobody can put that in order
			return r.file.corrupt(off, reason)
		default:
			if err := v.disordered(off, reason); err != nil {
				return err
			}
		}
		if err := v.see(off, id, ls); err != nil {
			return err
		}
		if err := fn(id, ls, cs); err != nil {
			return err
		}
		order.accept(ls, cs)
		off = next
		if err := v.poll(); err != nil {
			return err
		}
	}
}

// see takes a series off the lists that it must be the next one of.
func (v *verifier) see(off int, id uint64, ls []SymbolPair) error {
	if !v.take(0, id) {
		return v.r.file.corrupt(off, "series is not in the list of all series")
	}
	for i, l := range ls {
		if slices.Contains(ls[:i], l) {
			continue // it was told that names do not ascend
		}
		if num, ok := v.pairs.find(l); !ok || !v.take(int(num), id) {
			return v.r.file.corrupt(off, "series is not in the postings list of its label")
		}
	}
	return nil
}

// take passes over a series in a list, where it may stand twice.
func (v *verifier) take(num int, id uint64) (found bool) {
	for at := v.next[num]; at < v.end[num] && uint64(binary.BigEndian.Uint32(v.r.file.b[at:])) == id; at += idBytes {
		v.next[num], found = at+idBytes, true
	}
	return found
}

// allSeen makes sure that lists have no more series than were found.
func (v *verifier) allSeen() error {
	for num, at := range v.next {
		if at != v.end[num] {
			return v.r.file.corrupt(at, "postings list has a series that there is not")
		}
	}
	return v.ctx.Err()
}
