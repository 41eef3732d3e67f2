//go:build unix

// Without SIGKILL there is no such test; see kill_child_test.go.

package tsdb_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/sweep"
)

// Processes are killed while they open, write and close. What they acknowledged is
// there, whole, and at most the commit that each writer had under way besides.

const (
	killMaxDelay = 200 * time.Millisecond
	killMaxOpen  = 2 * time.Second
	killWindow   = time.Minute // more than writers are apart, and a run of late samples is long
)

// killed is a directory in which processes get killed, and what must be in it.
type killed struct {
	*testing.T
	dir    string
	rng    *rand.Rand
	round  int
	acked  [killWriters]int   // newest commit that was acknowledged, or found
	rounds [killWriters][]int // of each commit from 1 on: who wrote it
	erased [killWriters]int   // up to this commit the usual series are empty
	begun  [killWriters]int   // and perhaps to this one
	blocks int                // most that were found
	open   time.Duration      // what recovery took the last time
	phases map[string]int     // kills by what the process was doing
	kills  int
	from   int // how many times an open began with a snapshot of the head
}

func newKilled(t *testing.T, dir string, seed uint64) *killed {
	return &killed{T: t, dir: dir, rng: rand.New(rand.NewPCG(seed, 1)), open: 10 * time.Millisecond, phases: map[string]int{}}
}

func (k *killed) upTo(d time.Duration) time.Duration {
	return time.Duration(k.rng.Int64N(int64(d) + 1))
}

// kill runs one process to its end.
//
// It is killed some time after it was started, or after it began to recover or to close.
func (k *killed) kill() {
	k.round++
	cfg := killConfig{Dir: k.dir, Round: k.round, Sync: k.rng.IntN(len(killSyncs)), Compression: k.rng.IntN(len(compressions)), Snapshots: k.rng.IntN(4) > 0, Window: killWindow}
	delay, since := k.upTo(killMaxDelay), "start"
	switch k.rng.IntN(4) {
	case 0:
		delay, since = k.upTo(k.open*5/4), "opening"
	case 1:
		cfg.CloseAfter = 1 + k.upTo(30*time.Millisecond)
		delay, since = k.upTo(3*time.Millisecond), "closing"
	}
	child := startKillChild(k.T, "kill", cfg)
	phase, timer := "start", time.NewTimer(0)
	<-timer.C
	if since == "start" {
		timer.Reset(delay)
	}
	for lines := child.lines; lines != nil; {
		select {
		case <-timer.C:
			require.NoError(k, child.cmd.Process.Kill())
			timer.Reset(10 * time.Second) // the end of the journal comes first
		case line, ok := <-lines:
			if !ok {
				lines = nil
				break
			}
			if p := k.take(line); p != "" {
				phase = p
			}
			if phase == since && strings.HasPrefix(line, since) {
				timer.Reset(delay)
			}
		}
	}
	timer.Stop()
	if err := child.cmd.Wait(); err != nil {
		require.Equal(k, "signal: killed", err.Error(), "round %d", k.round)
		k.phases[phase]++
		k.kills++
	} // else Close was faster
}

// take notes a line of the journal and returns the phase that begins with it, if any.
func (k *killed) take(line string) (phase string) {
	words := strings.Fields(line)
	switch words[0] {
	case "ack":
		w, n := atoi(k, words[1]), atoi(k, words[2])
		require.Equal(k, k.acked[w]+1, n, "writer %d", w)
		k.acked[w] = n
		return ""
	case "erasing":
		k.begun[atoi(k, words[1])] = atoi(k, words[2])
		return ""
	case "erased":
		k.erased[atoi(k, words[1])] = atoi(k, words[2])
		return ""
	case "opened":
		for w := range killWriters {
			k.found(w, atoi(k, words[1+w]))
			k.rounds[w] = append(k.rounds[w][:k.acked[w]], k.round) // of the next commit, and on
		}
		return "writing"
	case "from":
		k.from++
		return ""
	case "opening", "closing", "closed":
		return words[0]
	default:
		require.Fail(k, line)
		return ""
	}
}

