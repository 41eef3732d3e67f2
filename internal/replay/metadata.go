package replay

import "github.com/seed347100a3/tsdb/internal/record"

// addMetadata notes the newest metadata of series, and gives unknown what is of none. The error is
// an *encbuf.CorruptError; what stands before the damage counts.
func addMetadata(r *replay, rec []byte, unknown func(ref uint64, value string)) error {
	var dec record.MetadataDecoder
	for dec.Reset(rec); dec.Next(); {
		ref, value := dec.Ref(), string(dec.Value())
		if first, ok := r.dups[ref]; ok {
			ref = first
		}
		if r.to.Series.ByRef(ref) == nil {
			r.to.Series.RaiseNextRef(ref + 1)
			unknown(ref, value)
			continue
		}
		r.out.Metadata.Set(ref, value)
		r.early.metadata.passed(ref)
	}
	return dec.Err()
}

// What is kept of metadata without a record, at most.
const (
	maxEarlyMetadata = 1 << 16 // refs
	maxEarlyText     = 8 << 20 // bytes
)

// earlyMetadata is metadata of refs that have no record yet. A checkpoint has it of all series, of
// some before their record.
type earlyMetadata struct {
	of      map[uint64]earlyValue // by ref
	text    int                   // bytes of the values
	unknown uint64                // entries that were given up

	// The last entry of a series counts, whatever ref it stands under. So entries are numbered
	// while some are early, and behind has the last ones of series that are known.
	n      int
	behind map[uint64]int
}

// earlyValue is the last value of a ref.
type earlyValue struct {
	value   string
	at      int    // its number
	entries uint64 // that the ref has had
}

// keep keeps a value until the record of its series comes.
func (e *earlyMetadata) keep(ref uint64, value string) {
	old, ok := e.of[ref]
	e.forget(ref)
	if !ok && len(e.of) == maxEarlyMetadata || e.text+len(value) > maxEarlyText {
		e.unknown += old.entries + 1 // an old value would be a wrong one
		return
	}
	if e.of == nil {
		e.of, e.behind = map[uint64]earlyValue{}, map[uint64]int{}
	}
	e.n++
	e.of[ref] = earlyValue{value, e.n, old.entries + 1}
	e.text += len(value)
}

// passed notes that a series that is known got a value.
func (e *earlyMetadata) passed(ref uint64) {
	if len(e.of) > 0 {
		e.n++
		e.behind[ref] = e.n
	}
}

// forget drops what is kept of a ref.
//
//go:noinline
func (e *earlyMetadata) forget(ref uint64) {
	e.text -= len(e.of[ref].value)
	delete(e.of, ref)
}

// take returns the value of a ref whose series, known as first, has its record now; false if the
// series has a later one.
func (e *earlyMetadata) take(ref, first uint64) (value string, ok bool) {
	v, ok := e.of[ref]
	if !ok || v.at < e.behind[first] {
		e.forget(ref)
		return "", false
	}
	e.forget(ref)
	e.behind[first] = v.at
	return v.value, true
}

// left returns how many entries came to nothing.
func (e *earlyMetadata) left() uint64 {
	n := e.unknown
	for _, v := range e.of {
		n += v.entries
	}
	return n
}
