package compat

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// withSnapshots has ours take a snapshot of the head with each second that passes, and when it
// closes.
func withSnapshots(o *tsdb.Options) {
	o.Head.SnapshotThreshold = 1
	o.Head.SamplesPerChunk = 16
	o.WAL.SegmentSize = 64 << 10
	o.Blocks.Range, o.Blocks.MaxRange = 365*24*time.Hour, 365*24*time.Hour
}

// snapshotPair are the two engines on a directory, of which ours takes snapshots of the head.
type snapshotPair struct {
	t      *testing.T
	dir    string
	g      *generator
	want   data
	memory bool // the reference has its memory snapshots on
}

func newSnapshotPair(t *testing.T, base uint64, memory bool) *snapshotPair {
	return &snapshotPair{t: t, dir: t.TempDir(), want: data{}, memory: memory,
		g: newGenerator(plan{Seed: seed(t, base), Series: 60, Start: worldStart, Jumps: true})}
}

func (p *snapshotPair) append(e engine, commits int) {
	p.t.Helper()
	for range commits {
		rows := p.g.commit()
		e.commit(p.g.set, rows)
		p.want.add(p.g.set, rows)
	}
	requireEqual(p.t, p.want, e.dump(), "appended")
}

func (p *snapshotPair) openOurs() *ours {
	p.t.Helper()
	o := openOurs(p.t, p.dir, withSnapshots)
	o.requireClean()
	require.Zero(p.t, o.db.OpenReport().SamplesUnknown)
	requireEqual(p.t, p.want, o.dump(), "ours, opened")
	return o
}

func (p *snapshotPair) openTheirs() *theirs {
	p.t.Helper()
	r := openTheirs(p.t, p.dir, func(o *reference.Options) { o.EnableMemorySnapshotOnShutdown = p.memory })
	requireEqual(p.t, p.want, r.dump(), "the reference, opened")
	return r
}

// leave closes the directory, or goes on with what a kill would leave of it.
func (p *snapshotPair) leave(e engine, kill bool) {
	p.t.Helper()
	if r, ok := e.(*theirs); ok {
		r.requireUndamaged()
	}
	if !kill {
		e.close()
		return
	}
	left := copyDir(p.t, p.dir)
	e.close()
	p.dir = left
}

// named returns what of the directory's content is of snapshots whose names begin so.
func named(t testing.TB, dir, prefix string) map[string]string {
	all := listing(t, dir)
	maps.DeleteFunc(all, func(name, _ string) bool { return !strings.HasPrefix(name, prefix) })
	return all
}

func ourSnapshots(t testing.TB, dir string) map[string]string { return named(t, dir, "head_snapshot.") }

// takeSnapshot lets so much time pass that ours takes a snapshot.
func (p *snapshotPair) takeSnapshot(o *ours) {
	p.t.Helper()
	before := o.db.Stats().HeadSnapshots
	for o.db.Stats().HeadSnapshots == before {
		o.clock.Advance(3 * time.Second)
	}
}

// Directories of ours with snapshots of the head: everybody reads them as if there were none, and
// leaves them alone.
func TestHeadSnapshot_IsReadByNobodyElse(t *testing.T) {
	for i, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill %v", kill), func(t *testing.T) {
			t.Parallel()
			p := newSnapshotPair(t, uint64(5100+i), false)
			o := p.openOurs()
			p.append(o, 60)
			p.takeSnapshot(o)
			o.delete(worldStart, worldStart+hour, matcher{"=", "mod", "3"})
			p.want.delete(t, p.g.set, worldStart, worldStart+hour, []matcher{{"=", "mod", "3"}})
			p.append(o, 40)
			if kill {
				p.takeSnapshot(o)
				p.append(o, 20)
			}
			p.leave(o, kill)
			require.NotEmpty(t, ourSnapshots(t, p.dir))
			requireAllRead(t, i, left{dir: p.dir, want: p.want})

			for _, memory := range []bool{false, true} {
				p.memory = memory
				whole := p.dir
				p.dir = copyDir(t, whole)
				r := p.openTheirs()
				r.requireUndamaged()
				r.close()
				require.Equal(t, ourSnapshots(t, whole), ourSnapshots(t, p.dir), "the reference leaves them alone")
				requireEqual(t, p.want.changed(point.text), promtoolDump(t, p.dir), "promtool")
				p.dir = whole
			}
			o = p.openOurs()
			require.NotEmpty(t, o.db.OpenReport().Snapshot)
			o.close()
		})
	}
}

