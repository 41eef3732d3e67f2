package tsdb_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// row is a sample of a commit, of whatever kind.
type row struct {
	ls labels.Labels
	point
	sample tsdb.Sample
	late   bool // unless its series has no sample
}

func rowOf(ls labels.Labels, s *anySample) row {
	return row{ls: ls, point: s.point(), sample: s.sample()}
}

func floatRow(ls labels.Labels, t int64, v float64) row {
	return row{ls: ls, point: point{t, math.Float64bits(v)}, sample: tsdb.Sample{T: t, V: v}}
}

// entry is one commit of the log: samples, and what besideOf says, or a delete.
type entry struct {
	rows []row
	gone []sampleKey // what a delete took from the head
}

// history is what was committed, in the order of the log. All samples of a series ascend
// in time, but for late ones, of which none has the time of another sample of its series.
type history struct {
	commits []entry
	// base, if set, is what a damaged directory had before the first of them. Then what
	// is there is known by its content only: the log counts commits that are lost.
	base   *content
	lied   bool // a sync failed: what the kernel took for written may be garbage
	failed int  // records of failed commits: some may be found, the frames never
	// blocks: there were or are some, so the log need not have everything.
	blocks bool

	mu     sync.Mutex
	states map[stateKey]*content
}

type stateKey struct {
	commits int
	effects *effects
}

// content is what the database holds after the first so many commits.
type content struct {
	series  map[labels.Labels][]point
	logged  int // series that the log has, those without a sample that is left counted
	samples int
	records int // of the log: those with samples of each commit, one for its new series
}

func (h *history) add(rows []row) { h.commits = append(h.commits, entry{rows: rows}) }

func (h *history) len() int { return len(h.commits) }

// prefix returns the history that ends after k commits; it does not share what grows.
func (h *history) prefix(k int) *history {
	return h.with(h.commits[:k])
}

// with returns the history with other commits.
func (h *history) with(commits []entry) *history {
	return &history{commits: slices.Clip(commits), base: h.base, lied: h.lied, failed: h.failed, blocks: h.blocks}
}

// after returns what the first k commits amount to, together with what became of blocks.
func (h *history) after(k int, e *effects) *content {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := stateKey{k, e}
	if c := h.states[key]; c != nil {
		return c
	}
	c := &content{series: map[labels.Labels][]point{}}
	if h.base != nil {
		for ls, ps := range h.base.series {
			c.series[ls] = slices.Clip(ps)
		}
	}
	gone, late := map[sampleKey]bool{}, false
	for _, commit := range h.commits[:k] {
		before := len(c.series)
		for _, r := range commit.rows {
			c.series[r.ls] = append(c.series[r.ls], r.point)
			c.samples++
			late = late || r.late
		}
		for _, k := range commit.gone {
			gone[k] = true
		}
		c.records += sampleRecords(commit.rows) + besideOf(commit.rows).records()
		if len(c.series) > before {
			c.records++
		}
	}
	c.logged = len(c.series)
	if e != nil {
		for _, r := range e.extra {
			c.series[r.ls] = append(c.series[r.ls], r.point)
		}
		maps.Copy(gone, e.removed)
	}
	for ls, ps := range c.series {
		ps = slices.DeleteFunc(slices.Clone(ps), func(p point) bool { return gone[sampleKey{ls, p.T}] })
		if late {
			slices.SortFunc(ps, func(a, b point) int { return cmp.Compare(a.T, b.T) })
		}
		if c.series[ls] = ps; len(ps) == 0 {
			delete(c.series, ls)
		}
	}
	if h.states == nil {
		h.states = map[stateKey]*content{}
	}
	h.states[key] = c
	return c
}

// promise is what may and what must be there after a crash: a prefix of the history of
// at least lo and at most hi commits. No more than begun can have left a trace. Of each
// group of maybe all is there, or nothing.
type promise struct {
	lo, hi, begun int
	effects       *effects
	maybe         []group
	copy          *snapshotCopy // that was begun; nil: none
}

func exactly(k int, e *effects) promise { return promise{lo: k, hi: k, begun: k, effects: e} }

