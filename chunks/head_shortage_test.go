package chunks

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A directory that cannot be opened to be synced fails the write. The next one syncs it before
// it puts anything into the file: what is written is never in a file without a durable name.
func TestWrite_WithoutADescriptorForTheDirectory_IsTriedAgain(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		for nth := int64(1); nth <= 2; nth++ { // of the parent, of the directory itself
			disk := tsdbtest.NewMemFS()
			require.NoError(t, disk.MkdirAll("data"))
			require.NoError(t, disk.SyncDir("."))
			faulty := faultfs.New(disk)
			h, _, _ := openLoaded(t, faulty, "data/chunks_head", HeadOptions{})
			faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Nth: nth, Sticky: true, Err: errno})
			all := fullChunks(1, 3)
			for range 3 {
				refs, err := h.Write(all)
				require.ErrorIs(t, err, errno)
				require.NotErrorIs(t, err, ErrPoisoned)
				require.Empty(t, refs)
			}
			faulty.Lift()
			refs := write(t, h, all)
			require.NoError(t, h.Sync())
			left := disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
			_, got, rep := openLoaded(t, left, "data/chunks_head", HeadOptions{})
			require.False(t, rep.NeedsRepair())
			requireLoaded(t, got, refs, all)
			require.NoError(t, h.Close())
		}
	}
}
