package tsdb_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// specimen is a directory of known content: three segments whose commits are known to be
// on stable storage, a fourth one whose commits are not, and two head-chunk files.
type specimen struct {
	files   map[string][]byte // by path in the data directory
	commits [][]row           // in the order of the log
	spans   []span            // of each of them
	synced  int               // so many of them are on stable storage

	chunks   int    // in the head-chunk files
	inChunks uint64 // samples in them
}

// span is where a commit is.
type span struct {
	file     string
	off, end int // end: behind the frame
}

type rows []sample

const lastSegment = "wal/00000003"

func damageOptions(fs tsdb.FS) *tsdb.Options {
	o := &tsdb.Options{FS: fs, Clock: tsdbtest.NewClock(testNow)}
	o.Head.SamplesPerChunk, o.Head.ReplayWorkers = 16, 2
	o.WAL.Sync = tsdb.SyncCommit()
	return o
}

// newSpecimen returns the directory of floats.
func newSpecimen(t *testing.T) *specimen {
	ts := int64(-40_000) // so that times of both signs are there
	return makeSpecimen(t, func([]row) beside { return beside{} }, func(session int) (commits [][]row) {
		of := func(text string, v float64) row { return floatRow(series(t, text), ts, v) }
		for k := range 3 {
			var c []row
			for range 9 { // of one series, so that it gets full chunks
				ts += 250
				c = append(c, of(`{__name__="up", job="a"}`, float64(ts)/3))
			}
			c = append(c, of(`{__name__="up", job="b"}`, math.Copysign(0, -1)))
			born := fmt.Sprintf(`{__name__="born", session="%d"}`, session)
			if k == 1 {
				c = append(c, of(born, math.NaN()))
			}
			if k == 2 {
				c = append(c, of(born, 1))
			}
			commits = append(commits, c)
		}
		return commits
	})
}

// makeSpecimen makes the directory in four sessions. The first two end with Close, which
// puts full chunks into files, the others with a kill.
func makeSpecimen(t *testing.T, of func([]row) beside, commits func(session int) [][]row) *specimen {
	t.Helper()
	sp := &specimen{}
	fs := tsdbtest.NewMemFS()
	for session := range 4 {
		opts := damageOptions(fs)
		if session == 3 {
			opts.WAL.Sync = tsdb.SyncNever()
			sp.synced = len(sp.commits)
		}
		db, err := tsdb.Open("data", opts)
		require.NoError(t, err)
		for _, c := range commits(session) {
			commitBeside(t, db, c, of(c))
			sp.commits = append(sp.commits, c)
		}
		clone := fs.KillClone()
		require.NoError(t, db.Close())
		if session >= 2 {
			fs = clone
		}
	}
	sp.files = dataFiles(t, fs)
	// What the log shows by itself is tried. With the note beside it, see
	// TestOpen_NewestLogSegment...
	delete(sp.files, "log_reach")
	require.Equal(t, []string{"chunks_head/000001", "chunks_head/000002", "wal/00000000", "wal/00000001", "wal/00000002", lastSegment},
		slices.Sorted(maps.Keys(sp.files)))
	sp.locate(t)
	sp.countChunks(t, fs)
	return sp
}

func commitRows(t *testing.T, db *tsdb.DB, c rows) {
	t.Helper()
	var all []row
	for _, r := range c {
		all = append(all, floatRow(series(t, r.series), r.t, r.v))
	}
	commitAny(t, db, all)
}

func commitAny(t *testing.T, db *tsdb.DB, c []row) {
	t.Helper()
	commitBeside(t, db, c, beside{})
}

// commitBeside commits samples with what they have beside them.
func commitBeside(t *testing.T, db *tsdb.DB, c []row, b beside) {
	t.Helper()
	app := db.Appender()
	for _, r := range c {
		_, err := app.AppendSample(0, r.ls, r.sample)
		require.NoError(t, err)
	}
	require.NoError(t, b.stage(app))
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
}

// dataFiles returns the files of the data directory but those of the lock.
func dataFiles(t *testing.T, fs *tsdbtest.MemFS) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range fs.Files() {
		short, found := strings.CutPrefix(name, "data/")
		if !found || strings.HasPrefix(short, "lock") || strings.HasSuffix(short, "/") {
			continue
		}
		data, err := fs.ReadFile(name)
		require.NoError(t, err)
		files[short] = data
	}
	return files
}

