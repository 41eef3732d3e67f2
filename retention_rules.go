package tsdb

import (
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/compact"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/rules"
)

// RetentionRule is one of Options.Blocks.RetentionRules: for how long the series are kept that all
// its matchers choose; none: every series. A Duration of 0 or less has no limit.
type RetentionRule = rules.RetentionRule

// copyRules copies rules and the lists in them.
func copyRules(list []RetentionRule) []RetentionRule {
	list = slices.Clone(list)
	for i := range list {
		list[i].Matchers = slices.Clone(list[i].Matchers)
	}
	return list
}

// longest is the longest time for which something is kept that is not kept for ever; rest is that
// of what no rule chooses.
func (b *BlockOptions) longest(rest time.Duration) time.Duration {
	return rules.Longest(b.RetentionRules, rest)
}

// ruleShares asks blocks which rules decide about their series, and remembers what went wrong.
type ruleShares struct {
	db  *DB
	ctx context.Context
	err error
}

// of is what blockplan.ByRules asks: nothing about a block that is gone meanwhile, or that cannot
// say on disk that it lies beside the head.
func (s *ruleShares) of(id ulid.ULID) []bool {
	blocks := s.db.blocks.Pinned([]ulid.ULID{id})
	if len(blocks) == 0 {
		return nil
	}
	defer blocks[0].Release()
	if v := (&blockset.View{Blocks: blocks}).Planned(); v[0].Unmarked {
		return nil
	}
	has, err := s.db.merges.Shares.Of(s.ctx, blocks[0].Dir())
	if err != nil {
		s.err = fileutil.JoinErrors(s.err, err)
	}
	return has
}

// rewrites returns the blocks that are to be written anew without the series that are too old by
// the rules, the oldest first. BlockOptions.Keep is asked about each.
func rewrites(ctx context.Context, db *DB, busy func(ulid.ULID) bool) ([]ulid.ULID, error) {
	if len(db.opts.Blocks.RetentionRules) == 0 {
		return nil, nil
	}
	state := retentionState(db)
	db.merges.Shares.Forget(func(id ulid.ULID) bool {
		return slices.ContainsFunc(state.Blocks, func(b blockplan.SizedBlock) bool { return b.Meta.ULID == id })
	})
	aged, err := db.age(ctx, state, RetentionLimits{Duration: db.Retention().Duration})
	keep := db.opts.Blocks.Keep
	for _, b := range state.Blocks {
		id := b.Meta.ULID
		if i := slices.Index(aged.Rewrite, id); i >= 0 && (busy(id) || keep != nil && keep(b.Meta)) {
			aged.Rewrite = slices.Delete(aged.Rewrite, i, i+1)
		}
	}
	return aged.Rewrite, err
}

// mergeInputs returns blocks as a merge takes them: without what is too old by the rules, unless
// BlockOptions.Keep keeps a block. publish is what the merge is to publish by: nothing goes by
// limits that SetRetention has changed.
func mergeInputs(ctx context.Context, db *DB, blocks []blockset.Block, publish compact.PublishFunc) ([]blockmerge.Input, compact.PublishFunc, error) {
	inputs := make([]blockmerge.Input, len(blocks))
	for i := range blocks {
		inputs[i].Dir = blocks[i].Dir()
	}
	list, keep := db.opts.Blocks.RetentionRules, db.opts.Blocks.Keep
	by := db.Retention()
	if len(list) == 0 || rules.Longest(list, by.Duration) == 0 {
		return inputs, publish, nil
	}
	state := retentionState(db)
	state.Behind = db.time.Look(state.CountedFrom())
	from := state.KeptFrom(rules.Durations(list, by.Duration))
	for i := range inputs {
		if early, _ := inputs[i].Dir.Reach(); early >= slices.Max(from) || keep != nil && keep(*blocks[i].Meta) {
			continue
		}
		d, err := rules.Decide(ctx, inputs[i].Dir, list)
		if err != nil {
			return nil, nil, err
		}
		inputs[i].KeepFrom = d.KeepFrom(from)
	}
	return inputs, func(w *blockdir.Writer, inPlace bool) error {
		db.retaining.Lock()
		defer db.retaining.Unlock()
		if db.Retention() != by {
			return errRetentionChanged
		}
		return publish(w, inPlace)
	}, nil
}

// RetentionPlan is what retention by time would take at once, by itself: a merge that is due may
// leave out more.
type RetentionPlan struct {
	NewestT            int64 // that durations are counted back from, in milliseconds since 1970; math.MinInt64: there is no sample
	Removed, Rewritten int   // blocks that go, and that are written anew without a part of their series
	// Shares are what goes by each rule, and, as the last one, of what none chooses.
	Shares []RetentionShare
}

// RetentionShare is what goes by one rule: in how many blocks, how many series, each once, samples,
// deleted ones too that are still there, and bytes of their chunks.
type RetentionShare = rules.Share

// RetentionPlan says what rules, and rest for what none of them chooses, would take of the blocks
// of the last Refresh, by the clock. The chunks that go are read, and nothing is changed. A clock
// that a DB doubts (ErrClock) delays it there.
//
// Errors: ErrInvalidArgument for rules that cannot be, or no context, ErrClosed, ErrCorrupt with
// the file, the context's.
func (r *Reader) RetentionPlan(ctx context.Context, list []RetentionRule, rest time.Duration) (RetentionPlan, error) {
	if err := checkContext(ctx); err != nil {
		return RetentionPlan{}, err
	}
	if err := rules.Check(list, "plan retention"); err != nil {
		return RetentionPlan{}, &refusal{ErrInvalidArgument, err}
	}
	s, done, err := r.state()
	if err != nil {
		return RetentionPlan{}, err
	}
	state := blockplan.RetentionState{NewestT: s.head.bounds.maxT.Load(), NowT: clock.UnixMilli(r.opts.Clock)}
	var ids []ulid.ULID
	for _, m := range s.blocks.Current().Metas() {
		ids = append(ids, m.ULID)
	}
	blocks := s.blocks.Pinned(ids)
	done()
	dirs := make(map[ulid.ULID]*blockset.Block, len(blocks))
	for i := range blocks {
		defer blocks[i].Release()
		state.Blocks = append(state.Blocks, blockplan.SizedBlock{Meta: *blocks[i].Meta})
		dirs[blocks[i].Meta.ULID] = &blocks[i]
	}
	durations, shares := rules.Durations(list, rest), rules.NewShares(list)
	from, count := state.KeptFrom(durations), rules.NewCounter(list)
	gone, rewritten := blockplan.ByRules(&state, from, func(id ulid.ULID) []bool {
		has, failed := shares.Of(ctx, dirs[id].Dir())
		err = fileutil.JoinErrors(err, failed)
		return has
	})
	for i, id := range slices.Concat(gone, rewritten) {
		if err == nil {
			err = count.Add(ctx, dirs[id].Dir(), from, i < len(gone))
		}
	}
	if err != nil {
		return RetentionPlan{}, errors.WithMessage(err, "plan retention")
	}
	return RetentionPlan{NewestT: state.CountedFrom(), Removed: len(gone), Rewritten: len(rewritten), Shares: count.Shares}, nil
}
