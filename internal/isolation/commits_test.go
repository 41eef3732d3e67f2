package isolation_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/isolation"
)

// publishInOrder publishes applied commits one after the other, and returns the newest one that is
// visible behind each.
func publishInOrder(seqs ...uint64) (visible []uint64) {
	c := isolation.New(0)
	for _, seq := range seqs {
		c.Publish(seq)
		visible = append(visible, c.Published())
	}
	return visible
}

// Whatever the order in which commits are applied, readers get them in the order of the log.
func TestIsolation_CommitsArePublishedInTheOrderOfTheLog(t *testing.T) {
	require.Equal(t, []uint64{0, 0, 3, 3, 5}, publishInOrder(2, 3, 1, 5, 4))
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var order []uint64
		for _, i := range rng.Perm(12) {
			order = append(order, uint64(i+1))
		}
		done := map[uint64]bool{}
		for i, published := range publishInOrder(order...) {
			done[order[i]] = true
			require.False(t, done[published+1], "%v: %d waits for nobody", order, published+1)
			for seq := uint64(1); seq <= published; seq++ {
				require.True(t, done[seq], "%v: %d is published and not applied", order, seq)
			}
		}
	}
}

// Maintenance waits for those who read when it begins to, not for those who come later.
func TestIsolation_SettlesWhenOlderReadersHaveGone(t *testing.T) {
	commits := isolation.New(0)
	open := func() *isolation.Snapshot { return commits.Acquire(time.Time{}, 0) }
	require.True(t, isolation.Settled(commits)(), "nobody reads")
	a, b := open(), open()
	two := isolation.Settled(commits)
	c := open()
	commits.Release(a)
	require.False(t, two(), "one of two still reads")
	three := isolation.Settled(commits)
	commits.Release(b)
	require.True(t, two())
	require.False(t, three())
	commits.Release(c)
	require.True(t, three())
}

// Who waits goes on when the last reader closes, and does not wait for ever for one who does not.
func TestIsolation_SettleWaitsForReadersButNotForEver(t *testing.T) {
	commits := isolation.New(0)
	commits.Settle() // nobody reads
	reader := commits.Acquire(time.Time{}, 0)
	commits.Settle() // it stays open
	one, two := make(chan struct{}), make(chan struct{})
	for _, settled := range []chan struct{}{one, two} {
		go func() {
			commits.Settle()
			close(settled)
		}()
	}
	commits.Release(reader)
	<-one
	<-two
}