// locate finds where each commit is: the records before a frame, and the frame.
func (sp *specimen) locate(t *testing.T) {
	t.Helper()
	for i := range 4 {
		file := fmt.Sprintf("wal/%08d", i)
		r := wal.NewReader(bytes.NewReader(sp.files[file]), int64(len(sp.files[file])), file, i)
		from := 0
		for r.Next() {
			switch r.Record()[0] {
			case 0x80: // a header, also at the end of what was closed
				from = int(r.End())
			case 0x81, 0x84: // a frame; a bare one is no commit
				if from == int(r.Offset()) {
					from = int(r.End())
					continue
				}
				sp.spans = append(sp.spans, span{file, from, int(r.End())})
				from = int(r.End())
			}
		}
		require.NoError(t, r.Err())
	}
	require.Len(t, sp.spans, len(sp.commits))
}

// countChunks counts what the head-chunk files have.
func (sp *specimen) countChunks(t *testing.T, fs *tsdbtest.MemFS) {
	t.Helper()
	eachHeadChunk(t, fs, func(c chunks.HeadChunk) {
		sp.chunks++
		sp.inChunks += uint64(c.NumSamples)
	})
}

// content is what the commits but those in lost amount to. A commit that is lost takes
// along what later ones say of series that it was the first to name.
func (sp *specimen) content(lost func(i int) bool) map[string][]point {
	all := map[string][]point{}
	first := map[string]int{}
	for i, c := range sp.commits {
		for _, r := range c {
			key := r.ls.String()
			if _, ok := first[key]; !ok {
				first[key] = i
			}
			if !lost(i) && !lost(first[key]) {
				all[key] = append(all[key], r.point)
			}
		}
	}
	return all
}

// touched says which commits have a byte in [from, to) of a file.
func (sp *specimen) touched(file string, from, to int) func(i int) bool {
	return func(i int) bool {
		s := sp.spans[i]
		return s.file == file && s.off < to && from < s.end
	}
}

// without returns the files with one replaced; nil removes it.
func (sp *specimen) without(file string, data []byte) map[string][]byte {
	files := maps.Clone(sp.files)
	if files[file] = data; data == nil {
		delete(files, file)
	}
	return files
}

func diskOf(files map[string][]byte) (*tsdbtest.MemFS, error) {
	fs := tsdbtest.NewMemFS()
	for name, data := range files {
		if err := fs.WriteFile("data/"+name, data); err != nil {
			return nil, err
		}
	}
	return fs, nil
}

// verdict is what became of a damaged directory.
type verdict struct {
	refused error
	report  tsdb.OpenReport
	got     map[string][]point
	unsaved string // a file that is not as it was, and of which there is no copy
}

// unreported says that Open had nothing to say about the files.
func (v verdict) unreported() bool {
	r := v.report
	return len(r.Damages) == 0 && r.DroppedRecords == 0 && r.DroppedBytes == 0 && r.SamplesUnknown == 0 && len(r.Quarantined) == 0
}

// examine opens a directory twice. Whatever was damaged, the second open finds the same
// data and nothing to repair.
func examine(files map[string][]byte) (verdict, error) {
	v, fs, err := examineOnce(files)
	if err != nil || v.refused != nil {
		return v, err
	}
	db, err := tsdb.Open("data", damageOptions(fs))
	if err != nil {
		return v, fmt.Errorf("second open: %w", err)
	}
	again, err := everything(db)
	if err != nil {
		return v, fmt.Errorf("second read: %w", err)
	}
	r := db.OpenReport()
	switch {
	case !sameData(again, v.got):
		err = fmt.Errorf("second open has other data: %v, first %v", again, v.got)
	case len(r.Damages) > 0 || r.TornTail || r.DroppedCommits > 0 || r.DroppedRecords > 0 || len(r.Quarantined) > 0:
		err = fmt.Errorf("second open is not clean: %+v, first %+v", r, v.report)
	case r.SamplesUnknown > v.report.SamplesUnknown:
		err = fmt.Errorf("second open lacks series of %d samples, the first of %d", r.SamplesUnknown, v.report.SamplesUnknown)
	}
	if err != nil {
		return v, err
	}
	return v, db.Close()
}

func examineOnce(files map[string][]byte) (v verdict, fs *tsdbtest.MemFS, err error) {
	if fs, err = diskOf(files); err != nil {
		return v, fs, err
	}
	db, err := tsdb.Open("data", damageOptions(fs))
	if err != nil {
		v.refused = err
		return v, fs, nil
	}
	v.report = db.OpenReport()
	if v.got, err = everything(db); err != nil {
		return v, fs, fmt.Errorf("read: %w", err)
	}
	v.unsaved = unsaved(fs, files, v.report)
	if err := db.Close(); err != nil {
		return v, fs, fmt.Errorf("close: %w", err)
	}
	return v, fs, nil
}