// verifyOpen checks a database that was just opened on what a crash left: its content is
// a prefix of the history, within the promise, and the report says exactly what is there.
func verifyOpen(db *tsdb.DB, h *history, p promise) (f finding, err error) {
	rep := db.OpenReport()
	if f.got, err = readContent(db); err != nil {
		return f, err
	}
	if h.base != nil {
		return h.findContent(f, p)
	}
	f.commits, f.dropped = int(rep.LastSeq), rep.DroppedCommits
	if err := f.against(h, p); err != nil {
		return f, errors.WithMessagef(err, "%+v", rep)
	}
	if f.effects, err = h.settle(f, p); err != nil {
		return f, err
	}
	if text := wrongCounts(rep, h, f.commits, p.begun, f.effects, db.Blocks()); text != "" {
		return f, errors.Errorf("report: %s: %+v", text, rep)
	}
	return f, h.verifyBeside(db, f.commits, f.effects, f.got)
}

// finding is what was found in a database that was opened.
type finding struct {
	commits, dropped int
	got              map[labels.Labels][]point
	effects          *effects // with what was not sure before
}

// against compares with the promise of a crash that can leave this.
func (f finding) against(h *history, p promise) error {
	if f.commits < p.lo || f.commits > p.hi || f.dropped > p.begun-f.commits {
		return errors.Errorf("%d commits are there and %d dropped, want %d to %d of %d", f.commits, f.dropped, p.lo, p.hi, p.begun)
	}
	e, err := h.settle(f, p)
	if err == nil {
		err = sameContent(f.got, h.after(f.commits, e))
	}
	return errors.WithMessagef(err, "after %d commits", f.commits)
}

func (h *history) settle(f finding, p promise) (*effects, error) {
	return p.effects.settle(p.maybe, h.after(f.commits, p.effects), f.got)
}

// findContent returns after how many commits the content is that of a database.
func (h *history) findContent(f finding, p promise) (_ finding, err error) {
	for f.commits = p.lo; f.commits <= p.hi; f.commits++ {
		if f.effects, err = h.settle(f, p); err == nil {
			err = sameContent(f.got, h.after(f.commits, f.effects))
		}
		if err == nil {
			return f, nil
		}
	}
	f.commits = p.hi
	return f, errors.WithMessagef(err, "content is not that after %d to %d commits", p.lo, p.hi)
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

func readContent(db snapshots) (_ map[labels.Labels][]point, err error) {
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
		it = s.Iterator(it)
		ps, err := pointsOf(it)
		if err != nil {
			return nil, err
		}
		if len(ps) > 0 { // all may be deleted
			all[s.Labels()] = ps
		}
	}
	return all, nil
}

// wrongCounts compares a report with what k commits are. Nothing that was dropped was
// in the log but what was begun.
func wrongCounts(rep tsdb.OpenReport, h *history, k, begun int, e *effects, blocks []tsdb.BlockMeta) string {
	switch {
	case rep.SamplesLate+rep.SamplesUnknown+rep.LateUnknown+rep.LateInvalid > 0 || rep.UnreadRecords != nil || rep.ForeignSegments > 0:
		return "something that nobody wrote"
	case rep.SeriesRebuilt > 0:
		return "series rebuilt: chunk files have a hole"
	case rep.SyncedSeq > rep.LastSeq:
		return "more is synced than is there"
	case !rep.Clean() || rep.BlocksSetAside > 0:
		return "not clean: a crash takes nothing that was promised"
	case rep.DroppedCommits > begun-k:
		return fmt.Sprintf("dropped, want at most %d commits", begun-k)
	case !rep.TornTail && (rep.DroppedCommits > 0 || rep.DroppedRecords > 0 || rep.DroppedBytes > 0 && !h.lied):
		return "dropped without a torn tail"
	}
	if text := wrongDamages(rep, h.lied); text != "" {
		return text
	}
	if h.blocks {
		return wrongPlaces(rep, h, k, e, blocks)
	}
	c, most := h.after(k, e), h.after(begun, e)
	series := c.logged
	if rep.Snapshot != "" { // it leaves out what was deleted as a whole before
		series = len(c.series)
	}
	switch {
	case rep.Snapshot == "" && (rep.Records != c.records || rep.Commits != k) || rep.Records > c.records || rep.Commits > k:
		return fmt.Sprintf("records and commits, want %d and %d", c.records, k)
	case rep.Series < series || rep.Series > c.logged:
		return fmt.Sprintf("series, want %d to %d", series, c.logged)
	case rep.Samples+rep.SamplesInChunks != uint64(c.samples):
		return fmt.Sprintf("samples, want %d", c.samples)
	case rep.DroppedRecords > most.records-c.records+h.failed:
		return fmt.Sprintf("dropped, want at most %d records", most.records-c.records)
	}
	return ""
}