// found takes the newest commit of a writer that somebody read.
func (k *killed) found(w, n int) {
	require.GreaterOrEqual(k, n, k.acked[w], "writer %d: acknowledged commits are gone in round %d", w, k.round)
	require.LessOrEqual(k, n, k.acked[w]+1, "writer %d: commits that were not even begun in round %d", w, k.round)
	for len(k.rounds[w]) < n {
		k.rounds[w] = append(k.rounds[w], k.rounds[w][len(k.rounds[w])-1])
	}
	k.acked[w] = n
}

func atoi(t require.TestingT, s string) int {
	n, err := strconv.Atoi(s)
	require.NoError(t, err)
	return n
}

// check opens the directory and looks at every sample.
func (k *killed) check() {
	cfg := killConfig{Sync: k.rng.IntN(len(killSyncs)), Snapshots: k.rng.IntN(4) > 0, Window: killWindow * time.Duration(k.rng.IntN(2))}
	left := k.copyOf(k.dir)
	db := k.timedOpen(k.dir, cfg)
	defer func() { require.NoError(k, db.Close()) }()
	k.requireQuick(left, cfg)
	r := db.OpenReport()
	require.True(k, r.Clean(), "round %d: %+v", k.round, r)
	if r.Snapshot != "" {
		k.from++
	}
	last, err := killLast(db)
	require.NoError(k, err)
	for w := range killWriters {
		k.found(w, last[w])
	}
	k.blocks = max(k.blocks, len(db.Blocks()))
	k.checkSamples(db)
}

// copyOf copies a directory, which a process that was killed at once has not made yet.
func (k *killed) copyOf(dir string) string {
	to := filepath.Join(k.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); !errors.Is(err, fs.ErrNotExist) {
		require.NoError(k, err)
	}
	return to
}

func (k *killed) timedOpen(dir string, cfg killConfig) *tsdb.DB {
	start := time.Now()
	db, err := tsdb.Open(dir, cfg.options())
	k.open = time.Since(start)
	require.NoError(k, err)
	return db
}

// requireQuick requires that the last open was, or one of some more of what there was before it: a
// machine with much to do may stand still for seconds.
func (k *killed) requireQuick(left string, cfg killConfig) {
	for range 5 {
		if k.open <= killMaxOpen {
			break
		}
		require.NoError(k, k.timedOpen(k.copyOf(left), cfg).Close())
	}
	require.LessOrEqual(k, k.open, killMaxOpen, "round %d", k.round)
	require.NoError(k, os.RemoveAll(left))
}

// checkSamples: each series has exactly the samples of the commits that are there.
func (k *killed) checkSamples(db *tsdb.DB) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(k, err)
	defer func() { require.NoError(k, q.Close()) }()
	var seen, want struct{ k, late, fresh, big int }
	var from [killWriters]int // the first commit that the usual series have
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(k, err)
		ls := s.Labels()
		w, i := atoi(k, ls.Get("w")), atoi(k, ls.Get("i"))
		first, step, end := 1, 1, k.acked[w]
		switch ls.Get("__name__") {
		case "k":
			seen.k++
		case "late":
			seen.late++
			k.checkLate(w, s)
			continue
		case "fresh":
			seen.fresh++
			require.Zero(k, i%killFreshAt)
			first, end = i, min(end, i)
		case "big":
			seen.big++
			first, step = killBigAt, killBigAt
		}
		n := first
		usual := ls.Get("__name__") == "k"
		it = s.Iterator(it)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			got := pointAt(it, kind)
			if at := int(got.T / killStep); usual && n == first && at > k.erased[w] && at <= k.begun[w]+1 {
				n = at // a delete that was not acknowledged has emptied some blocks, or all
				require.True(k, from[w] == 0 || from[w] == n, "round %d: %v begins at %d, others at %d", k.round, ls, n, from[w])
				from[w] = n
			}
			if n > end {
				require.Fail(k, "more than was committed", "round %d: %v has a sample at %d, want at most %d commits", k.round, ls, got.T, end)
			}
			if want := killSample(ls.Get("__name__"), ls.Get("i"), n, k.rounds[w][n-1]); got != want.point() {
				require.Fail(k, "not as it was committed", "round %d: %v has %v at %d, want %+v of commit %d of at most %d", k.round, ls, anyAt(it, kind), got.T, want, n, end)
			}
			n += step
		}
		require.NoError(k, it.Err())
		require.Greater(k, n, end, "round %d: %v lacks samples", k.round, ls)
	}
	for _, n := range k.acked {
		want.k += killSeries * min(n, 1)
		want.late += killLate * min(n, 1)
		want.fresh += n / killFreshAt
		want.big += killBig * min(n/killBigAt, 1)
	}
	require.Equal(k, want, seen, "series")
}

