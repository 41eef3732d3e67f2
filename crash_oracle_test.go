package tsdb_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// row is a sample of a commit.
type row struct {
	ls labels.Labels
	t  int64
	v  float64
}

// history is what was committed, in the order of the log. All samples of a series ascend
// in time.
type history struct {
	commits [][]row
	// base, if set, is what a damaged directory had before the first of them. Then what
	// is there is known by its content only: the log counts commits that are lost.
	base   *content
	lied   bool // a sync failed: what the kernel took for written may be garbage
	failed int  // commits: some of their records may be found, their frames never

	mu     sync.Mutex
	states map[int]*content
}

// content is what the database holds after the first so many commits.
type content struct {
	series  map[labels.Labels][]point
	samples int
	records int // of the log: one with samples for each commit, one for its new series
}

func (h *history) add(rows []row) { h.commits = append(h.commits, rows) }

func (h *history) len() int { return len(h.commits) }

// prefix returns the history that ends after k commits; it does not share what grows.
func (h *history) prefix(k int) *history {
	return &history{commits: slices.Clip(h.commits[:k]), base: h.base, lied: h.lied, failed: h.failed}
}

// after returns what the first k commits amount to.
func (h *history) after(k int) *content {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.states[k]; c != nil {
		return c
	}
	c := &content{series: map[labels.Labels][]point{}}
	if h.base != nil {
		for ls, ps := range h.base.series {
			c.series[ls] = slices.Clip(ps)
		}
	}
	for _, rows := range h.commits[:k] {
		before := len(c.series)
		for _, r := range rows {
			c.series[r.ls] = append(c.series[r.ls], point{r.t, math.Float64bits(r.v)})
			c.samples++
		}
		c.records++
		if len(c.series) > before {
			c.records++
		}
	}
	if h.states == nil {
		h.states = map[int]*content{}
	}
	h.states[k] = c
	return c
}

// promise is what may and what must be there after a crash: a prefix of the history of
// at least lo and at most hi commits. No more than begun can have left a trace.
type promise struct{ lo, hi, begun int }

func exactly(k int) promise { return promise{k, k, k} }

// verifyOpen checks a database that was just opened on what a crash left: its content is
// a prefix of the history, within the promise, and the report says exactly what is there.
// It returns how many commits there are.
func verifyOpen(db *tsdb.DB, h *history, p promise) (k int, err error) {
	rep := db.OpenReport()
	if h.base != nil {
		return h.findContent(db, p)
	}
	k = rep.Commits
	if k < p.lo || k > p.hi {
		return k, errors.Errorf("%d commits are there, want %d to %d: %+v", k, p.lo, p.hi, rep)
	}
	want := h.after(k)
	if err := verifyContent(db, want); err != nil {
		return k, errors.WithMessagef(err, "after %d commits: %+v", k, rep)
	}
	if text := wrongCounts(rep, h, k, p.begun); text != "" {
		return k, errors.Errorf("report: %s: %+v", text, rep)
	}
	return k, nil
}

// findContent returns after how many commits the content is that of a database.
func (h *history) findContent(db *tsdb.DB, p promise) (k int, err error) {
	got, err := readContent(db)
	if err != nil {
		return 0, err
	}
	for k = p.lo; k <= p.hi; k++ {
		if err = sameContent(got, h.after(k)); err == nil {
			return k, nil
		}
	}
	return p.hi, errors.WithMessagef(err, "content is not that after %d to %d commits", p.lo, p.hi)
}

// verifyContent compares all that can be read with what should be there.
func verifyContent(db *tsdb.DB, want *content) error {
	got, err := readContent(db)
	if err != nil {
		return err
	}
	return sameContent(got, want)
}

func sameContent(got map[labels.Labels][]point, want *content) error {
	for ls, ps := range want.series {
		if !slices.Equal(got[ls], ps) {
			return errors.Errorf("series %.60s has %d samples %.120s, want %d: %.120s", ls, len(got[ls]), fmt.Sprint(got[ls]), len(ps), fmt.Sprint(ps))
		}
	}
	for ls := range got {
		if want.series[ls] == nil {
			return errors.Errorf("series %.60s should not be there", ls)
		}
	}
	return nil
}

func readContent(db *tsdb.DB) (_ map[labels.Labels][]point, err error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	all := map[labels.Labels][]point{}
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, nil).All() {
		if err != nil {
			return nil, err
		}
		var ps []point
		for it = s.Iterator(it); it.Next() != chunkenc.ValNone; {
			t, v := it.At()
			ps = append(ps, point{t, math.Float64bits(v)})
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
		all[s.Labels()] = ps
	}
	return all, nil
}

