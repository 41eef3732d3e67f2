package memseries

// Located is a full chunk that is in a head-chunk file, and its series.
type Located struct {
	Series *Series
	Mapped
}

// InFiles returns the full chunks that are in files of these numbers, those of each series in
// the order of time. It runs beside commits and readers.
func (sf *Shelf) InFiles(file func(number uint32) bool) []Located {
	var found []Located
	sf.shards.eachLocked(func(_ *Shard, s *Series) {
		for _, m := range s.mapped() {
			if inFile(m) && file(m.Ref.File()) {
				found = append(found, Located{s, m})
			}
		}
	})
	return found
}