// checkLate: a series whose samples come late has those of the commits that are there, too. A
// delete that was not acknowledged may have taken some.
func (k *killed) checkLate(w int, s *tsdb.Series) {
	ls, it := s.Labels(), s.Iterator(nil)
	there, gone := -1, -1 // the time before, in steps; up to this one all are deleted
	if k.erased[w] > 0 {
		gone = k.erased[w]
	}
	lacks := func(from, to int) {
		for at := from; at <= to; at++ {
			n := killTime("late", at)
			if at <= max(gone, k.begun[w]) && k.begun[w] > 0 {
				continue
			}
			require.True(k, n < 1 || n > k.acked[w], "round %d: %v lacks %d, of commit %d", k.round, ls, at, n)
		}
	}
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		got := pointAt(it, kind)
		at := int(got.T / killStep)
		n := killTime("late", at)
		require.Greater(k, at, max(there, gone), "round %d: %v", k.round, ls)
		require.True(k, n >= 1 && n <= k.acked[w], "round %d: %v has %d", k.round, ls, at)
		want := killSample("late", ls.Get("i"), n, k.rounds[w][n-1])
		require.Equal(k, want.point(), got, "round %d: %v at %d", k.round, ls, at)
		lacks(there+1, at-1)
		there = at
	}
	require.NoError(k, it.Err())
	lacks(there+1, k.acked[w]+killLateRun)
}

// killChildProcess is a child and its journal.
type killChildProcess struct {
	cmd   *exec.Cmd
	lines <-chan string
}

func startKillChild(t *testing.T, name string, cfg any) killChildProcess {
	t.Helper()
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name, killEnv+"="+string(text))
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // ended long ago, unless the test failed
	require.NoError(t, w.Close())
	lines := make(chan string)
	go func() {
		defer close(lines)
		defer r.Close()
		in := bufio.NewReader(r)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				if err != io.EOF || line != "" {
					lines <- fmt.Sprintf("journal: %v %q", err, line)
				}
				return
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return killChildProcess{cmd, lines}
}

// killCount is how many times to do something; a few are enough to see that it works.
func killCount(full int) int {
	if !sweep.Whole() {
		return min(full, 2)
	}
	return full
}

func TestKill_NothingAcknowledgedIsLostAndNothingIsThereInPart(t *testing.T) {
	t.Run("again and again", func(t *testing.T) {
		t.Parallel()
		from := 0
		for i := range killCount(3) {
			k := newKilled(t, t.TempDir(), uint64(i))
			for k.kills < killCount(22) {
				k.kill()
				if k.rng.IntN(3) > 0 { // otherwise the next process meets what the last one left
					k.check()
				}
			}
			k.check()
			k.Logf("kills by phase: %v; commits %v, deleted up to %v; at most %d blocks; %d opens began with a snapshot; last open took %v", k.phases, k.acked, k.erased, k.blocks, k.from, k.open)
			from += k.from
		}
		require.True(t, !sweep.Whole() || from > 0, "no open began with a snapshot")
	})
	t.Run("fresh directories", func(t *testing.T) {
		t.Parallel()
		phases := map[string]int{}
		dir := t.TempDir()
		kills := 0
		for i := 0; kills < killCount(40); i++ {
			k := newKilled(t, filepath.Join(dir, strconv.Itoa(i)), uint64(100+i))
			k.kill()
			k.kill()
			k.check()
			kills += k.kills
			for phase, n := range k.phases {
				phases[phase] += n
			}
		}
		t.Logf("kills by phase: %v", phases)
	})
}
