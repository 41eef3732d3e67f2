package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	RunChild()
	os.Exit(m.Run())
}

// tiny is enough to see that every row is there; the figures mean nothing.
func tiny() Config {
	return Config{Series: 50, Samples: 20, Many: 200, Few: 15, Chunks: 20, Blocks: 200, Points: 20, Runs: 2, Time: time.Millisecond}
}

func inProcess(_ context.Context, t task) (measures, error) { return t.run() }

// Every group gives its rows for both engines, which read the same series and values;
// no data is left behind.
func TestCompare_AllGroups_GiveEveryRow(t *testing.T) {
	c := tiny()
	c.Dir = t.TempDir()
	rep, err := compare(t.Context(), c, inProcess)
	require.NoError(t, err)
	var names []string
	for _, r := range rep.Rows {
		names = append(names, r.Name)
		require.Len(t, r.Ours, c.Runs, r.Name)
		require.Len(t, r.Reference, c.Runs, r.Name)
		require.NotEmpty(t, r.Work)
	}
	var want []string
	for _, f := range (&comparison{Config: tiny()}).figures() {
		want = append(want, f.name)
	}
	require.Equal(t, want, names)
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A child process gives the same figures as this one.
func TestCompare_InProcessesOfTheirOwn_GivesTheRows(t *testing.T) {
	c := tiny()
	c.Dir, c.Only, c.Runs = t.TempDir(), []string{"memory"}, 1
	rep, err := Compare(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, rep.Rows, 2)
	require.Equal(t, "memory/heap", rep.Rows[0].Name)
	require.Greater(t, rep.Rows[0].Ours[0], 100.0, "bytes of a series")
	require.Greater(t, rep.Rows[0].Reference[0], 100.0)
}

// A replay that does not bring every sample back is no result.
func TestReplay_SamplesMissing_IsAnError(t *testing.T) {
	for _, engine := range []string{Ours, Reference} {
		dir := t.TempDir()
		_, err := task{Kind: "fill", Engine: engine, Dir: dir, Series: 10, Samples: 19}.run()
		require.NoError(t, err)
		_, err = task{Kind: "replay", Engine: engine, Dir: dir, Series: 10, Samples: 20}.run()
		require.ErrorContains(t, err, "recovered")
		_, err = task{Kind: "replay", Engine: engine, Dir: dir, Series: 10, Samples: 19}.run()
		require.NoError(t, err)
	}
}

// Both engines write the same data: the log of one gives the samples of the other.
func TestEngines_ReadTheSame(t *testing.T) {
	var found []result
	for _, engine := range []string{Ours, Reference} {
		dir := filepath.Join(t.TempDir(), "data")
		task := task{Kind: "fill", Engine: engine, Dir: dir, Series: 400, Samples: 130}
		_, err := task.run()
		require.NoError(t, err)
		for _, reader := range []string{Ours, Reference} {
			e, err := open(reader, dir)
			require.NoError(t, err)
			for _, s := range selections(400, 130) {
				if s.how != readLabels {
					res, err := e.read(s.query)
					require.NoError(t, err)
					found = append(found, res)
				}
			}
			require.NoError(t, e.close())
		}
	}
	perReader := len(found) / 4
	for i, res := range found {
		require.Equal(t, found[i%perReader], res)
		require.Equal(t, res.series*130, res.samples)
		require.NotZero(t, res.series)
	}
}

func TestCompare_NonsenseConfig_IsRefused(t *testing.T) {
	c := tiny()
	c.Only = []string{"replay", "speed"}
	_, err := compare(t.Context(), c, inProcess)
	require.ErrorContains(t, err, `"speed"`)
	c = tiny()
	c.Runs = 0
	_, err = compare(t.Context(), c, inProcess)
	require.Error(t, err)
}

func TestRatio_IsThatOfNeighboursAndMoreIsBetter(t *testing.T) {
	r := Row{Ours: []float64{1, 10, 2}, Reference: []float64{3, 30, 8}, Worse: true}
	require.InDelta(t, 3, ratio(r), 1e-9)
	r.Worse = false
	require.InDelta(t, 1.0/3, ratio(r), 1e-9)
	require.Zero(t, ratio(Row{Ours: []float64{1}, Reference: []float64{0}}))
	require.InDelta(t, 4.5, spread([]float64{1, 10, 2}), 1e-9)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 1e-9)
}

