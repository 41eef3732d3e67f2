package late

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Foreign is the commit of samples whose log does not number commits. It is before all others.
const Foreign = 0

// foreignDelete is the commit of deletes of such a log: behind its samples.
const foreignDelete = Foreign + 1

// Restorer fills a Store that is empty, from logs. Until Finish nothing is asked of the Store.
type Restorer Store

// Restorer returns what fills the store.
func (st *Store) Restorer() *Restorer { return (*Restorer)(st) }

// Add adds a sample that a log has, of whatever commit and in any order. The same sample of the
// same commit may come more than once.
func (r *Restorer) Add(ref uint64, smp *Sample, seq uint64) {
	s := r.of(ref)
	s.recent.insert(newSample(smp, seq))
}

// Delete deletes samples of commits before seq. One that is Foreign deletes those that are.
func (r *Restorer) Delete(ref uint64, iv tombstones.Interval, seq uint64) {
	s := r.of(ref)
	s.deleted = append(s.deleted, deletion{iv, max(seq, foreignDelete)})
}

// Has reports whether samples of a series were added.
func (r *Restorer) Has(ref uint64) bool {
	s := r.shards.of(ref).of(ref)
	return s != nil && s.recent.n > 0
}

// of returns a series. Recovery is alone.
//
//go:noinline
func (r *Restorer) of(ref uint64) *series {
	sh := r.shards.of(ref)
	s := sh.of(ref)
	if s == nil {
		s = sh.add(ref)
	}
	return s
}

// Finish makes ordinary samples of what was added. Commits behind last never were: what they
// brought goes, and it returns how many samples that were. Errors say that samples in memory are
// damaged.
func (r *Restorer) Finish(last uint64) (void int, err error) {
	st := (*Store)(r)
	for i := range st.shards {
		sh := &st.shards[i]
		if sh.mu.tools == nil {
			continue
		}
		sh.mu.weaver.encoder.cutting = st.cutting
		sh.mu.series.Keep(func(_ uint64, s *series) bool {
			had := s.recent.n
			s.recent.keep(func(seq uint64) bool { return seq <= last })
			s.removeDeleted(func(seq uint64) bool { return seq > last && seq > foreignDelete })
			void += had - s.recent.n
			if failed := s.seal(math.MaxUint64, &sh.mu.weaver); failed != nil {
				err = failed
				return true
			}
			s.recent = recent{} // it may have been long
			if s.isEmpty() {
				return false
			}
			st.series.Add(1)
			sh.mu.samples += int64(s.len())
			st.bytes.Add(s.bytes())
			st.widen(s.chunks[0].MinT)
			st.widen(s.chunks[len(s.chunks)-1].MaxT)
			return true
		})
		if err != nil {
			return void, err
		}
		sh.mu.weaver = weaver{} // a series may have been long
	}
	return void, nil
}
