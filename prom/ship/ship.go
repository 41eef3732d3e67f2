package ship

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Shipper uploads the blocks of a data directory. It is safe for concurrent use.
type Shipper struct {
	dir    string
	bucket objstore.Bucket
	o      Options
	wake   chan struct{} // has room for one: there is a block to upload

	unsaved atomic.Bool // the state file lacks what was uploaded; Sync writes it

	syncing sync.Mutex // held by Sync, before mu
	// What Sync alone uses.
	unsure  bool                        // the state file does not say what was uploaded
	doubted map[ulid.ULID]bool          // blocks that may have been uploaded without that being written down
	metas   map[ulid.ULID]blockdir.Meta // of the blocks that are there; nil: none was looked for yet
	before  map[ulid.ULID]bool          // those that were there at the look before, and their sources
	unread  bool                        // there are blocks whose meta files cannot be read
	sent    map[string]int64            // sizes of objects that this process uploaded, of blocks that are not whole

	holding sync.Mutex         // held while files below thanos/upload come and go; before mu
	held    map[ulid.ULID]bool // those that this process has held; holding is held
	unheld  map[ulid.ULID]bool // those that could not be held, as was logged; holding is held

	mu struct {
		sync.Mutex
		uploaded map[ulid.ULID]bool
		unsuited map[ulid.ULID]string // why they are not uploaded, as was found by reading them
		lost     map[ulid.ULID]bool   // those that Stats.Lost counts
		stats    Stats
	}
}

// Skipped is a block that is not uploaded.
type Skipped struct {
	Block  ulid.ULID
	Reason string
}

// Stats are the present numbers.
type Stats struct {
	Syncs, SyncFailures     uint64
	Uploads, UploadFailures uint64 // of blocks
	UploadedBytes           uint64
	// Pending is how many blocks were to be uploaded still when the last Sync looked or ended.
	Pending int
	// Skipped are the blocks that are there, as the last Sync saw them, and are not in the bucket,
	// nor will be.
	Skipped []Skipped
	// Skips is how often a block came to Skipped, or stayed there for another reason.
	Skips uint64
	// Lost are the blocks of Skipped that retention took, in whole or in part, since the Shipper was
	// made: nobody has them any more. Those of a database with the options of Prepare are counted.
	Lost uint64
	// LastSync is when a Sync ended last without an error. Zero: none has.
	LastSync time.Time
	// Block is being uploaded: Done of Total bytes. Zero: none is.
	Block       ulid.ULID
	Done, Total int64
}

// New returns a shipper of the blocks of a database that is open. One is refused that merges blocks,
// or writes them anew, and has no MayMerge: ErrMerges; and one with limits of retention that has no
// Keep: ErrRetention. Open it with the options that Prepare gives, of a shipper of NewDir; or with
// BlockOptions.MaxRange below three times Range, no OutOfOrderWindow, and no retention. What is
// changed later nobody checks. Errors are those of NewDir, too.
func New(db *tsdb.DB, bucket objstore.Bucket, opts Options) (*Shipper, error) {
	of := db.Options()
	if why := mergesBlocks(&of); why != "" && of.Blocks.MayMerge == nil {
		return nil, errors.WithMessagef(ErrMerges, "ship: %s, or BlockOptions.MayMerge", why)
	}
	if of.Blocks.Keep == nil && removesBlocks(&of.Blocks) {
		return nil, errors.WithMessage(ErrRetention, "ship: BlockOptions have limits of retention, want none or Keep")
	}
	if opts.FS == nil {
		opts.FS = of.FS
	}
	return NewDir(db.Dir(), bucket, opts)
}

// NewDir returns a shipper of the blocks of a data directory, which may be open, or not be there
// yet. Errors: ErrLabels; those of the file system. Beside an error there is no shipper.
func NewDir(dir string, bucket objstore.Bucket, opts Options) (*Shipper, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Shipper{dir: dir, bucket: bucket, o: o, wake: make(chan struct{}, 1),
		held: map[ulid.ULID]bool{}, unheld: map[ulid.ULID]bool{}, doubted: map[ulid.ULID]bool{}, sent: map[string]int64{}}
	s.mu.unsuited, s.mu.lost = map[ulid.ULID]string{}, map[ulid.ULID]bool{}
	if s.mu.uploaded, s.unsure, err = readState(o.FS, dir); err != nil {
		return nil, err
	}
	return s, nil
}

// Stats returns the present numbers.
func (s *Shipper) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stats
}

