package compat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Blocks that retention rules have written anew are read by the reference as what they are.
func TestRetentionRules_WhatIsLeft_IsReadByTheReference(t *testing.T) {
	set := []series{newSeries("__name__", "m", "job", "debug"), newSeries("__name__", "m", "job", "app"), newSeries("__name__", "up", "job", "app")}
	dir := t.TempDir()
	o := openOurs(t, dir, ourBlockOptions)
	begin := time.UnixMilli(1_700_000_000_000).Add(-40 * time.Hour).UnixMilli()
	for at := begin; at < begin+39*hour; at += 10 * 60 * 1000 {
		o.commit(set, []row{{series: 0, t: at, v: 1}, {series: 1, t: at, v: float64(at % 7)}, {series: 2, t: at, v: float64(at)}})
	}
	o.compact()
	whole := o.dump()
	o.close()
	o = openOurs(t, dir, ourBlockOptions, func(o *tsdb.Options) {
		o.Blocks.RetentionRules = []tsdb.RetentionRule{
			{Matchers: []*labels.Matcher{labels.Equal("job", "debug")}, Duration: 3 * time.Hour},
			{Matchers: []*labels.Matcher{labels.Equal("__name__", "up")}},
		}
		o.Blocks.Retention = 20 * time.Hour
	})
	o.compact()
	want := o.dump()
	require.Greater(t, o.db.Stats().Merges, uint64(1), "blocks were written anew")
	require.Less(t, len(want[set[0].key]), len(want[set[1].key]))
	require.Less(t, len(want[set[1].key]), len(whole[set[1].key]))
	require.Equal(t, whole[set[2].key], want[set[2].key])
	o.close()
	requireReferenceReadsBlocks(t, left{dir: dir, want: want})
	requireOursReadsBlocks(t, left{dir: dir, want: want})
}
