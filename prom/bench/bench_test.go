package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
	return Config{Series: 100, Samples: 20, Logged: 20, New: 60, Many: 200, Few: 15, Chunks: 20, Blocks: 200, Points: 20, Runs: 2, Time: time.Millisecond}
}

// inProcess does tasks here, but for those that must end their process.
func inProcess(ctx context.Context, t task) (measures, error) {
	if t.Kind == "killed" || t.Kind == "filllate" || t.Kind == "grow" {
		return t.runInChild(ctx)
	}
	return t.run()
}

// Every group gives its rows for each engine that takes part; those that read found the same
// series and values; no data is left behind.
func TestCompare_AllGroups_GiveEveryRow(t *testing.T) {
	c := tiny()
	c.Dir = t.TempDir()
	if testing.Short() { // the go command takes long to build big programs
		c.Runs = 1
		c.Only = slices.DeleteFunc(slices.Clone(Groups), func(name string) bool { return name == "program" })
	}
	rep, err := compare(t.Context(), c, inProcess)
	require.NoError(t, err)
	var names []string
	for _, r := range rep.Rows {
		names = append(names, r.Name)
		kind, _, _ := strings.Cut(r.Name, "/")
		runs := (&comparison{Config: c}).runs(groupOf(kind))
		if mayBeUnknown(r.Name) {
			require.LessOrEqual(t, len(r.Ours), runs, r.Name)
		} else {
			require.Len(t, r.Ours, runs, r.Name)
		}
		for engine, values := range map[string][]float64{Reference: r.Reference, Victoria: r.Victoria} {
			if len(values) > 0 && !mayBeUnknown(r.Name) {
				require.Contains(t, groupOf(kind).engines, engine, r.Name)
				require.True(t, len(values) == runs || engine == Victoria && groupOf(kind).slow, r.Name)
			}
		}
		require.NotEmpty(t, r.Work)
	}
	var want []string
	for _, f := range (&comparison{Config: tiny()}).figures() {
		if !testing.Short() || !strings.HasPrefix(f.name, "program/") {
			want = append(want, f.name)
		}
	}
	require.Equal(t, want, names)
	left, err := os.ReadDir(c.Dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// mayBeUnknown: with so little data no garbage is collected, and a compaction is over at once.
func mayBeUnknown(row string) bool {
	return strings.HasSuffix(row, "/gc") || strings.HasPrefix(row, "queries/") && !strings.HasSuffix(row, "/p50") && !strings.HasSuffix(row, "/p99")
}

// Every goal is about an engine that is measured.
func TestFigures_GoalsCanBeReached(t *testing.T) {
	for _, f := range (&comparison{Config: tiny()}).figures() {
		kind, _, _ := strings.Cut(f.name, "/")
		engines := groupOf(kind).engines
		require.True(t, f.goal.Reference == 0 || slices.Contains(engines, Reference), f.name)
		require.True(t, f.goal.Victoria == 0 || slices.Contains(engines, Victoria), f.name)
	}
}

// A curve has a point for each number of series, and can be drawn and written down.
func TestCompare_Curves_HavePointsAndAreDrawn(t *testing.T) {
	c := tiny()
	c.Dir, c.Curve, c.Selected = t.TempDir(), []int{40, 80}, []int{40, 80}
	cmp := &comparison{Config: c, dir: c.Dir, fork: inProcess}
	curves, err := cmp.curves(t.Context())
	require.NoError(t, err)
	require.Len(t, curves, len(curveFigures)+len(remoteCurveFigures))
	for _, curve := range curves {
		for _, line := range curve.Lines {
			require.Len(t, line.Points, 2, curve.Name)
			require.Equal(t, 80, line.Points[1].Series)
			require.GreaterOrEqual(t, line.Points[1].Value, 0.0, curve.Name)
		}
		svg, err := curve.SVG()
		require.NoError(t, err)
		require.Contains(t, string(svg), curve.Title)
		require.Contains(t, string(svg), "reference")
	}
}

// A point of a curve is the median of as many runs as rows have, and not the same line begins in
// each.
func TestCompare_Curves_AreMediansOfRunsInTurns(t *testing.T) {
	c := tiny()
	c.Runs, c.Curve, c.Selected = 3, []int{40, 80}, nil
	runs, asked := map[task]int{}, []task(nil)
	cmp := &comparison{Config: c, dir: t.TempDir(), fork: func(_ context.Context, made task) (measures, error) {
		if made.Kind != "grow" {
			return measures{}, nil
		}
		runs[made]++
		asked = append(asked, made)
		return measures{"create": float64([]int{900, 1, 5}[runs[made]-1] * made.Series)}, nil
	}}
	curves, err := cmp.curves(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(runs)*c.Runs, len(asked))
	perRun := len(asked) / c.Runs
	require.NotEqual(t, asked[0], asked[perRun])
	require.Equal(t, asked[0].Series, asked[perRun].Series)
	require.Equal(t, "create", curves[2].Name)
	for _, line := range curves[2].Lines {
		require.Equal(t, []Point{{40, 5 * 40}, {80, 5 * 80}}, line.Points, line)
	}
}

// The page keeps what people wrote, and gets numbers, results and charts.
func TestReport_WriteDocs_ReplacesItsPart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs")
	require.NoError(t, os.Mkdir(dir, 0o777))
	readme := filepath.Join(dir, "..", "README.md")
	require.NoError(t, os.WriteFile(readme, []byte("Read\n"+pageBegin+pageEnd+"me\n"), 0o666))
	page := filepath.Join(dir, "bench.md")
	rep := Report{Date: "2000-01-01", System: "somewhere",
		Rows:   []Row{{Name: "flush/cpu", Date: "2000-01-01", Load: -1, Work: "work", Unit: "s", Worse: true, Ours: []float64{0.5}, Goal: Goal{Bound: 1}}},
		Curves: []Curve{{Name: "c", Title: "A curve", Unit: "s", Lines: []Line{{Ours, 1, []Point{{10, 1}, {100, 2}}}}}},
	}
	require.NoError(t, os.WriteFile(page, []byte("# Words\n"), 0o666))
	require.ErrorContains(t, rep.WriteDocs(dir), "has no part")
	require.NoError(t, os.WriteFile(page, []byte("# Words\n"+pageBegin+"\nold\n"+pageEnd+"\nmore\n"), 0o666))
	for range 2 { // the second time changes nothing
		require.NoError(t, rep.WriteDocs(dir))
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(text), "# Words\n"+pageBegin))
		require.True(t, strings.HasSuffix(string(text), pageEnd+"\nmore\n"))
		require.NotContains(t, string(text), "old")
		require.Contains(t, string(text), "1 of 1 goals are reached.")
		require.Contains(t, string(text), "| 100 | 2.00 |")
	}
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	require.Contains(t, string(text), "| work | s | 500 m | - | - | - | <= 1.00 PASS |")
	require.True(t, strings.HasSuffix(string(text), pageEnd+"me\n"))
	svg, err := os.ReadFile(filepath.Join(dir, "bench", "c.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "A curve")
	results, err := os.ReadFile(filepath.Join(dir, "bench", "results.json"))
	require.NoError(t, err)
	var again Report
	require.NoError(t, json.Unmarshal(results, &again))
	require.Equal(t, rep, again)

	// Another run of some rows keeps the others, and the curves, and says so.
	next := Report{Date: "2000-01-02", System: "somewhere", Rows: []Row{
		{Name: "append/cpu", Date: "2000-01-02", Load: -1, Work: "more work", Unit: "s", Ours: []float64{1}}}}
	require.NoError(t, next.WriteDocs(dir))
	text, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "Of 2000-01-01: flush.")
	require.Contains(t, string(text), "| 100 | 2.00 |")
	require.Less(t, strings.Index(string(text), "| more work |"), strings.LastIndex(string(text), "| work |"))
}

