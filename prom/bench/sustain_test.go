package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// tinySustain is a large server's workload in three seconds: flushes are looked for every second.
func tinySustain(t *testing.T) SustainConfig {
	return SustainConfig{
		Series: 2000, Rate: 10_000, Time: 2600 * time.Millisecond, Range: 200 * time.Millisecond, Kill: 0.5, Churn: 0.05,
		Writers: 2, Every: 100 * time.Millisecond, Dir: t.TempDir(),
	}
}

// The whole workload: a process that flushes and is killed, and another one that goes on where
// it was. What was acknowledged is read back by Sustain itself, or it fails.
func TestSustain_FlushesMergesChurnAndAKill_LoseNothing(t *testing.T) {
	c := tinySustain(t)
	var rep SustainReport
	whole := false
	for range 10 { // where the machine stands still for a second, too little or too much of three is done
		var err error
		rep, err = Sustain(t.Context(), c)
		require.NoError(t, err)
		left, err := os.ReadDir(c.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
		s := rep.Summary
		require.Zero(t, s.Warnings, rep.Events)
		// The last series may not have come to their turn, and what was committed behind the last
		// look before the kill was not seen.
		whole = s.Flushes+s.SettledFlushes >= 6 && s.Merges+s.SettledMerges >= 2 && math.Abs(s.SeriesMade-2100) <= 60 && seenSamples(&rep) >= s.Checked/2
		if whole {
			break
		}
		t.Logf("%d and %d flushes, %d and %d merges, %v series, %v of %v samples seen", s.Flushes, s.SettledFlushes, s.Merges, s.SettledMerges, s.SeriesMade, seenSamples(&rep), s.Checked)
	}
	require.True(t, whole)

	s := rep.Summary
	require.Greater(t, s.Checked, float64(c.Series))
	require.Greater(t, s.Ready, 0.0)
	require.Greater(t, s.Settled, 0.0)
	require.Greater(t, s.Peak, 0.0)
	require.Greater(t, s.PerSample, 0.0)
	require.Greater(t, s.Max, 0.0)
	require.Len(t, s.Reached, 2)

	var kinds []string
	for _, e := range rep.Events {
		if slices.Contains([]string{eventReady, eventStart, eventKill, eventSettle, eventClose}, e.Kind) {
			kinds = append(kinds, e.Kind)
		}
	}
	require.Equal(t, []string{eventReady, eventStart, eventKill, eventReady, eventStart, eventSettle, eventClose}, kinds)
	require.LessOrEqual(t, seenSamples(&rep), s.Checked+1e-6*s.Checked)

	dir := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(dir, 0o777))
	page := filepath.Join(dir, "bench.md")
	require.NoError(t, os.WriteFile(page, []byte("# Words\n"+sustainBegin+"\nold\n"+sustainEnd+"\n"+pageBegin+"\nrows\n"+pageEnd+"\nmore\n"), 0o666))
	require.NoError(t, rep.WriteDocs(dir))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| flushes, merges | ")
	require.NotContains(t, string(text), "old")
	require.True(t, strings.HasSuffix(string(text), sustainEnd+"\n"+pageBegin+"\nrows\n"+pageEnd+"\nmore\n"))
	for _, chart := range rep.charts() {
		svg, err := os.ReadFile(filepath.Join(dir, "bench", chart.Name+".svg"))
		require.NoError(t, err)
		for _, words := range []string{chart.Title, "flush", "merge", "kill", "ready"} {
			require.Contains(t, string(svg), words)
		}
		require.Contains(t, string(text), "bench/"+chart.Name+".svg")
	}
	results, err := os.ReadFile(filepath.Join(dir, "bench", "sustained.json"))
	require.NoError(t, err)
	var again SustainReport
	require.NoError(t, json.Unmarshal(results, &again))
	require.Equal(t, rep.Summary, again.Summary)
	require.Len(t, again.Seconds, len(rep.Seconds))
	for _, format := range []string{"table", "markdown", "json"} {
		var out bytes.Buffer
		require.NoError(t, rep.Write(&out, format))
		require.Contains(t, out.String(), "checkpoint")
	}
}

// seenSamples adds up what was seen at each look.
func seenSamples(rep *SustainReport) (n float64) {
	for _, x := range rep.Seconds {
		n += x.Samples * x.Took
	}
	return n
}

// written makes a small database in this process: so many commits of each of two writers.
func written(t *testing.T, commits int) (o sustainOrder, acks *os.File) {
	o = SustainConfig{Series: 2500, Rate: 25_000, Time: time.Second, Range: time.Minute, Churn: 0.5, Writers: 2}.order(t.TempDir())
	acks, err := os.Create(o.ackFile())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, acks.Close()) })
	require.NoError(t, acks.Truncate(int64(o.Writers)*acknowledgement))
	db, err := tsdb.Open(o.dataDir(), nil)
	require.NoError(t, err)
	for i := range o.Writers {
		w, err := newSustainWriter(&o, db, i, acks)
		require.NoError(t, err)
		for range commits {
			require.NoError(t, w.one(time.Now()))
		}
	}
	require.NoError(t, db.Close())
	return o, acks
}

