package remote

import (
	"slices"

	"github.com/seed347100a3/tsdb/labels"
)

// frameLabels are the labels of a series as its frames have them, one message after the
// other. The zero value has none.
type frameLabels struct {
	bytes  []byte
	size   int // of the labels, as the limit of a frame counts them
	labels []frameLabel
	msg    []byte // a message that takes the place of another one
}

// frameLabel is a label and how long its message is, with tag and length.
type frameLabel struct {
	labels.Label
	size int
}

// maxMoved is how many labels of another length may move what stands behind them. More are
// written anew with all behind them: labels may be many.
const maxMoved = 4

// set replaces the labels. Most are those of the series before, of which head and blocks give the
// same strings, or have the same length: their messages stay where they are (BenchmarkReadHead).
func (f *frameLabels) set(ls []labels.Label) {
	n, at, moved := 0, 0, 0
	for ; n < min(len(ls), len(f.labels)); n++ {
		l, old := &ls[n], &f.labels[n]
		if l.Value != old.Value || l.Name != old.Name {
			if !old.isLike(l) {
				moved++
			}
			if moved > maxMoved {
				break
			}
			f.replace(at, old, l)
		}
		at += old.size
	}
	for _, old := range f.labels[n:] {
		f.size -= sizeLabel(old.Label)
	}
	f.bytes, f.labels = f.bytes[:at], f.labels[:n]
	for i := range ls[n:] {
		f.labels = append(f.labels, frameLabel{})
		f.replace(len(f.bytes), &f.labels[n+i], &ls[n+i])
	}
}

// isLike reports whether the message of another label has the same lengths.
func (f *frameLabel) isLike(l *labels.Label) bool {
	return f.size > 0 && len(l.Value) == len(f.Value) && len(l.Name) == len(f.Name)
}

// replace puts a label where the message of old begins, which it becomes.
func (f *frameLabels) replace(at int, old *frameLabel, l *labels.Label) {
	if end := at + old.size; old.isLike(l) {
		copy(f.bytes[end-len(l.Value):], l.Value)
		copy(f.bytes[end-sizeString(l.Value)-len(l.Name):], l.Name)
	} else {
		f.size += sizeLabel(*l) - sizeLabel(old.Label)
		f.msg = appendLabel(f.msg[:0], *l)
		f.bytes = slices.Replace(f.bytes, at, end, f.msg...)
		old.size = len(f.msg)
	}
	old.Label = *l
}
