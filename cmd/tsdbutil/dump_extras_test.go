package main

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// extrasDatabase has series with texts of every sort in the labels of their exemplars and in their
// help.
func extrasDatabase(t *testing.T, seed uint64) string {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	a := db.Appender()
	a.AllowExemplarsWithoutLabels(true)
	const start = 1_700_000_000_000
	r := rand.New(rand.NewPCG(seed, 9))
	odd := func() string { return oddTexts[r.IntN(len(oddTexts))] }
	for _, name := range []string{"hits_total", "lat_seconds_bucket", "lat_seconds_sum", "a.b", "x:y_1_bytes"} {
		m := tsdb.Metadata{Type: tsdb.MetricType(r.IntN(8)), Help: "x" + odd() + "x"}
		for _, unit := range []string{"seconds", "bytes"} {
			if strings.HasSuffix(familyOf(name, m.Type), "_"+unit) {
				m.Unit = unit
			}
		}
		for _, code := range []string{"1", "2", "3"} {
			ls := labels.FromStrings("__name__", name, "code", code)
			if r.IntN(4) == 0 {
				m.Help = "y" + odd() + "y"
			}
			if r.IntN(3) > 0 {
				_, err := a.SetMetadata(0, ls, m)
				require.NoError(t, err)
			}
			for range 1 + r.IntN(9) {
				_, err := a.Append(0, ls, start+r.Int64N(60_000), oddValues[r.IntN(len(oddValues))])
				if err != nil {
					require.ErrorIs(t, err, tsdb.ErrOutOfOrder)
				}
			}
			for range r.IntN(9) {
				e := exemplar.Exemplar{Value: r.NormFloat64(), T: start + r.Int64N(80_000) - 10_000, HasT: true}
				if r.IntN(5) > 0 {
					e.Labels = labels.FromStrings(odd(), odd())
				}
				_, err := a.AppendExemplar(0, ls, e)
				require.NoError(t, err)
			}
		}
	}
	_, err = a.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return dir
}

// What is written of exemplars and metadata, and read by the import, is written again as it was.
func TestDump_OpenMetrics_ExemplarsAndMetadataAreWrittenAgain(t *testing.T) {
	dump := func(dir string) string {
		c := newTestConsole()
		require.Equal(t, exitOK, execute(t.Context(), []string{"dump", dir, "--format=openmetrics"}, &c.console), c.stderr.String())
		return c.stdout.String()
	}
	exemplars, helps := 0, 0
	for seed := range uint64(8) {
		want := dump(extrasDatabase(t, seed))
		exemplars += strings.Count(want, " # {")
		helps += strings.Count(want, "\n# HELP ")
		temp := t.TempDir()
		file, dir := filepath.Join(temp, "a"), filepath.Join(temp, "db")
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		c := newTestConsole()
		require.Equal(t, exitOK, execute(t.Context(), []string{"import", file, dir, "--extras"}, &c.console), c.stderr.String())
		require.Contains(t, c.stderr.String(), "gave the head")
		require.Equal(t, want, dump(dir))
	}
	require.Greater(t, exemplars, 100)
	require.Greater(t, helps, 40)
}

func TestCountExemplars(t *testing.T) {
	for text, want := range map[string]int64{
		`# {} 1`:                         1,
		`# {a="#"} 1 5`:                  1,
		`# {a="}#"} 1 5 # {b="c"} 1`:     2,
		`# {a="b"} 1 # {} 2 3 # {c="d"}`: 3,
		`# {a="b`:                        1,
		`# x`:                            1,
		`#`:                              1,
	} {
		require.Equal(t, want, countExemplars([]byte(text)), text)
	}
}