// goOn appends, and closes: the reference reads all of it, and the next open of ours begins with
// a snapshot again.
func (p *snapshotPair) goOn(t *testing.T, o *ours) {
	t.Helper()
	p.append(o, 10)
	o.close()
	requireReferenceReads(t, p.dir, p.want)
	o = p.openOurs()
	require.NotEmpty(t, o.db.OpenReport().Snapshot)
	o.close()
}

// Both write in turns, each of them with snapshots, there and back again: what the other one has
// written makes each ignore its own snapshot, and nothing is missing.
func TestHeadSnapshot_ThereAndBackAgain(t *testing.T) {
	n := uint64(0)
	for _, memory := range []bool{false, true} {
		for _, kills := range []struct{ ours, theirs bool }{{false, false}, {true, false}, {false, true}, {true, true}} {
			n++
			base := 5200 + n
			t.Run(fmt.Sprintf("memory snapshots %v, kill ours %v, theirs %v", memory, kills.ours, kills.theirs), func(t *testing.T) {
				t.Parallel()
				p := newSnapshotPair(t, base, memory)
				for turn := range 3 {
					p.turnOfOurs(turn, kills.ours)
					p.turnOfTheirs(turn, kills.theirs)
				}
				o := p.openOurs()
				require.Empty(t, o.db.OpenReport().Snapshot)
				p.goOn(t, o)
			})
		}
	}
}

// turnOfOurs opens what the reference has written behind our snapshot, writes, and leaves a new
// one.
func (p *snapshotPair) turnOfOurs(turn int, kill bool) {
	p.t.Helper()
	before := ourSnapshots(p.t, p.dir)
	o := p.openOurs()
	report := o.db.OpenReport()
	require.Empty(p.t, report.Snapshot)
	if turn > 0 {
		require.NotEmpty(p.t, before)
		require.Len(p.t, report.SnapshotsIgnored, 1)
		require.Contains(p.t, report.SnapshotsIgnored[0], "somebody else")
	}
	p.append(o, 30)
	require.Empty(p.t, ourSnapshots(p.t, p.dir), "the old one is removed")
	require.Empty(p.t, named(p.t, p.dir, "chunk_snapshot."), "so is theirs")
	p.takeSnapshot(o)
	p.append(o, 20)
	p.leave(o, kill)
	require.NotEmpty(p.t, ourSnapshots(p.t, p.dir))

	// The reference opens it and writes nothing, and so do we: the snapshot holds.
	r := p.openTheirs()
	p.leave(r, kill)
	require.NotEmpty(p.t, ourSnapshots(p.t, p.dir))
	o = p.openOurs()
	require.NotEmpty(p.t, o.db.OpenReport().Snapshot, "%v", o.db.OpenReport().SnapshotsIgnored)
	p.leave(o, kill)
}

// turnOfTheirs has the reference write behind our snapshot.
func (p *snapshotPair) turnOfTheirs(turn int, kill bool) {
	p.t.Helper()
	before := ourSnapshots(p.t, p.dir)
	require.NotEmpty(p.t, before)
	r := p.openTheirs()
	p.append(r, 10+40*turn)
	p.leave(r, kill)
	require.Equal(p.t, before, ourSnapshots(p.t, p.dir), "the reference leaves them alone")
	if p.memory && !kill {
		require.NotEmpty(p.t, named(p.t, p.dir, "chunk_snapshot."))
		r = p.openTheirs() // it begins with its own
		p.leave(r, kill)
	}
}

// The log is cut by the reference below our snapshot, or gone: the snapshot is nothing then.
func TestHeadSnapshot_OfALogThatTheReferenceRepaired(t *testing.T) {
	p := newSnapshotPair(t, 5300, false)
	o := p.openOurs()
	p.append(o, 40)
	p.takeSnapshot(o)
	p.append(o, 20)
	p.leave(o, true)
	log := newestFile(t, filepath.Join(p.dir, "wal"))
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	text[len(text)/2] ^= 0x10
	require.NoError(t, os.WriteFile(log, text, 0o666))
	r := openTheirs(t, p.dir)
	p.want = r.dump() // what is left
	p.append(r, 10)
	r.close()
	o = openOurs(t, p.dir, withSnapshots)
	requireEqual(t, p.want, o.dump(), "ours, opened")
	report := o.db.OpenReport()
	require.Empty(t, report.Snapshot)
	// What the reference cut off is missing, and is said to be where the log had been noted that
	// far.
	for _, d := range report.Damages {
		require.Equal(t, "commits are missing at the end of the log", d.Reason)
	}
	p.goOn(t, o)
}