// The check finds what is missing, what is too much, and what is another value.
func TestSustainCheck_FindsEveryDifference(t *testing.T) {
	const commits = 15 // seven scrapes and a half, with replaced series among them
	o, acks := written(t, commits)
	check := func() error {
		_, err := sustainCheck(task{Sustain: &o})
		return err
	}
	some := func() error {
		want, err := o.wanted()
		require.NoError(t, err)
		db, err := tsdb.Open(o.dataDir(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		return want.some(db, 10)
	}
	m, err := sustainCheck(task{Sustain: &o})
	require.NoError(t, err)
	require.NoError(t, some())
	require.Equal(t, float64(2*(7*1250+1000)), m["samples"])
	require.Equal(t, float64(2500+2*(625*7/10)), m["series"])

	acknowledge := func(n byte) {
		_, err := acks.WriteAt([]byte{n}, 0)
		require.NoError(t, err)
	}
	acknowledge(commits + 1) // one that is not there
	require.ErrorContains(t, check(), "1 more were acknowledged")
	require.ErrorContains(t, some(), "1 more were acknowledged")
	acknowledge(commits - 1)
	require.ErrorContains(t, check(), "of up to 7")
	require.ErrorContains(t, some(), "of up to 7")
	acknowledge(commits)
	require.NoError(t, check())

	db, err := tsdb.Open(o.dataDir(), nil)
	require.NoError(t, err)
	w, err := newSustainWriter(&o, db, 1, acks)
	require.NoError(t, err)
	require.NoError(t, w.one(time.Now()))
	require.NoError(t, db.Close())
	require.NoError(t, check())
	o.Speed = 1.5 // other times were meant
	require.ErrorContains(t, check(), "want scrape 1 of up to")
}

// A commit that was made but not acknowledged before a kill is made again by the next process.
func TestSustainWriter_ARepeatedCommit_IsTaken(t *testing.T) {
	o, acks := written(t, 5)
	_, err := acks.WriteAt([]byte{4}, 0)
	require.NoError(t, err)
	db, err := tsdb.Open(o.dataDir(), nil)
	require.NoError(t, err)
	w, err := newSustainWriter(&o, db, 0, acks)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, w.one(time.Now()))
	}
	require.NoError(t, db.Close())
	_, err = sustainCheck(task{Sustain: &o})
	require.NoError(t, err)
}

// What a place has is told in the same way from both sides; times of a series rise.
func TestSustainPart_SeriesAndTimes(t *testing.T) {
	o := SustainConfig{Series: 5000, Rate: 5000, Time: 20 * time.Second, Range: time.Minute, Churn: 0.3, Writers: 3}.order("")
	for _, p := range o.parts() {
		require.Zero(t, p.replaced(0))
		for place := p.lo; place < p.hi; place += 7 {
			border := p.firstOfSecond(place)
			require.Equal(t, place-p.lo < p.replaced(20), border <= 20)
			require.Equal(t, place, p.seriesAt(place, border-1))
			if border < math.MaxInt32 {
				require.Equal(t, o.Series+place, p.seriesAt(place, border))
			}
		}
		last, seen := int64(math.MinInt64), p.lo
		for n := range int64(3 * p.commits()) {
			k, from, to, at := p.commit(n)
			require.Equal(t, int(n)/p.commits(), k)
			require.Greater(t, at, last)
			require.Equal(t, seen, from)
			if seen, last = to, at; to == p.hi {
				seen = p.lo
			}
		}
	}
	require.InDelta(t, 0.3*5000, float64(o.part(0).replaced(20)+o.part(1).replaced(20)+o.part(2).replaced(20)), 3)
}

// A process that does not reach the rate, or is behind at its end, does not keep up.
func TestSustainReport_KeepsUp_NeedsRateAndNoBacklog(t *testing.T) {
	run := func(at, samples, backlog float64) SustainSecond {
		return SustainSecond{At: at, Took: 1, Phase: phaseRun, CPU: 1, GC: 0.01, Samples: samples, Backlog: backlog, P50: 1e-3, P99: 2e-3, Max: at}
	}
	summary := func(seconds ...SustainSecond) SustainSummary {
		r := SustainReport{Config: SustainConfig{Rate: 100}, Seconds: seconds, Events: []SustainEvent{{Kind: eventReady, At: 4}, {Kind: eventKill, At: 2.5}}}
		r.summarize()
		return r.Summary
	}
	good := summary(run(1, 100, 0), run(2, 100, 0), run(4.5, 90, 3), run(5.5, 110, 0))
	require.True(t, good.KeepsUp)
	require.Equal(t, []float64{1, 1}, good.Reached)
	require.Equal(t, 3.0, good.BacklogMax)
	require.Equal(t, 1.5, good.Ready)
	require.Equal(t, 5.5, good.Max)
	require.InDelta(t, 0.01, good.GC, 1e-9)
	require.False(t, summary(run(1, 100, 0), run(2, 100, 1), run(5.5, 100, 0)).KeepsUp, "the first one was behind")
	require.False(t, summary(run(1, 100, 0), run(2, 100, 0), run(4.5, 90, 0), run(5.5, 100, 0)).KeepsUp, "the second one was too slow")
	require.False(t, summary().KeepsUp)
}

