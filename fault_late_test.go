package tsdb_test

import (
	"fmt"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// The out-of-order log fails, at every place: once or for good, syncs, too. What was acknowledged
// is there, after a power cut, after a kill, and what was not is not.
func TestFault_OfTheOutOfOrderLog(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		err     error
		forGood bool
	}{{syscall.EIO, false}, {syscall.EIO, true}, {syscall.ENOSPC, true}} {
		places := sweep.Of(t, 1, 11)
		for place := places.First; ; place += places.Step {
			w := newLateWorkload(t, tsdb.SyncCommit())
			w.broken = true
			n, what := 0, ""
			w.disk.SetHook(func(op tsdbtest.Op) error {
				if !op.Kind.Mutates() || path.Base(path.Dir(op.Name)) != "wbl" && path.Base(op.Name) != "wbl" {
					return nil
				}
				if n++; n-1 == place {
					what = fmt.Sprintf("%v, for good: %v, for %s of %s, place %d", kind.err, kind.forGood, op.Kind, op.Name, place)
				} else if n <= place || !kind.forGood {
					return nil
				}
				return &fs.PathError{Op: fmt.Sprint(op.Kind), Path: op.Name, Err: kind.err}
			})
			w.run()
			w.disk.SetHook(nil)
			if what == "" {
				require.Greater(t, place, 30, "too few places")
				break
			}
			w.verify(w.disk.CrashClone(tsdbtest.CrashOptions{Seed: uint64(place)}), w.durable, w.states, "power cut: "+what)
			w.verify(w.disk.KillClone(), w.durable, w.states, "kill: "+what)
		}
	}
}
