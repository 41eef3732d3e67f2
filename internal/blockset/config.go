package blockset

import (
	"log/slog"
	"time"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Config is what a Set is made with. FS, Dir, Clock and Logger are needed.
type Config struct {
	FS     fileutil.FS
	Dir    string // the data directory
	Clock  clock.Clock
	Logger *slog.Logger
	// MaxFuture is how far ahead of the clock samples of the present may be; negative: any time is
	// of the present.
	MaxFuture time.Duration
	// ReadOnly: nothing is moved, removed or written, whatever is found.
	ReadOnly bool
	// Busy: somebody brought blocks into the directory when it was opened, and may be changing
	// them.
	Busy   bool
	Shapes *Shapes // nil: nothing is remembered
	// OnBlock is told of each block that is added behind Load, in the order in which they are. One
	// goroutine calls it, without locks. nil: nobody is told.
	OnBlock func(blockdir.Meta)
}

// Readers are those who read blocks, or have just found them in a view.
type Readers interface {
	// Settle returns when nobody reads any more who does so now, or after a while.
	Settle()
}

// Report says what Load found and did.
type Report struct {
	Blocks      int // that are open
	SetAside    int // damaged ones, moved into quarantine/
	Vanished    int // that were there before, and that nobody removed by this library
	Damages     []datadir.Damage
	Quarantined []string // what was set aside, relative to the data directory
}
