package tsdb

import (
	"context"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blockplan"
	"github.com/seed347100a3/tsdb/internal/blockset"
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

// durations are for how long each rule keeps, and, as the last one, what is kept that no rule
// chooses.
func (b *BlockOptions) durations(rest time.Duration) []time.Duration {
	return rules.Durations(b.RetentionRules, rest)
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

// rewrites returns the blocks that are to be written anew without the series that are too old by the
// rules, the oldest first. BlockOptions.Keep is asked about each.
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
// BlockOptions.Keep keeps a block.
func mergeInputs(ctx context.Context, db *DB, blocks []blockset.Block) ([]blockmerge.Input, error) {
	inputs := make([]blockmerge.Input, len(blocks))
	for i := range blocks {
		inputs[i].Dir = blocks[i].Dir()
	}
	list, keep := db.opts.Blocks.RetentionRules, db.opts.Blocks.Keep
	if len(list) == 0 {
		return inputs, nil
	}
	state := retentionState(db)
	state.Behind = db.time.Look(state.CountedFrom())
	from := state.KeptFrom(db.opts.Blocks.durations(db.Retention().Duration))
	for i := range inputs {
		if early, _ := inputs[i].Dir.Reach(); early >= slices.Max(from) || keep != nil && keep(blocks[i].Meta) {
			continue
		}
		d, err := rules.Decide(ctx, inputs[i].Dir, list)
		if err != nil {
			return nil, err
		}
		inputs[i].KeepFrom = d.KeepFrom(from)
	}
	return inputs, nil
}
