package memseries

import "math"

// RangeEnd returns the end of the block range of width r, in milliseconds, that t lies
// in: no chunk crosses it.
func RangeEnd(t, r int64) int64 { return rangeEnd(t, r) }

// OldestFrom returns the oldest time from t on that a series may have a sample at,
// as far as chunk bounds tell, and false if there is none. What is appended meanwhile
// may be missed.
func (d *Directory) OldestFrom(t int64) (oldest int64, ok bool) {
	oldest = math.MaxInt64
	d.eachLocked(func(_ *Shard, s *Series) {
		for _, m := range s.mapped() {
			if m.MaxT >= t {
				oldest, ok = min(oldest, max(t, m.MinT)), true
				return
			}
		}
		if s.enc.Len() > 0 && s.enc.LastT() >= t {
			oldest, ok = min(oldest, max(t, s.enc.FirstT())), true
		}
	})
	return oldest, ok
}
