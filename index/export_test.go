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
