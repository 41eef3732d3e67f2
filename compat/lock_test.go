package compat

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// The reference refuses a directory that we hold; we go on as if nothing had happened,
// and when we are gone it may have it.
func TestLock_HeldByUs_RefusedByTheReference(t *testing.T) {
	g := newGenerator(plan{Seed: seed(t, 900), Series: 10})
	dir, want := t.TempDir(), data{}
	db := openOurs(t, dir)
	for range 5 {
		rows := g.commit()
		db.commit(g.set, rows)
		want.add(g.set, rows)
		_, err := reference.Open(dir, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), theirOptions(), nil)
		require.ErrorContains(t, err, "lock")
	}
	requireEqual(t, want, db.dump(), "ours")
	db.close()
	r := openTheirs(t, dir)
	requireEqual(t, want, r.dump(), "reference")
	r.requireUndamaged()
}

// We refuse a directory that the reference holds, by name, and it goes on.
func TestLock_HeldByTheReference_RefusedByUs(t *testing.T) {
	g := newGenerator(plan{Seed: seed(t, 901), Series: 10})
	dir, want := t.TempDir(), data{}
	r := openTheirs(t, dir)
	for range 5 {
		rows := g.commit()
		r.commit(g.set, rows)
		want.add(g.set, rows)
		before := listing(t, dir)
		_, err := tsdb.Open(dir, ourOptions())
		require.ErrorIs(t, err, tsdb.ErrLocked)
		require.Equal(t, before, listing(t, dir))
	}
	requireEqual(t, want, r.dump(), "reference")
	r.requireUndamaged()
	r.close()
	db := openOurs(t, dir)
	requireEqual(t, want, db.dump(), "ours")
	db.requireClean()
}