func TestReport_IsWrittenInEveryFormat(t *testing.T) {
	rep := Report{Date: "2000-01-01", System: "somewhere", Runs: 1, Rows: []Row{
		{Name: "a/b", Work: "work", Unit: "s", Worse: true, Ours: []float64{0.5}, Reference: []float64{1}, Ratio: 2, Goal: 1.5},
		{Name: "a/c", Work: "work", Unit: "B", Worse: true, Ours: []float64{1234567}, Reference: []float64{0}},
		{Name: "d/e", Work: "more", Unit: "s", Worse: true, Ours: []float64{0.002}, Reference: []float64{0.001}, Ratio: 0.5, Goal: 1.5},
	}}
	require.Equal(t, []string{"d/e"}, rep.Missed())
	text := map[string]string{}
	for _, format := range []string{"table", "markdown", "json"} {
		var b bytes.Buffer
		require.NoError(t, rep.Write(&b, format))
		text[format] = b.String()
	}
	require.Contains(t, text["table"], "1.50, reached")
	require.Equal(t, 1, strings.Count(text["table"], "work"))
	require.Contains(t, text["markdown"], "| work | s | 500 m | 1.00 | 2.00 | 1.50, reached | 0%, 0% |\n|  | B | 1.23 M | 0 | - | - |")
	require.Contains(t, text["markdown"], "| more | s | 2.00 m | 1.00 m | 0.50 | 1.50, MISSED |")
	var again Report
	require.NoError(t, json.Unmarshal([]byte(text["json"]), &again))
	require.Equal(t, rep, again)
	require.ErrorContains(t, rep.Write(&bytes.Buffer{}, "poem"), `"poem"`)
}

func TestNumber_HasThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1.00", 999: "999", 999.9: "1.00 k", 12345: "12.3 k", 0.0456: "45.6 m", 1.5e-6: "1.50 µ", 5e6: "5.00 M", 2e9: "2.00 G"} {
		require.Equal(t, want, number(v))
	}
}

// Labels are what the documentation says: ten, sorted, 180 to 220 bytes.
func TestPairs_AreTenLabelsOfAbout200Bytes(t *testing.T) {
	for _, i := range []int{0, 1, 999, 50_000, 99_999, 999_999} {
		ps := pairs(i)
		require.Len(t, ps, 20)
		size := 0
		for k, s := range ps {
			size += len(s)
			if k >= 2 && k%2 == 0 {
				require.Greater(t, s, ps[k-2])
			}
		}
		require.GreaterOrEqual(t, size, 180, i)
		require.LessOrEqual(t, size, 220, i)
		require.Equal(t, "shard", ps[shardName])
	}
}

// Benchmark does each kind of work once an iteration, in this process, the engines in
// turns, and reports the figures of the last one under their names in the table.
func Benchmark(b *testing.B) {
	c := DefaultConfig()
	c.Samples, c.Many, c.Chunks, c.Blocks, c.Time = 300, 20_000, 60, 5_000, 100*time.Millisecond
	if testing.Short() {
		c = tiny()
	}
	cmp := &comparison{Config: c, dir: b.TempDir()}
	for _, kind := range Groups {
		for _, engine := range []string{Ours, Reference} {
			b.Run(kind+"/"+engine, func(b *testing.B) {
				b.ReportMetric(0, "ns/op") // the whole work with its preparation: of no use
				for range b.N {
					t := cmp.task(kind)
					t.Engine, t.Dir = engine, filepath.Join(b.TempDir(), "data")
					if fill := dataFor(kind); fill != "" {
						f := t
						f.Kind = fill
						_, err := f.run()
						require.NoError(b, err)
					}
					m, err := t.run()
					require.NoError(b, err)
					for _, f := range cmp.figures() {
						if v, ok := m[f.name]; ok {
							_, what, _ := strings.Cut(f.name, "/")
							b.ReportMetric(v, what+":"+strings.ReplaceAll(f.unit, " ", "-"))
						}
					}
				}
			})
		}
	}
}