func everything(db *tsdb.DB) (map[string][]point, error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	all, err := readAll(q)
	if closeErr := q.Close(); err == nil {
		err = closeErr
	}
	return all, err
}

// unsaved returns a file that is not as it was and not in the quarantine as it was.
func unsaved(fs *tsdbtest.MemFS, files map[string][]byte, r tsdb.OpenReport) string {
	for name, data := range files {
		now, err := fs.ReadFile("data/" + name)
		if err == nil && bytes.Equal(now, data) || len(data) == 0 {
			continue
		}
		saved := false
		for _, q := range r.Quarantined {
			kept, err := fs.ReadFile(path.Join("data", q))
			saved = saved || err == nil && bytes.Equal(kept, data)
		}
		if !saved {
			return name
		}
	}
	return ""
}

func sameData(a, b map[string][]point) bool {
	return maps.EqualFunc(a, b, func(x, y []point) bool { return slices.Equal(x, y) })
}

// invented returns what was never committed, if there is anything.
func (sp *specimen) invented(got map[string][]point) string {
	all := sp.content(func(int) bool { return false })
	for series, ps := range got {
		for i, p := range ps {
			if !slices.Contains(all[series], p) {
				return fmt.Sprintf("%s has %v, which nobody committed", series, p)
			}
			if i > 0 && p.T <= ps[i-1].T {
				return fmt.Sprintf("%s goes back from %d to %d", series, ps[i-1].T, p.T)
			}
		}
	}
	return ""
}

// atLeast returns what of want is not in got, if anything.
func atLeast(got, want map[string][]point) string {
	for series, ps := range want {
		for _, p := range ps {
			if !slices.Contains(got[series], p) {
				return fmt.Sprintf("%s lost the sample at %d", series, p.T)
			}
		}
	}
	return ""
}

const harmless = "harmless"

// judge checks a verdict against the commits that the damage may cost, and returns the
// class of the case.
func (sp *specimen) judge(v verdict, mayLose func(i int) bool) (class string, err error) {
	if v.refused != nil {
		return "", fmt.Errorf("refused: %w", v.refused)
	}
	if text := sp.invented(v.got); text != "" {
		return "", fmt.Errorf("wrong data: %s", text)
	}
	if text := atLeast(v.got, sp.content(mayLose)); text != "" {
		return "", fmt.Errorf("more was lost than was hit: %s; %+v", text, v.report)
	}
	complete := sameData(v.got, sp.content(func(int) bool { return false }))
	promised := atLeast(v.got, sp.content(func(i int) bool { return i >= sp.synced })) == ""
	switch {
	case complete && v.unreported():
		return harmless, nil
	case v.unsaved != "":
		return "", fmt.Errorf("%s was changed, and no copy is in %v", v.unsaved, v.report.Quarantined)
	case complete:
		return "reported, nothing lost", nil
	case v.report.Clean() && !promised:
		return "", fmt.Errorf("silent loss: %+v", v.report)
	case v.report.Clean() && !v.report.TornTail:
		return "", fmt.Errorf("silent loss of commits that no sync covered: %+v", v.report)
	case promised:
		return "reported, unsynced commits lost", nil
	default:
		return "reported, the commit that was hit lost", nil
	}
}

// census counts cases by what was damaged and what came of it.
type census struct {
	mu     sync.Mutex
	counts map[string]map[string]int
	wrong  []string
}

func (c *census) add(kind, class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]map[string]int{}
	}
	if c.counts[kind] == nil {
		c.counts[kind] = map[string]int{}
	}
	c.counts[kind][class]++
}

func (c *census) fail(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// report prints the table and fails the test if anything was wrong.
func (c *census) report(t *testing.T) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(c.counts)) {
		sum := 0
		for _, class := range slices.Sorted(maps.Keys(c.counts[kind])) {
			t.Logf("%-24s %-42s %6d", kind, class, c.counts[kind][class])
			sum += c.counts[kind][class]
		}
		t.Logf("%-24s %-42s %6d", kind, "all", sum)
	}
	const shown = 10
	for _, text := range c.wrong[:min(shown, len(c.wrong))] {
		t.Error(text)
	}
	require.Empty(t, len(c.wrong), "cases went wrong")
}

// inParallel calls do with 0 to n-1, on as many goroutines as there are processors.
func inParallel(n int, do func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
