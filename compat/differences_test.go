package compat

import (
	"errors"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// cleanedAway deletes all of the newest block and some of the head, and has the block's
// space back: nothing says any more that the log's older samples are in a block.
func cleanedAway(t *testing.T, open opener) *world {
	w := newWorld(t, open, plan{Seed: seed(t, 3500), Series: 60})
	w.append(20, 9*hour)
	w.e.compact()
	require.NotEmpty(t, metasOf(t, w.dir))
	w.delete(worldStart+3*hour, worldStart+19*hour, everything)
	w.e.cleanTombstones()
	w.check("cleaned")
	return w
}

// When the newest block is deleted and cleaned away, its samples come back in the
// reference at the next start, from what is left of the log. Ours stay deleted, for
// readers of both sides.
func TestDifference_NewestBlockCleanedAway_StaysDeleted(t *testing.T) {
	t.Parallel()
	w := cleanedAway(t, openTheirBlocks)
	w.e.close()
	w.e = openTheirBlocks(t, w.dir)
	require.Greater(t, w.e.dump().samples(), w.want.samples(), "the reference has learned it: this is no difference any more")

	w = cleanedAway(t, openOurBlocks)
	w.reopen()
	w.crash()
	w.append(5, hour)
	w.reopen()
	w.e.close()
	requireAllRead(t, 0, left{dir: w.dir, want: w.want})
}

// Two deleted ranges in the head before 1970 make the reference panic when it makes a
// block: chunks reach over the block's end there.
func TestDifference_DeletesBeforeTheEpoch_AreFlushed(t *testing.T) {
	t.Parallel()
	play := func(open opener) *world {
		w := newWorld(t, open, plan{Seed: seed(t, 3520), Series: 20, Start: -worldStart})
		w.append(40, 5*hour)
		w.delete(-worldStart+hour, -worldStart+2*hour, everything)
		w.delete(-worldStart+3*hour, -worldStart+4*hour, everything)
		w.append(40, 4*hour)
		return w
	}
	require.Panics(t, play(openTheirBlocks).e.flush) // compact would let its own goroutine panic, too
	w := play(openOurBlocks)
	w.e.compact()
	require.NotEmpty(t, metasOf(t, w.dir))
	w.check("compacted")
	w.reopen()
	w.e.flush()
	w.e.compact()
	w.reopen()
	w.e.close()
	requireAllRead(t, 0, left{dir: w.dir, want: w.want})
}

// A query that begins and ends before a deleted range, within what the head or a block has of a
// series, makes the reference panic.
func TestDifference_QueriesBeforeADeletedRange_AreAnswered(t *testing.T) {
	t.Parallel()
	for _, open := range []opener{openTheirBlocks, openOurBlocks} {
		w := newWorld(t, open, plan{Seed: seed(t, 3530), Series: 20})
		w.append(40, hour)
		w.delete(worldStart+30*minute, worldStart+40*minute, everything)
		w.check("deleted")
		query := func() data { return w.e.query(worldStart+10*minute, worldStart+20*minute, everything) }
		if _, ok := w.e.(*theirs); ok {
			require.Panics(t, func() { query() }, "the reference has learned it: this is no difference any more")
			continue
		}
		want := w.want.from(worldStart + 10*minute)
		want.delete(t, w.g.set, worldStart+20*minute+1, worldEnd, []matcher{everything})
		requireEqual(t, want, query(), "ours")
	}
}

// requireSetAside opens a directory with one damaged block: the others are there, what
// is missing is told at Open and by every query that touches it, and nothing is thrown
// away.
func requireSetAside(t *testing.T, d damaged) {
	t.Helper()
	db, err := tsdb.Open(d.dir, ourOptions(ourBlockOptions))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	report := db.OpenReport()
	require.False(t, report.Clean())
	require.Equal(t, 1, report.BlocksSetAside)
	require.Len(t, db.Blocks(), d.blocks-1)
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	set := q.Select(t.Context(), nil)
	got := data{}
	for set.Next() {
		var ps []point
		it := set.At().Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			at, v := it.At()
			ps = append(ps, point{at, math.Float64bits(v)})
		}
		require.NoError(t, it.Err())
		got[keyOfOurs(set.At().Labels())] = ps
	}
	require.NoError(t, set.Err())
	warned := false
	for _, w := range set.Warnings() {
		warned = warned || errors.Is(w, tsdb.ErrMissing)
	}
	require.True(t, warned, "%v", set.Warnings())
	require.NoError(t, q.Close())
	requireEqual(t, d.rest, got, "without the block")
	require.NotEmpty(t, report.Quarantined)
	require.DirExists(t, filepath.Join(d.dir, report.Quarantined[0]))
}

