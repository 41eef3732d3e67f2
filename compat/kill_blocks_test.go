package compat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// worker is a process that works on a directory with blocks until it is killed. It
// acknowledges every step on its standard output. What a step does depends on the seed
// alone; merges run beside the steps.
type worker struct {
	Engine string // "ours" or "theirs"
	Dir    string
	Seed   uint64
}

func (k *worker) opener() opener {
	if k.Engine == "ours" {
		return openOurBlocks
	}
	return openTheirBlocks
}

func (k *worker) plan() plan { return plan{Seed: k.Seed, Series: 80, Start: worldStart} }

// step does the next thing. Its number counts from 1.
func (k *worker) step(w *world, n int) {
	rng := rand.New(rand.NewPCG(k.Seed, uint64(n)))
	switch {
	case n%11 == 0:
		w.e.flush()
	case n%7 == 0:
		mint := w.g.now - rng.Int64N(12*hour)
		w.delete(mint, mint+rng.Int64N(6*hour), matcher{"=~", "mod", []string{"[1-3]", "4|7", "[0-9]"}[rng.IntN(3)]})
	default:
		w.append(1+rng.IntN(5), rng.Int64N(hour))
	}
}

// run is the process itself.
func (k *worker) run() error {
	t := &childTB{}
	w := &world{t: t, open: k.opener(), dir: k.Dir, g: newGenerator(k.plan()), want: data{}}
	w.e = w.open(t, w.dir)
	merge := make(chan struct{}, 1)
	go func() {
		for range merge {
			w.e.compact()
			w.e.cleanTombstones()
		}
	}()
	for n := 1; ; n++ {
		k.step(w, n)
		if _, err := fmt.Fprintf(os.Stdout, "ack 0 %d.\n", n); err != nil {
			return err
		}
		if n%5 == 0 && k.Engine == "ours" { // the reference is made for one loop that does all
			select {
			case merge <- struct{}{}:
			default:
			}
		} else if n%5 == 0 {
			w.e.compact()
		}
	}
}

// runAndKill kills the process a moment after it acknowledged a number of steps, and
// returns how many it did acknowledge in the end.
func (k *worker) runAndKill(t testing.TB, steps int, after time.Duration) int {
	t.Helper()
	order, err := json.Marshal(k)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+string(order))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var kill sync.Once
	acked := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "ack 0 %d.", &n); err == nil {
			require.Equal(t, acked+1, n)
			acked = n
		}
		if acked >= steps {
			kill.Do(func() { time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) }) // Wait says if it was too late
		}
	}
	err = cmd.Wait()
	require.ErrorContains(t, err, "killed", "the child ended by itself: %s", &complaints)
	return acked
}

// A process that appends, deletes, flushes and merges is killed, wherever it happens to
// be. What it acknowledged is there, deletes too; of the step that it was in there may
// be all or nothing, of a delete some. All readers find the same.
func TestKill_AmongBlocks_EveryReaderFindsWhatWasAcknowledged(t *testing.T) {
	for _, engine := range []string{"ours", "theirs"} {
		for i := range scaled(25) {
			t.Run(fmt.Sprint(engine, " ", i), func(t *testing.T) {
				t.Parallel()
				k := &worker{Engine: engine, Dir: t.TempDir(), Seed: seed(t, uint64(3700+i))}
				rng := rand.New(rand.NewPCG(k.Seed, 0))
				acked := k.runAndKill(t, 1+rng.IntN(80), time.Duration(rng.IntN(20_000))*time.Microsecond)

				// What it has is what its own engine finds, in a copy.
				e := k.opener()(t, copyDir(t, k.Dir))
				got := e.dump()
				e.close()
				k.requireAcknowledged(t, got, acked)
				l := left{dir: k.Dir, want: got, excuses: excuses{rechunked: engine == "theirs"}}
				if engine == "ours" { // before our recovery others may see an unfinished tail
					e = openOurBlocks(t, k.Dir)
					e.close()
				}
				requireAllRead(t, i, l)
			})
		}
	}
}

// requireAcknowledged compares what is there with what the steps made of nothing.
func (k *worker) requireAcknowledged(t testing.TB, got data, acked int) {
	t.Helper()
	w := &world{t: t, e: nowhere{}, g: newGenerator(k.plan()), want: data{}}
	for n := 1; n <= acked; n++ {
		k.step(w, n)
	}
	before := maps.Clone(w.want)
	for key := range before {
		before[key] = slices.Clone(before[key])
	}
	k.step(w, acked+1) // it was in this one
	for key := range w.want {
		least, most := before[key], w.want[key]
		if len(least) > len(most) {
			least, most = most, least
		}
		have := got[key]
		require.GreaterOrEqual(t, len(have), len(least), "%s after %d steps", key, acked)
		require.True(t, subset(least, have), "%s after %d steps: an acknowledged sample is missing, or a deleted one came back", key, acked)
		require.True(t, subset(have, most), "%s after %d steps: there is more than was written, or a deleted sample came back", key, acked)
	}
	for key := range got {
		require.Contains(t, w.want, key)
	}
}

// subset tells whether all of a, ascending, is in b.
func subset(a, b []point) bool {
	for _, p := range b {
		if len(a) > 0 && a[0] == p {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// nowhere is an engine that keeps nothing.
type nowhere struct{ blockEngine }

func (nowhere) commit([]series, []row)                 {}
func (nowhere) delete(mint, maxt int64, ms ...matcher) {}
func (nowhere) flush()                                 {}

// workerEnv holds the order for a test binary that was started again as a worker.
const workerEnv = "COMPAT_WORKER"

func runWorker(order string) error {
	var k worker
	if err := json.Unmarshal([]byte(order), &k); err != nil {
		return err
	}
	return k.run()
}

// childTB lets a process without tests use what needs one. A failure ends it.
type childTB struct{ testing.TB }

func (*childTB) Name() string                 { return "child" }
func (*childTB) Helper()                      {}
func (*childTB) Cleanup(func())               {}
func (*childTB) Logf(string, ...any)          {}
func (*childTB) Context() context.Context     { return context.Background() }
func (*childTB) FailNow()                     { os.Exit(1) }
func (*childTB) Errorf(f string, args ...any) { fmt.Fprintf(os.Stderr, f+"\n", args...) }
