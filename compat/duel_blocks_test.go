package compat

import (
	"fmt"
	"math/rand/v2"
	"testing"

	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
)

// The same random operations in both engines, now with deletes, flushes, merges,
// crashes and hours that pass, give the same errors of Append and the same answers to
// every query; and each goes on, at times, with the directory of the other.
func TestDifferential_SameOperationsOnBlocks_SameAnswers(t *testing.T) {
	for i := range scaled(60) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			d := &duel{t: t, rng: rand.New(rand.NewPCG(seed(t, uint64(3600+i)), 0)), dirs: [2]string{t.TempDir(), t.TempDir()}}
			d.now, d.stride, d.blocks = worldStart+d.rng.Int64N(2*hour), 2*minute, true
			for k := range 4 + d.rng.IntN(20) {
				d.set = append(d.set, makeSeries(i%2, k))
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("%d steps: %v", len(d.log), d.log)
				}
			})
			d.open()
			for range 60 {
				d.stepOnBlocks()
			}
			d.restart()
			for range 20 {
				d.query()
			}
		})
	}
}

func (d *duel) stepOnBlocks() {
	d.t.Helper()
	switch n := d.rng.IntN(40); {
	case n == 0:
		d.log = append(d.log, "restart")
		d.restart()
	case n == 1:
		d.log = append(d.log, "crash")
		for i := range d.dirs {
			d.dirs[i] = copyDir(d.t, d.dirs[i])
		}
		d.restart()
	case n < 4:
		mint := d.now - d.rng.Int64N(20*hour)
		maxt := mint + d.rng.Int64N(10*hour)
		ms := d.matchers()
		d.log = append(d.log, fmt.Sprintf("delete [%d, %d] %v", mint, maxt, ms))
		d.ours.delete(mint, maxt, ms...)
		d.theirs.delete(mint, maxt, ms...)
	case n < 6:
		d.log = append(d.log, "flush")
		d.ours.flush()
		d.theirs.flush()
	case n < 9:
		d.log = append(d.log, "compact")
		d.ours.compact()
		d.theirs.compact()
	case n < 10:
		d.log = append(d.log, "clean")
		d.ours.cleanTombstones()
		d.theirs.cleanTombstones()
	case n < 25:
		d.log = append(d.log, "append")
		d.append()
	default:
		d.query()
	}
}

// blockOptions are for both: random ones, and the same blocks.
func (d *duel) blockOptions() (func(*tsdb.Options), func(*reference.Options)) {
	ours, theirs := randomOptions(d.rng), randomReferenceOptions(d.rng)
	return func(o *tsdb.Options) {
			ourBlockOptions(o)
			blocks := o.Blocks
			ours(o)
			o.Blocks = blocks
		}, func(o *reference.Options) {
			theirBlockOptions(o)
			theirs(o)
		}
}