// damaged is a directory with one damaged block.
type damaged struct {
	dir, block string
	blocks     int
	all, rest  data // without the damage, and what the other blocks and the head have
}

// damagedBlock makes blocks with deleted samples in each and damages the second one.
func damagedBlock(t *testing.T, damage func(block string)) damaged {
	w := newWorld(t, openOurBlocks, plan{Seed: seed(t, 3510), Series: 40})
	w.append(60, 6*hour)
	w.e.flush()
	w.delete(worldStart, worldStart+20*hour, matcher{"=~", "mod", "[1-3]"})
	w.append(5, hour)
	w.e.close()
	var metas []reference.BlockMeta
	for _, m := range metasOf(t, w.dir) {
		metas = append(metas, m)
	}
	slices.SortFunc(metas, func(a, b reference.BlockMeta) int { return int(a.MinTime - b.MinTime) })
	require.GreaterOrEqual(t, len(metas), 3)
	m := metas[1]
	require.NotZero(t, m.Stats.NumTombstones)
	rest := maps.Clone(w.want)
	rest.delete(t, w.g.set, m.MinTime, m.MaxTime-1, []matcher{everything})
	damage(filepath.Join(w.dir, m.ULID.String()))
	return damaged{dir: w.dir, block: m.ULID.String(), blocks: len(metas), all: w.want, rest: rest}
}

// flip changes one bit of a file.
func flip(t *testing.T, name string, offset int, bit byte) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	text[offset] ^= bit
	require.NoError(t, os.WriteFile(name, text, 0o666))
}

// One damaged index, and the reference does not start.
func TestDifference_DamagedIndex_TheRestOpens(t *testing.T) {
	t.Parallel()
	d := damagedBlock(t, func(block string) { flip(t, filepath.Join(block, "index"), 20, 1) })
	_, err := reference.Open(copyDir(t, d.dir), slog.New(slog.DiscardHandler), nil, theirOptions(theirBlockOptions), nil)
	require.ErrorContains(t, err, "corrupted block")
	requireSetAside(t, d)
}

// One flipped bit in a meta file, and the reference answers without the block as if it
// had never been.
func TestDifference_DamagedMeta_IsTold(t *testing.T) {
	t.Parallel()
	d := damagedBlock(t, func(block string) { flip(t, filepath.Join(block, "meta.json"), 0, 1) })
	r := openTheirs(t, copyDir(t, d.dir), theirBlockOptions)
	requireEqual(t, d.rest, r.dump(), "reference")
	require.Less(t, d.rest.samples(), d.all.samples())
	requireSetAside(t, d)
}

// A tombstones file is lost, and the reference shows what was deleted.
func TestDifference_LostTombstones_StayDeleted(t *testing.T) {
	t.Parallel()
	d := damagedBlock(t, func(block string) { require.NoError(t, os.Remove(filepath.Join(block, "tombstones"))) })
	r := openTheirs(t, copyDir(t, d.dir), theirBlockOptions)
	require.Greater(t, r.dump().samples(), d.all.samples())
	requireSetAside(t, d)
}

// A tombstones file is cut, and the reference panics.
func TestDifference_CutTombstones_AreDamage(t *testing.T) {
	t.Parallel()
	d := damagedBlock(t, func(block string) { require.NoError(t, os.Truncate(filepath.Join(block, "tombstones"), 8)) })
	copied := copyDir(t, d.dir)
	require.Panics(t, func() {
		_, _ = reference.OpenBlock(slog.New(slog.DiscardHandler), filepath.Join(copied, d.block), nil, nil)
	})
	requireSetAside(t, d)
}