// Keep is for BlockOptions.Keep, and its opposite for MayMerge: true for a block that is to be
// uploaded still. It is false for one that is damaged, once a Sync has found that out.
func (s *Shipper) Keep(m tsdb.BlockMeta) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.judgeLocked(&m).due
}

// tellLost says that a block leaves which is not in the bucket, nor will be. Where it stays all the
// same for now it is told once, too.
func (s *Shipper) tellLost(m tsdb.BlockMeta) {
	s.mu.Lock()
	reason := s.judgeLocked(&m).reason
	told := reason == "" || s.mu.lost[m.ULID]
	if !told {
		s.mu.lost[m.ULID] = true
		s.mu.stats.Lost++
	}
	s.mu.Unlock()
	if !told {
		s.o.Logger.Warn("retention takes a block that is not uploaded", "block", m.ULID.String(), "mint", m.MinTime, "maxt", m.MaxTime, "reason", reason)
	}
}

// Run uploads new blocks, at once if Prepare's options are those of the database, and looks for
// more from time to time, until the context ends. Errors are logged and counted, and the next turn
// tries again. every is more than 0.
func (s *Shipper) Run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if _, err := s.Sync(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("blocks were not uploaded", "error", fileutil.Logged(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// Sync uploads every block that is to be, the oldest first, and returns how many it did. A damaged
// block keeps the others from nothing, nor does a full disk; an error of the bucket ends it. Errors
// are those of the bucket, of the file system, of the context, and tsdb.ErrCorrupt with the file
// that is damaged. Damage is an error once; afterwards the block is in Stats.Skipped, until another
// Shipper tries again.
func (s *Shipper) Sync(ctx context.Context) (uploaded int, err error) {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.stats.Syncs++
		if err != nil {
			s.mu.stats.SyncFailures++
		} else {
			s.mu.stats.LastSync = time.Now()
		}
	}()
	defer func() {
		if s.unsaved.Load() {
			err = fileutil.JoinErrors(err, errors.WithMessage(s.save(), "ship"))
		}
	}()
	found, err := s.look()
	if err != nil {
		return 0, errors.WithMessage(err, "ship")
	}
	defer s.note(found)
	s.holdDue(found)
	if err := s.settle(ctx, found); err != nil {
		return 0, errors.WithMessage(err, "ship")
	}
	var damages []error
	for _, b := range found.due() {
		n, err := s.ship(ctx, b)
		uploaded += n
		switch {
		case err == nil || errors.Is(err, errGone):
		case errors.Is(err, errUnsuited):
			s.skip(b, err.Error())
		case errors.Is(err, tsdb.ErrCorrupt):
			s.skip(b, err.Error())
			damages = append(damages, errors.WithMessagef(err, "ship block %s", b.id))
		case errors.Is(err, errLocal):
			b.reason = err.Error()
			damages = append(damages, errors.WithMessagef(err, "ship block %s", b.id))
		default:
			return uploaded, fileutil.JoinErrors(append(damages, errors.WithMessagef(err, "ship block %s", b.id))...)
		}
		b.over = err == nil || errors.Is(err, errGone)
		s.note(found)
	}
	return uploaded, fileutil.JoinErrors(append(damages, found.damages...)...)
}

// skip notes that a block cannot be uploaded, until the process ends. Keep lets it go: what is damaged
// does not heal, and merges and retention would wait for ever.
func (s *Shipper) skip(b *block, reason string) {
	s.mu.Lock()
	s.mu.unsuited[b.id] = reason
	s.mu.Unlock()
	b.reason = reason
}

// note renews what Stats says of blocks, and logs what is not uploaded, once.
func (s *Shipper) note(f *found) {
	var skipped, fresh []Skipped
	pending := 0
	s.mu.Lock()
	known := map[Skipped]bool{}
	for _, b := range s.mu.stats.Skipped {
		known[b] = true
	}
	for _, b := range f.blocks {
		switch skip := (Skipped{b.id, b.reason}); {
		case b.reason != "":
			if skipped = append(skipped, skip); !known[skip] {
				fresh = append(fresh, skip)
			}
		case b.due && !b.over:
			pending++
		}
	}
	s.mu.stats.Skipped, s.mu.stats.Pending = skipped, pending
	s.mu.stats.Skips += uint64(len(fresh))
	s.mu.stats.Block, s.mu.stats.Done, s.mu.stats.Total = ulid.ULID{}, 0, 0
	s.mu.Unlock()
	for _, b := range fresh {
		s.o.Logger.Warn("block is not uploaded", "block", b.Block.String(), "reason", b.Reason)
	}
}

// isGone tells whether an error says that a file is not there.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
