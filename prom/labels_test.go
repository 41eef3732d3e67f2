package prom

import (
	"strings"
	"testing"

	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/labels"
)

// drawLabels draws sets with strings of all lengths at which a form changes.
func drawLabels(rt *rapid.T) map[string]string {
	all := map[string]string{}
	for range rapid.IntRange(0, 5).Draw(rt, "labels") {
		name := rapid.StringN(1, 5, -1).Draw(rt, "name")
		size := rapid.SampledFrom([]int{1, 2, 126, 127, 128, 129, 254, 255, 256, 300, 20000}).Draw(rt, "bytes")
		all[name] = strings.Repeat("v", size)
	}
	return all
}

// Sets are the same in both vocabularies, whatever is as long as it likes, and go there and back.
func TestLabels_AreTheSameThereAndBack(t *testing.T) {
	require.True(t, sameForm, "sets of short strings are converted without a copy")
	rapid.Check(t, func(rt *rapid.T) {
		all := drawLabels(rt)
		ours, theirs := labels.FromMap(all), promlabels.FromMap(all)
		require.True(rt, promlabels.Equal(theirs, toTheirs(ours)))
		require.True(rt, promlabels.Equal(theirs, rebuilt(ours)))
		require.Equal(rt, ours, toOurs(theirs))
		require.Equal(rt, all, map[string]string(toTheirs(ours).Map()))
		require.Equal(rt, theirs.Hash(), toTheirs(ours).Hash())
	})
}

func TestLabels_OfShortStringsAreConvertedWithoutMemory(t *testing.T) {
	ours := labels.FromStrings("__name__", "up", "instance", "host:9100", "job", strings.Repeat("j", shortString))
	theirs := toTheirs(ours)
	require.Zero(t, testing.AllocsPerRun(100, func() { theirs = toTheirs(ours) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { ours = toOurs(theirs) }))
}

// Sets that are not well formed stay so: the database says what is wrong with them.
func TestLabels_ThatAreNotWellFormedStaySo(t *testing.T) {
	twice := promlabels.FromStrings("a", "1", "a", "2")
	require.Error(t, toOurs(twice).Validate())
	require.True(t, toOurs(promlabels.EmptyLabels()).IsEmpty())
}
