package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// forms are what dump and query write that has samples, and the names of files under which it
// is imported again. No flag says what it is.
var forms = map[string]struct {
	args []string // %s is the database
	file string
}{
	"dump":             {[]string{"dump", "%s"}, "a.txt"},
	"dump, named csv":  {[]string{"dump", "%s"}, "a.csv"},
	"dump json":        {[]string{"dump", "%s", "-o", "json"}, "a.prom"},
	"query json":       {[]string{"query", "%s", "{}", "-o", "json"}, "a.json"},
	"query jsonl":      {[]string{"query", "%s", "{}", "-o", "jsonl"}, "a.om"},
	"query csv":        {[]string{"query", "%s", "{}", "-o", "csv"}, "a.csv"},
	"query csv, no .":  {[]string{"query", "%s", "{}", "-o", "csv"}, "a"},
	"query csv, named": {[]string{"query", "%s", "{}", "-o", "csv"}, "a.tsv"},
}

// oddTexts are names and values of labels that some form could take for something else.
var oddTexts = []string{
	"value", "timestamp_ms", "time", "timestamp", "_time", "_value", "_field", "_measurement", "label:", "label:value", "label:label:x",
	"a b", "a\nb", "a\r\nb", "\r\n", "\n", "\r", `back\slash`, `q"uote`, `""`, `"`, "tab\tx", "é", "日本", "{}", "x,y=z", "#", "# EOF", "\n# EOF\n",
	"#datatype", " lead", "trail ", "\u2028", "\x00", "\x7f", "\u200b", "😀", `\n`, "'", "`", "%", ";", "\ufeff", "\ufffd", "NaN", "null", `\.`, ",", "labels", "series", "0", "-",
}

// oddValues are values of which a text loses something.
var oddValues = []float64{
	1, staleMarker, math.NaN(), math.Float64frombits(0x7ff8000000000abc), math.Float64frombits(0xffffffffffffffff), math.Copysign(0, -1), 0,
	math.Inf(1), math.Inf(-1), 5e-324, -math.MaxFloat64, 0.1, 1e21, 123456789012345678, 1.0 / 3,
}

// oddTimes are of either sign, and at the ends of what there is.
var oddTimes = []int64{math.MinInt64 + 1, -62135596800001, -1, 0, 1, 1700000000, 1700000000123, math.MaxInt64 - 1}

// stored reads a database: the bits of each sample, by labels.
func stored(t *testing.T, dir string) map[string][]string {
	t.Helper()
	r, err := tsdb.OpenReadOnly(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all := map[string][]string{}
	samples := newSamples(0)
	for s, err := range q.Select(context.Background(), nil).All() {
		require.NoError(t, err)
		key := s.Labels().String()
		require.NoError(t, samples.each(context.Background(), s, floatsOnly(func(ts []int64, vs []float64) error {
			for i := range ts {
				all[key] = append(all[key], fmt.Sprintf("%d %016x", ts[i], math.Float64bits(vs[i])))
			}
			return nil
		})))
	}
	return all
}

// oddDatabase makes a database of blocks with series and samples that are hard to carry.
func oddDatabase(t *testing.T, r *rand.Rand) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "odd")
	w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{OnDuplicate: tsdb.DuplicatesFirst, MaxRange: 87600 * time.Hour})
	require.NoError(t, err)
	text := func() string {
		if r.IntN(4) > 0 {
			return oddTexts[r.IntN(len(oddTexts))]
		}
		b := make([]rune, 1+r.IntN(5))
		for i := range b {
			if b[i] = rune(r.IntN(1 << r.IntN(21))); !utf8.ValidRune(b[i]) {
				b[i] = 'x'
			}
		}
		return string(b)
	}
	for range 60 {
		var b labels.Builder
		if r.IntN(3) > 0 {
			b.Set(labels.MetricName, text())
		}
		for range r.IntN(4) {
			b.Set(text(), text())
		}
		ls := b.Labels()
		if ls.IsEmpty() {
			continue
		}
		for range 1 + r.IntN(8) {
			at, v := oddTimes[r.IntN(len(oddTimes))], oddValues[r.IntN(len(oddValues))]
			if r.IntN(2) == 0 {
				at, v = r.Int64N(4e12)-2e12, math.Float64frombits(r.Uint64())
			}
			require.NoError(t, w.Append(ls, at, v))
		}
	}
	_, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return dir
}

// transfer writes a database in a form, imports it into another one, and returns that.
func transfer(t *testing.T, from string, args []string, file string) string {
	t.Helper()
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "%s", from)
	}
	c := newTestConsole()
	require.Equal(t, exitOK, execute(context.Background(), args, &c.console), c.stderr.String())
	dir := t.TempDir()
	file = filepath.Join(dir, file)
	require.NoError(t, os.WriteFile(file, c.stdout.Bytes(), 0o600))
	c = newTestConsole()
	args = []string{"import", "--allow-future", "-q", "--max-block-duration=87600h", file, filepath.Join(dir, "db")}
	require.Equal(t, exitOK, execute(context.Background(), args, &c.console), c.stderr.String())
	return filepath.Join(dir, "db")
}

// What dump and query write, import reads back bit for bit: labels of any text, series without
// a name, values of any bits, times of either sign, whatever the file is called.
func TestImport_WhatDumpAndQueryWrite_ComesBackBitForBit(t *testing.T) {
	seeds := uint64(2)
	if !sweep.Whole() {
		seeds = 1
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 21))
		from := oddDatabase(t, r)
		want := stored(t, from)
		require.Greater(t, len(want), 40)
		for name, form := range forms {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				require.Equal(t, want, stored(t, transfer(t, from, form.args, form.file)))
			})
		}
	}
}

// Each odd text alone in a table, as the name and as the value of a label, without a name of
// the metric: the columns of a table depend on all its series.
func TestImport_OneOddSeriesInATable_ComesBackBitForBit(t *testing.T) {
	for n, text := range oddTexts {
		dir := filepath.Join(t.TempDir(), "odd")
		w, err := tsdb.NewBlockWriter(dir, nil)
		require.NoError(t, err)
		require.NoError(t, w.Append(labels.FromStrings(text, text), 1700000000, oddValues[n%len(oddValues)]))
		_, err = w.Flush(context.Background())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		want := stored(t, dir)
		form := forms["query csv"]
		require.Equal(t, want, stored(t, transfer(t, dir, form.args, form.file)), "%q", text)
	}
}