// Every row that there is has figures in the published results.
func TestResults_HaveEveryRow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "bench", "results.json"))
	require.NoError(t, err)
	var published Report
	require.NoError(t, json.Unmarshal(text, &published))
	var names []string
	for _, row := range published.Rows {
		require.NotEmpty(t, row.Ours, row.Name)
		names = append(names, row.Name)
	}
	for _, f := range (&comparison{Config: DefaultConfig()}).figures() {
		require.Contains(t, names, f.name, "measure it with compare --only %s --docs ../../docs", groupName(f.name))
	}
}

// Who stops a comparison gets what was measured, be it among the rows or the curves.
func TestCompare_Interrupted_TellsWhatItHas(t *testing.T) {
	for _, at := range []string{"memory", "grow"} {
		c := tiny()
		c.Dir, c.Only, c.Curve = t.TempDir(), []string{"log", "memory", onlyCurves}, []int{40}
		ctx, cancel := context.WithCancel(t.Context())
		rep, err := compare(ctx, c, func(ctx context.Context, t task) (measures, error) {
			if t.Kind == at {
				cancel()
				return nil, ctx.Err()
			}
			return t.run()
		})
		require.NoError(t, err)
		require.True(t, rep.Interrupted)
		require.Contains(t, rep.String(), "interrupted")
		require.GreaterOrEqual(t, len(rep.Rows), len(loggedCommits))
		require.Equal(t, at == "grow", len(rep.Rows) > len(loggedCommits))
		require.Empty(t, rep.Curves)
		left, err := os.ReadDir(c.Dir)
		require.NoError(t, err)
		require.Empty(t, left)
	}
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
				if s.how.samples() {
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
	r := Row{Ours: []float64{1, 10, 2}, Worse: true}
	require.Equal(t, Ratio{3, []float64{3, 3, 4}}, r.ratio([]float64{3, 30, 8}))
	r.Worse = false
	require.InDelta(t, 1.0/3, r.ratio([]float64{3, 30, 8}).Times, 1e-9)
	require.Zero(t, Row{Ours: []float64{1}}.ratio([]float64{0}).Times)
	require.Zero(t, Row{Ours: []float64{1}}.ratio(nil).Times)
	require.InDelta(t, 4.5, spread([]float64{1, 10, 2}), 1e-9)
	require.InDelta(t, 2.5, median([]float64{4, 1, 3, 2}), 1e-9)
}

// A row reaches its goal when all parts of it are there.
func TestRow_Reached_AsksForAll(t *testing.T) {
	r := Row{Worse: true, Ours: []float64{5}, Ratio: Ratio{Times: 2}, RatioVictoria: Ratio{Times: 1.5}}
	require.False(t, r.HasGoal())
	for goal, want := range map[Goal]bool{
		{Reference: 2}: true, {Reference: 2.01}: false, {Victoria: 1.5}: true, {Victoria: 1.6}: false,
		{Bound: 5}: true, {Bound: 4.9}: false, {Reference: 2, Victoria: 1.6}: false, {Reference: 1, Bound: 4}: false,
	} {
		r.Goal = goal
		require.True(t, r.HasGoal())
		require.Equal(t, want, r.Reached(), goal)
	}
	r = Row{Ours: []float64{5}, Goal: Goal{Bound: 5}}
	require.True(t, r.Reached())
	r.Goal.Bound = 5.1
	require.False(t, r.Reached())
}

func TestReport_IsWrittenInEveryFormat(t *testing.T) {
	rep := Report{Date: "2000-01-01", System: "somewhere", Rows: []Row{
		{Name: "a/b", Work: "work", Unit: "s", Worse: true, Ours: []float64{0.5}, Reference: []float64{1}, Victoria: []float64{2}, Ratio: Ratio{Times: 2}, RatioVictoria: Ratio{Times: 4}, Goal: Goal{Reference: 1.5, Victoria: 3}},
		{Name: "a/c", Work: "work", Unit: "B", Worse: true, Ours: []float64{1234567}},
		{Name: "d/e", Work: "more", Unit: "s", Worse: true, Ours: []float64{0.002}, Reference: []float64{0.001}, Ratio: Ratio{Times: 0.5}, Goal: Goal{Reference: 1.5}},
	}}
	require.Equal(t, []string{"d/e"}, rep.Missed())
	require.Contains(t, rep.String(), "one run")
	require.Contains(t, Report{Rows: []Row{{Ours: make([]float64, 2)}, {Ours: make([]float64, 5)}}}.String(), "2 to 5 runs")
	text := map[string]string{}
	for _, format := range []string{"table", "markdown", "json"} {
		var b bytes.Buffer
		require.NoError(t, rep.Write(&b, format))
		text[format] = b.String()
	}
	require.Contains(t, text["table"], "1.50xP 3.00xVM PASS")
	require.Contains(t, text["table"], "1 of 2 goals are reached; short: d/e.")
	require.Equal(t, 1, strings.Count(text["table"], "work"))
	require.Contains(t, text["markdown"], "| work | s | 500 m | 1.00 | 2.00 | 2.00 | 4.00 | 1.50xP 3.00xVM PASS | 0 0 0 |\n|  | B | 1.23 M | - | - | - | - | - | 0 |")
	require.Contains(t, text["markdown"], "| more | s | 2.00 m | 1.00 m | - | 0.50 | - | **1.50xP SHORT** |")
	var again Report
	require.NoError(t, json.Unmarshal([]byte(text["json"]), &again))
	require.Equal(t, rep, again)
	require.ErrorContains(t, rep.Write(&bytes.Buffer{}, "poem"), `"poem"`)
}

// A table fits a terminal, whatever is in it.
func TestReport_Table_FitsATerminal(t *testing.T) {
	c := DefaultConfig()
	var rep Report
	for _, f := range (&comparison{Config: c}).figures() {
		many := []float64{123456, 987654}
		rep.Rows = append(rep.Rows, Row{Name: f.name, Work: f.work, Unit: f.unit, Ours: many, Reference: many, Victoria: many, Ratio: Ratio{Times: 123}, RatioVictoria: Ratio{Times: 123}, Goal: f.goal})
	}
	var b bytes.Buffer
	require.NoError(t, rep.Write(&b, "table"))
	for line := range strings.Lines(b.String()) {
		require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), terminalWidth, line)
	}
}

func TestNumber_HasThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1.00", 999: "999", 999.9: "1.00 k", 12345: "12.3 k", 0.0456: "45.6 m", 1.5e-6: "1.50 µ", 2.5e-8: "25.0 n", 5e6: "5.00 M", 2e9: "2.00 G"} {
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

// Benchmark does each kind of work once an iteration, the engines in turns, and reports the
// figures of the last one under their names in the table.
func Benchmark(b *testing.B) {
	c := QuickConfig()
	if testing.Short() {
		c = tiny()
	}
	cmp := &comparison{Config: c}
	for _, g := range plan {
		for _, engine := range g.engines {
			b.Run(g.kind+"/"+engine, func(b *testing.B) {
				b.ReportMetric(0, "ns/op") // the whole work with its preparation: of no use
				for range b.N {
					t := cmp.task(g.kind)
					t.Engine, t.Dir = engine, filepath.Join(b.TempDir(), "data")
					if g.fill != "" {
						f := t
						f.Kind = g.fill
						m, err := inProcess(b.Context(), f)
						require.NoError(b, err)
						t.Peak, t.Own = m["peak"], m["own"]
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