// What is flushed and merged only when no samples come any more is told, and is not what is asked.
func TestSustainReport_WhatSettles_DoesNotCount(t *testing.T) {
	var events []SustainEvent
	for i := range goalFlushes {
		events = append(events, SustainEvent{Kind: eventFlush, At: float64(i)})
	}
	events = append(events, SustainEvent{Kind: eventMerge, At: 3}, SustainEvent{Kind: eventMerge, At: 10}, SustainEvent{Kind: eventSettle, At: 20, Seconds: 5})
	work := func(more ...SustainEvent) (SustainSummary, string) {
		r := SustainReport{Events: slices.Concat(events, more)}
		r.summarize()
		for _, l := range r.lines() {
			if l[0] == "flushes, merges" {
				return r.Summary, l[2]
			}
		}
		return r.Summary, ""
	}
	s, goal := work(SustainEvent{Kind: eventFlush, At: 15.5}, SustainEvent{Kind: eventMerge, At: 16}, SustainEvent{Kind: eventMerge, At: 17})
	require.Equal(t, []int{goalFlushes, goalMerges, 1, 2}, []int{s.Flushes, s.Merges, s.SettledFlushes, s.SettledMerges})
	require.Equal(t, "6, 2", goal)
	events = events[1:]
	s, goal = work(SustainEvent{Kind: eventFlush, At: 15.5})
	require.Equal(t, goalFlushes-1, s.Flushes)
	require.Equal(t, "**6, 2 SHORT**", goal)
	events = events[1:]
	events = slices.DeleteFunc(events, func(e SustainEvent) bool { return e.Kind == eventMerge && e.At == 10 })
	_, goal = work(SustainEvent{Kind: eventFlush, At: 1}, SustainEvent{Kind: eventFlush, At: 2})
	require.Contains(t, goal, "SHORT", "a merge is missing")
}

// A process that was to be killed and was not is an error, however well it ended.
func TestSustainEnded_OnlyWhatWasMeant_IsNoError(t *testing.T) {
	signal, failed, read := errors.New("signal: killed"), errors.New("status 1"), errors.New("half a message")
	require.NoError(t, sustainEnded{exited: true}.err())
	require.NoError(t, sustainEnded{toKill: true, started: true, process: signal}.err())
	for name, e := range map[string]sustainEnded{
		"failed":              {exited: true, process: failed},
		"a message is bad":    {exited: true, read: read},
		"never started":       {toKill: true, exited: true},
		"killed by others":    {toKill: true, process: signal},
		"ended before":        {toKill: true, started: true, early: true, exited: true},
		"ended with the kill": {toKill: true, started: true, exited: true},
		"failed before":       {toKill: true, started: true, early: true, exited: true, process: failed},
		"killed and bad":      {toKill: true, started: true, process: signal, read: read},
	} {
		require.Error(t, e.err(), name)
	}
}

func TestSustain_BadConfig_IsRefused(t *testing.T) {
	for _, spoil := range []func(*SustainConfig){
		func(c *SustainConfig) { c.Series = 0 },
		func(c *SustainConfig) { c.Series, c.Writers = 2, 3 },
		func(c *SustainConfig) { c.Rate = -1 },
		func(c *SustainConfig) { c.Every = 0 },
		func(c *SustainConfig) { c.Kill = 1 },
		func(c *SustainConfig) { c.Churn = 1.5 },
	} {
		c := tinySustain(t)
		spoil(&c)
		_, err := Sustain(t.Context(), c)
		require.Error(t, err)
	}
}

func TestEvenTicks_AreRoundAndNotTooMany(t *testing.T) {
	for _, c := range []struct {
		most float64
		want []string
	}{
		{0.31, []string{"0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3"}},
		{1, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		{460, []string{"0", "50", "100", "150", "200", "250", "300", "350", "400", "450"}},
	} {
		var got []string
		for _, tick := range (evenTicks{}).Ticks(0, c.most) {
			got = append(got, tick.Label)
		}
		require.Equal(t, c.want, got)
	}
}
