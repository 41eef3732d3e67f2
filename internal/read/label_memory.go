package read

import "sync"

// LabelMemory is what queries of one database learn of labels and leave for later ones: what is
// asked for is mostly what was asked for a minute ago. The zero value is empty. It is safe for
// concurrent use.
type LabelMemory struct {
	texts labelTexts // of series of the head that were selected last
	twins sync.Pool  // of *labelTwins that no query uses: 150 KB of garbage less for each that has use for one
}

// SizeBytes returns the memory of the texts.
func (m *LabelMemory) SizeBytes() int64 { return m.texts.sizeBytes() }

// labelTwins returns a table for one query. A query that is asked again, as those of dashboards
// are, finds there which series are the same.
func (m *LabelMemory) labelTwins() *labelTwins {
	if t, ok := m.twins.Get().(*labelTwins); ok {
		return t
	}
	return new(labelTwins)
}

// keep gives the table to the next query.
func (m *LabelMemory) keep(t *labelTwins) {
	t.forget()
	m.twins.Put(t)
}
