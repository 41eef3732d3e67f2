package agg

import (
	"math"

	"github.com/pkg/errors"
)

// Windows are spans of time of one length, one step apart. There is one for each of the times
// Start, Start+Step, Start+2*Step and so on that are not after End: that of t has the samples of
// (t-Range, t]. All are milliseconds.
type Windows struct {
	Start, End int64
	Step       int64 // 0: there is one window
	Range      int64 // of each; 0: that of Step, so that each sample is in one window
}

// normal returns the windows with Range filled in, or what is wrong with them.
func (w Windows) normal() (Windows, error) {
	if w.Range == 0 {
		w.Range = w.Step
	}
	switch {
	case w.Step < 0 || w.Range < 0:
		return w, errors.Errorf("windows with a step of %d ms and a range of %d ms: want none below 0", w.Step, w.Range)
	case w.Range == 0:
		return w, errors.New("windows without a range: want a step or a range")
	case w.Start > w.End:
		return w, errors.Errorf("windows from %d to %d: want a start that is not after the end", w.Start, w.End)
	case w.Start < math.MinInt64+w.Range:
		return w, errors.Errorf("windows from %d with a range of %d ms: they begin before there is time", w.Start, w.Range)
	case w.Step == 0:
		w.End, w.Step = w.Start, 1
	}
	return w, nil
}

// endOf returns the end of the first window that ends at t or later; false if there is none.
func (w *Windows) endOf(t int64) (int64, bool) {
	if t <= w.Start {
		return w.Start, true
	}
	steps := (uint64(t)-uint64(w.Start)-1)/uint64(w.Step) + 1
	if steps > (uint64(w.End)-uint64(w.Start))/uint64(w.Step) {
		return 0, false
	}
	return w.Start + int64(steps*uint64(w.Step)), true
}
