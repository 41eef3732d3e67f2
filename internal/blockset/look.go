package blockset

import (
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

// A database that rests looks each minute whether somebody has put a block into its directory. To
// ask when the directory was changed last costs a quarter of listing it.

const (
	// settledAfter is how long the last change must be over when a directory is listed, so that a
	// later one has another time: some file systems know times to two seconds only.
	settledAfter = 3 * time.Second
	// listEvery is how often the directory is listed all the same: some file systems do not note
	// when a directory was changed.
	listEvery = 10
)

// dirLook knows since when nothing has come into a directory.
type dirLook struct {
	changed int64 // last, in nanoseconds since 1970, when it was listed; 0: it must be listed
	looks   int   // since then
}

// changedAt returns when a directory was changed last, in nanoseconds since 1970; 0 if that was
// just now, or nobody knows.
func changedAt(cfg *Config) int64 {
	info, err := cfg.FS.Stat(cfg.Dir)
	if err != nil {
		return 0 // to list it says what is wrong
	}
	changed := info.ModTime().UnixNano()
	if clock.UnixMilli(cfg.Clock)-changed/1e6 < settledAfter.Milliseconds() {
		return 0
	}
	return changed
}

// maySkip counts a look, and reports whether the directory need not be listed for it: it is as it
// was. changed: see changedAt.
func (l *dirLook) maySkip(changed int64) bool {
	l.looks++
	return changed != 0 && changed == l.changed && l.looks < listEvery
}

// listed notes that the directory was listed, after changedAt; again: it has what is to be looked
// at once more.
func (l *dirLook) listed(changed int64, again bool) {
	*l = dirLook{}
	if !again {
		l.changed = changed
	}
}
