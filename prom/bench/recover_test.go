package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two databases whose writers are killed, opened in all ways. What was acknowledged is read back by
// Recover itself, or it fails.
func TestRecover_EveryWayAndDatabase_IsMeasured(t *testing.T) {
	c := RecoverConfig{Series: 150, Samples: []int{30, 9000}, Runs: 2, Dir: t.TempDir()}
	rep, err := Recover(t.Context(), c)
	if runtime.GOOS != "linux" {
		require.ErrorContains(t, err, "only on Linux")
		return
	}
	require.NoError(t, err)
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)

	require.Len(t, rep.Databases, 2)
	for i, d := range rep.Databases {
		require.Equal(t, 150, d.Series)
		require.GreaterOrEqual(t, d.Samples, 150*c.Samples[i])
		require.Len(t, d.Checked, 2)
		for _, n := range d.Checked {
			require.Equal(t, float64(d.Samples+150), n) // and the commit that the next process made
		}
		require.Greater(t, d.LogBytes, int64(0))
		require.Greater(t, d.Limit, 0.0)
		require.Greater(t, d.Own, 0.0)
		require.Greater(t, d.Peak, d.Own)
		require.Len(t, d.Opened, len(recoverWays))
		for k, o := range d.Opened {
			require.Equal(t, recoverWays[k].name, o.Way)
			require.Equal(t, recoverWays[k].limited, o.Limited)
			for _, figures := range [][]float64{o.CPU, o.Wall, o.Peak, o.Own} {
				require.Len(t, figures, 2)
				require.Greater(t, median(figures), 0.0, o.Way)
			}
		}
		require.Greater(t, median(d.Opened[2].Log), median(d.Opened[0].Log), "the log alone is all of it")
	}

	dir := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(dir, 0o777))
	page := filepath.Join(dir, "bench.md")
	require.NoError(t, os.WriteFile(page, []byte("# Words\n"+recoverBegin+"\nold\n"+recoverEnd+"\nmore\n"), 0o666))
	require.NoError(t, rep.WriteDocs(dir))
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| log alone, limited to ")
	require.NotContains(t, string(text), "old")
	require.True(t, strings.HasSuffix(string(text), recoverEnd+"\nmore\n"))
	results, err := os.ReadFile(filepath.Join(dir, "bench", "recovery.json"))
	require.NoError(t, err)
	var again RecoverReport
	require.NoError(t, json.Unmarshal(results, &again))
	require.Equal(t, rep.Databases, again.Databases)
	for _, format := range []string{"table", "markdown"} {
		var out bytes.Buffer
		require.NoError(t, rep.Write(&out, format))
		require.Equal(t, 2, strings.Count(strings.Join(strings.Fields(out.String()), " "), "acknowledged samples were read back, with what there was and by the log alone"), out.String())
	}
	require.Error(t, rep.Write(new(bytes.Buffer), "other"))
}

// What takes more than was promised, or more memory than the killed process had, is marked.
func TestRecoverReport_WhatFallsShort_IsMarked(t *testing.T) {
	marks := func(cpu, logBytes, peak float64) int {
		d := RecoverDatabase{Series: 1000, Samples: 1e6, Peak: 100, Own: 50, Limit: 40}
		for i := range recoverWays {
			d.note(i, measures{"cpu": cpu, "log": logBytes, "peak": peak})
		}
		var b bytes.Buffer
		require.NoError(t, RecoverReport{Databases: []RecoverDatabase{d}}.Write(&b, "markdown"))
		return strings.Count(b.String(), "SHORT")
	}
	require.Equal(t, 0, marks(0.125, 10<<20, 110)) // 1,000 series and 10 MiB: 25 ms and 100 ms
	require.Equal(t, 4, marks(0.126, 10<<20, 110))
	require.Equal(t, 4, marks(0.125, 10<<20, 111))
	require.Equal(t, 8, marks(0.125, 9<<20, 111))

	d := RecoverDatabase{Series: 1000, Samples: 1e6, Peak: 100, Own: 50, Limit: 40}
	for _, cpu := range []float64{0.1, 0.1, 0.2} {
		d.note(0, measures{"cpu": cpu, "log": 10 << 20, "peak": 1})
	}
	require.Contains(t, RecoverReport{Databases: []RecoverDatabase{{Series: 1000, Peak: 100, Opened: d.Opened[:1]}}}.lines()[0][4], "SHORT", "the worst run is judged")
}

func TestRecover_BadConfig_IsRefused(t *testing.T) {
	for _, c := range []RecoverConfig{{}, {Series: 1, Runs: 1}, {Series: 1, Runs: 1, Samples: []int{1, 0}}, {Series: 1, Samples: []int{1}}, {Runs: 1, Samples: []int{1}}} {
		_, err := Recover(t.Context(), c)
		require.ErrorContains(t, err, "at least 1")
	}
}

func TestRecover_WhoIsInterrupted_SaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := RecoverConfig{Series: 10, Samples: []int{1 << 30}, Runs: 1, Dir: t.TempDir(), Progress: func(string) { time.AfterFunc(200*time.Millisecond, cancel) }}
	_, err := Recover(ctx, c)
	if runtime.GOOS != "linux" {
		cancel()
		require.ErrorContains(t, err, "only on Linux")
		return
	}
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The process that writes ends although nobody kills it.
func TestRecoverWrite_LeftAlone_GivesUp(t *testing.T) {
	o := RecoverConfig{Series: 1000}.order(t.TempDir(), 1)
	_, err := recoverWrite(task{Sustain: &o, Samples: 1, Time: time.Millisecond})
	require.ErrorContains(t, err, "nobody killed this process")
}
