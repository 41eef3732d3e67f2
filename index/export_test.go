package index

// SetLimits makes the fields of the format smaller than they are.
func (w *Writer) SetLimits(section, list, file uint64) {
	w.limits = limits{section: section, list: list, file: file}
}

// SkipTo leaves a hole in the file: the first series comes at off.
func (w *Writer) SkipTo(off int64) error {
	if err := w.begin(); err != nil {
		return err
	}
	if err := w.out.flush(); err != nil {
		return err
	}
	if err := w.out.f.Truncate(off); err != nil {
		return err
	}
	w.out.flushed, w.firstSeries = off, off
	return nil
}

// SortParts is SortByLabelsInParts with parts of about so many items.
func SortParts[T any](m *MemPostings, items []T, pairs func(T) []Pair, atOnce int) {
	sortBy(m, items, pairs, atOnce)
}

// Expand returns the refs that are left of p.
func Expand(p Postings) ([]uint64, error) {
	var refs []uint64
	for p.Next() {
		refs = append(refs, p.At())
	}
	return refs, p.Err()
}
