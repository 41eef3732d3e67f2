package bench

import "slices"

// group is one kind of work: what is measured, by whom, and with how much data.
type group struct {
	kind    string
	engines []string
	// fill is the task that writes the directory which the work begins with; empty: it
	// begins with none. Neighbours with the same one share what it wrote.
	fill string
	size func(*Config) (series, samples int)
	// slow: VictoriaMetrics takes so long for it that it has one run only.
	slow bool
}

var (
	everybody = []string{Ours, Reference, Victoria}
	files     = []string{Ours, Reference} // engines with the same files
	alone     = []string{Ours}
)

// plan is all groups in the order in which they run.
var plan = []group{
	{"append", everybody, "", (*Config).hot, false},
	{"appendbatch", files, "", (*Config).hot, false},
	{"create", everybody, "", (*Config).fresh, true},
	{"churn", everybody, "", (*Config).churned, true},
	{"log", files, "", (*Config).hot, false},
	{"sync", alone, "", (*Config).hot, false},
	{"latency", everybody, "", (*Config).busy, true},
	{"queries", files, "", (*Config).queried, false},
	{"replay", files, "killed", (*Config).logged, false},
	{"reopen", everybody, "killed", (*Config).logged, false},
	{"limited", files, "killed", (*Config).logged, false},
	{"warmup", files, "killed", (*Config).logged, false},
	{"warmuplog", files, "killed", (*Config).logged, false},
	{"memory", files, "fill", (*Config).remembered, false},
	{"select", files, "fill", (*Config).selected, false},
	{"matchers", files, "fill", (*Config).selected, false},
	{"decode", files, "", (*Config).hot, false},
	{"flush", files, "", (*Config).block, false},
	{"blocks", everybody, "fillblocks", (*Config).block, false},
	{"agg", files, "fillblocks", (*Config).block, false},
	{"index", files, "fillblocks", (*Config).block, false},
	{"merge", everybody, "fillmerge", (*Config).merged, false},
	{"backfill", files, "", (*Config).hot, false},
	{"remote", files, "fillremote", (*Config).remote, false},
	{"remotehead", files, "", (*Config).remote, false},
	{"write", files, "", (*Config).hot, false},
	{"send", files, "", (*Config).hot, false},
	{"late", files, "filllate", (*Config).late, false},
	{"values", everybody, "", (*Config).valued, true},
	{"real", everybody, "", (*Config).real, true},
	{histogramRow(5), files, "", func(c *Config) (int, int) { return c.histogramSeries(4) }, false},
	{histogramRow(20), files, "", func(c *Config) (int, int) { return c.histogramSeries(10) }, false},
	{histogramRow(160), files, "", func(c *Config) (int, int) { return c.histogramSeries(50) }, false},
	{"extremes", files, "", (*Config).hot, false},
	{"giant", alone, "", (*Config).longest, false},
	{"many", files, "", (*Config).databases, false},
	{"program", everybody, "", (*Config).hot, false},
}

// giantTimes is how much longer the longest series is than the one among the extremes.
const giantTimes = 10

// Groups are the names for Config.Only, in the order in which they run.
var Groups = func() (names []string) {
	for _, g := range plan {
		names = append(names, g.kind)
	}
	return names
}()

// groupOf returns the group of one kind of work.
func groupOf(kind string) group {
	return plan[slices.IndexFunc(plan, func(g group) bool { return g.kind == kind })]
}

func (c *Config) hot() (series, samples int)        { return c.Series, c.Samples }
func (c *Config) longest() (series, samples int)    { return c.Series, giantTimes * c.Samples }
func (c *Config) fresh() (series, samples int)      { return c.New, c.Few }
func (c *Config) logged() (series, samples int)     { return c.Series, c.Logged }
func (c *Config) remembered() (series, samples int) { return c.Many, c.Few }
func (c *Config) selected() (series, samples int)   { return c.Many, c.Chunks }
func (c *Config) block() (series, samples int)      { return c.Blocks, c.Points }
func (c *Config) merged() (series, samples int)     { return (c.Blocks + 1) / 2, c.Points }
func (c *Config) remote() (series, samples int)     { return (c.Blocks + 9) / 10, c.Points }
func (c *Config) busy() (series, samples int) {
	return c.Blocks, min(c.Points, busyPoints) * busyRanges
}
func (c *Config) queried() (series, samples int) {
	return c.Blocks, min(c.Points, queriedPoints) * busyRanges
}
func (c *Config) churned() (series, samples int) { return c.Series, min(c.Samples, churnScrapes) }
func (c *Config) valued() (series, samples int)  { return (c.Series + 4) / 5, c.Points }
func (c *Config) real() (series, samples int)    { return realSeries, min(c.Points, realSamples) }

// task is the work of a group with the sizes that are configured for it.
func (c *Config) task(kind string) task {
	g := groupOf(kind)
	t := task{Kind: kind, Time: c.Time}
	t.Series, t.Samples = g.size(c)
	return t
}