// wrongCounts compares a report with what k commits are. Nothing that was dropped was
// in the log but what was begun.
func wrongCounts(rep tsdb.OpenReport, h *history, k, begun int) string {
	c, most := h.after(k), h.after(begun)
	switch {
	case rep.LastSeq != uint64(k):
		return fmt.Sprintf("sequence, want %d", k)
	case rep.Records != c.records:
		return fmt.Sprintf("records, want %d", c.records)
	case rep.Series != len(c.series):
		return fmt.Sprintf("series, want %d", len(c.series))
	case rep.Samples+rep.SamplesInChunks != uint64(c.samples):
		return fmt.Sprintf("samples, want %d", c.samples)
	case rep.SamplesLate+rep.SamplesUnknown > 0 || rep.UnreadRecords != nil || rep.ForeignSegments > 0:
		return "something that nobody wrote"
	case rep.SeriesRebuilt > 0:
		return "series rebuilt: chunk files have a hole"
	case rep.SyncedSeq > rep.LastSeq:
		return "more is synced than is there"
	case !rep.Clean():
		return "not clean: a crash takes nothing that was promised"
	case rep.DroppedCommits > begun-k || rep.DroppedRecords > most.records-c.records+2*h.failed:
		return fmt.Sprintf("dropped, want at most %d commits and %d records", begun-k, most.records-c.records)
	case !rep.TornTail && (rep.DroppedCommits > 0 || rep.DroppedRecords > 0 || rep.DroppedBytes > 0 && !h.lied):
		return "dropped without a torn tail"
	}
	return wrongDamages(rep, h.lied)
}

// wrongDamages: a power failure tears the end of the log, and chunk files, which the log
// makes good; nothing else.
func wrongDamages(rep tsdb.OpenReport, lied bool) string {
	tails, harmless := 0, 0
	for _, d := range rep.Damages {
		switch {
		case d.Tail && !d.Rebuilt && !d.Harmless:
			tails++
		case d.Harmless && !d.Tail && !d.Rebuilt && lied:
			harmless++
		case !d.Rebuilt || d.Tail || d.Harmless:
			return fmt.Sprintf("damage %+v", d)
		}
	}
	if rep.TornTail != (tails > 0) {
		return "torn tail without its place, or the other way round"
	}
	for _, q := range rep.Quarantined {
		if strings.HasPrefix(q, "quarantine/wal-") && tails+harmless == 0 {
			return "log in quarantine without damage"
		}
	}
	return ""
}

// verifyFiles compares a report with the files that Open read, and what it says of the
// quarantine with what is there: each damaged file as it was.
func verifyFiles(disk *tsdbtest.MemFS, before map[string][]byte, rep tsdb.OpenReport) error {
	segments, size := 0, int64(0)
	for name, data := range before {
		if strings.HasPrefix(name, "data/wal/0") {
			segments++
			size += int64(len(data))
		}
	}
	if rep.Segments != segments || !rep.TornTail && rep.Bytes != size || rep.Bytes > size {
		return errors.Errorf("report has %d segments with %d bytes, want %d with %d", rep.Segments, rep.Bytes, segments, size)
	}
	for _, q := range rep.Quarantined {
		if _, err := disk.Stat(path.Join("data", q)); err != nil {
			return errors.WithMessagef(err, "%s is not in the quarantine", q)
		}
	}
	copies, err := everyFile(disk)
	if err != nil {
		return err
	}
	maps.DeleteFunc(copies, func(name string, _ []byte) bool { return !strings.HasPrefix(name, "data/quarantine/") })
	for _, d := range rep.Damages {
		was := before[d.File]
		if len(was) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(copies)), func(c []byte) bool { return bytes.Equal(c, was) }) {
			return errors.Errorf("%s was damaged, and there is no copy of it in quarantine/: %+v", d.File, d)
		}
	}
	for _, name := range disk.Files() {
		if strings.HasPrefix(name, "data/tmp-") {
			return errors.Errorf("%s was left behind", name)
		}
	}
	return nil
}

// everyFile returns the content of all files.
func everyFile(disk *tsdbtest.MemFS) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range disk.Files() {
		if strings.HasSuffix(name, "/") {
			continue
		}
		data, err := disk.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// undamaged says that a report has nothing to tell but what is there.
func undamaged(rep tsdb.OpenReport) error {
	if rep.TornTail || len(rep.Damages) > 0 || len(rep.Quarantined) > 0 || rep.DroppedRecords+rep.DroppedCommits > 0 || rep.DroppedBytes > 0 {
		return errors.Errorf("there is damage where none can be: %+v", rep)
	}
	return nil
}
