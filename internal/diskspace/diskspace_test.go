package diskspace

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/wal"
)

func TestRoom_ReserveIsATwentiethOfTheDiskAtMost(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ total, want int64 }{
		{-1, 0}, {0, 0}, {19, 0}, {20, 1}, {100 * mib, 5 * mib},
		{1280*mib - 1, 64*mib - 1}, {1280 * mib, 64 * mib}, {1 << 50, 64 * mib},
	} {
		require.Equal(t, c.want, ReserveBytes(c.total), "%d", c.total)
	}
}

func TestRoom_WorkThatFitsBesideTheReserveIsBegun(t *testing.T) {
	for _, c := range []struct {
		free, total int64
		known       bool
		bytes       int64
		want        string
	}{
		{free: 100, total: 1000, known: true, bytes: 50},
		{free: 100, total: 1000, known: true, bytes: 51, want: "this: 51 bytes are wanted and 50 kept for the log, 100 are free: no space left on the disk"},
		{free: 0, total: 1000, known: true, bytes: 0, want: "this: 0 bytes are wanted and 50 kept for the log, 0 are free: no space left on the disk"},
		{free: 10 << 20, total: 32 << 20, known: true, bytes: 8 << 20},
		{bytes: 1 << 40},
	} {
		err := room{free: c.free, total: c.total, known: c.known}.check("this", c.bytes)
		if c.want == "" {
			require.NoError(t, err, "%+v", c)
			continue
		}
		require.EqualError(t, err, c.want)
		require.ErrorIs(t, err, wal.ErrDiskFull)
	}
}