// wrongPlaces: each sample is in one place, in the head if it is newer than the blocks.
func wrongPlaces(rep tsdb.OpenReport, h *history, k int, e *effects, blocks []tsdb.BlockMeta) string {
	if rep.Blocks != len(blocks) {
		return fmt.Sprintf("blocks, want %d", len(blocks))
	}
	start := headStart(blocks)
	for i, b := range blocks {
		for _, other := range blocks[:i] {
			late := b.HasHint(fromOutOfOrder) || other.HasHint(fromOutOfOrder)
			if b.MinTime < other.MaxTime && other.MinTime < b.MaxTime && len(e.extra)+len(e.ended) == 0 && !late {
				return fmt.Sprintf("blocks %s and %s have the same times", other.ULID, b.ULID)
			}
		}
		for _, p := range b.Compaction.Parents {
			if slices.ContainsFunc(blocks, func(o tsdb.BlockMeta) bool { return o.ULID == p.ULID }) {
				return fmt.Sprintf("blocks %s and %s, which it was made of", b.ULID, p.ULID)
			}
		}
	}
	logged, late := 0, map[sampleKey]bool{} // in the head, if none of them is deleted
	for _, commit := range h.commits[:k] {
		for _, r := range commit.rows {
			if r.late {
				late[r.key()] = true
			}
			if r.T >= start {
				logged++
			}
		}
	}
	alive := 0
	for ls, ps := range h.after(k, e).series {
		for _, p := range ps {
			if k := (sampleKey{ls, p.T}); p.T >= start && !e.ended[k] && !late[k] {
				alive++
			}
		}
	}
	if in := int(rep.Samples + rep.SamplesInChunks); in < alive || in > logged {
		return fmt.Sprintf("samples in the head, want %d to %d", alive, logged)
	}
	return ""
}

// wrongDamages: a power failure tears the end of the log, and chunk files, which the log
// makes good; nothing else.
func wrongDamages(rep tsdb.OpenReport, lied bool) string {
	tails, harmless := 0, 0
	for _, d := range rep.Damages {
		switch {
		case d.Tail && strings.HasPrefix(d.File, "data/wbl/"): // what it lacks the log has
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
	segments, size := logSize(before, rep.Snapshot)
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

// logSize returns how many segments the log has, with those of the newest checkpoint and
// without those that it has replaced, and their bytes; behind a snapshot of the head, if that
// has a name.
func logSize(files map[string][]byte, snapshot string) (segments int, size int64) {
	newest, covered := "", -1
	for name := range files {
		if rest, ok := strings.CutPrefix(name, "data/wal/checkpoint."); ok {
			dir, _, _ := strings.Cut(rest, "/")
			if n, err := strconv.Atoi(dir); err == nil && n > covered {
				newest, covered = "data/wal/checkpoint."+dir+"/", n
			}
		}
	}
	if number, ok := strings.CutPrefix(snapshot, "head_snapshot."); ok {
		n, err := strconv.Atoi(number)
		if err != nil {
			return -1, -1
		}
		newest, covered = "", n-1
	}
	for name, data := range files {
		rest, ok := strings.CutPrefix(name, "data/wal/0")
		n, err := strconv.Atoi(rest)
		if ok && err == nil && n > covered || newest != "" && strings.HasPrefix(name, newest) {
			segments++
			size += int64(len(data))
		}
	}
	return segments, size
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

// sampleRecords returns how many records of the log the samples of a commit are, or a delete: each
// run of one kind is one, but that without start timestamps histograms with custom buckets go into
// records of their own.
func sampleRecords(rows []row) (n int) {
	kindOf := func(r row) chunkenc.ValueType {
		return (&anySample{H: r.sample.H, FH: r.sample.FH}).kind()
	}
	for len(rows) > 0 {
		run := slices.IndexFunc(rows, func(r row) bool { return kindOf(r) != kindOf(rows[0]) })
		if run < 0 {
			run = len(rows)
		}
		n++
		if !slices.ContainsFunc(rows[:run], func(r row) bool { return r.sample.ST != 0 }) {
			for i := 1; i < run; i++ {
				if custom(rows[i]) != custom(rows[i-1]) {
					n++
				}
			}
		}
		rows = rows[run:]
	}
	return max(n, 1)
}

func custom(r row) bool {
	switch {
	case r.sample.H != nil:
		return r.sample.H.Custom()
	case r.sample.FH != nil:
		return r.sample.FH.Custom()
	default:
		return false
	}
}
