package main

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/xhit/go-str2duration/v2"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// retentionCommand says what retention would take.
type retentionCommand struct {
	dir    string
	rules  []string
	rest   string
	dryRun bool
	output string
}

const retentionHelp = `Show what retention rules would take, and change nothing.

A rule is a selector and for how long its series are kept: --rule='{job="debug"}=7d'. The first rule that chooses a series decides about it; --retention is for those that none chooses. Durations are counted back from the newest sample, or the clock if that shows less; 0 has no limit. The database may be in use.

A row says in how many blocks a rule takes something, and how many series, samples and bytes of chunks. It is what would go at once, by writing blocks anew or removing them. Rules are applied by the program that opens the database, with Options.Blocks.RetentionRules; so --dry-run must be given.`

func (p *program) addRetention() {
	r := &retentionCommand{}
	cmd := p.app.Command("retention", retentionHelp)
	cmd.Arg("dir", "Data directory; data/ if none is named.").Default("data/").StringVar(&r.dir)
	cmd.Flag("rule", "A selector and a duration; may be repeated.").PlaceHolder("SELECTOR=DURATION").StringsVar(&r.rules)
	cmd.Flag("retention", "For how long series are kept that no rule chooses. Default: without limit.").PlaceHolder("DURATION").StringVar(&r.rest)
	cmd.Flag("dry-run", "Change nothing.").BoolVar(&r.dryRun)
	outputFlag(cmd, &r.output, "table", "json")
	p.add(cmd, r.run)
}

// retentionJSON is a RetentionPlan in JSON.
type retentionJSON struct {
	Newest    *int64          `json:"newest_time,omitempty"` // that durations are counted back from
	Removed   int             `json:"blocks_removed"`
	Rewritten int             `json:"blocks_rewritten"`
	Rules     []retentionRule `json:"rules"`
}

type retentionRule struct {
	Selector string  `json:"selector,omitempty"` // none: what no rule chooses
	Seconds  float64 `json:"duration_seconds"`   // 0: no limit
	Blocks   int     `json:"blocks"`
	Series   uint64  `json:"series"`
	Samples  uint64  `json:"samples"`
	Bytes    uint64  `json:"chunk_bytes"`
}

func (r *retentionCommand) run(ctx context.Context, c *console) error {
	if !r.dryRun {
		return usageError("retention: want --dry-run; the program that opens the database applies rules, with Options.Blocks.RetentionRules")
	}
	rules, rest, err := r.parse()
	if err != nil {
		return err
	}
	reader, err := c.openReader(r.dir)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	plan, err := reader.RetentionPlan(ctx, rules, rest)
	if err != nil {
		return err
	}
	list := make([]retentionRule, len(plan.Shares))
	for i, s := range plan.Shares {
		list[i] = retentionRule{Seconds: rest.Seconds(), Blocks: s.Blocks, Series: s.Series, Samples: s.Samples, Bytes: s.Bytes}
		if i < len(rules) {
			list[i].Selector, list[i].Seconds = labels.FormatSelector(rules[i].Matchers), rules[i].Duration.Seconds()
		}
	}
	if r.output == "json" {
		j := retentionJSON{Removed: plan.Removed, Rewritten: plan.Rewritten, Rules: list}
		if plan.NewestT != math.MinInt64 {
			j.Newest = &plan.NewestT
		}
		return c.printJSON(j)
	}
	return r.print(c, &plan, list)
}

// parse reads rules and the duration of the rest.
func (r *retentionCommand) parse() (rules []tsdb.RetentionRule, rest time.Duration, err error) {
	for _, text := range r.rules {
		at := strings.LastIndexByte(text, '=')
		if at < 0 || strings.HasSuffix(strings.TrimSpace(text), "}") {
			return nil, 0, usageError("--rule: " + strconv.Quote(text) + " has no duration: want a selector, = and a duration, as in {job=\"debug\"}=7d")
		}
		var rule tsdb.RetentionRule
		if rule.Matchers, err = parseSelector(text[:at]); err != nil {
			return nil, 0, err
		}
		if rule.Duration, err = parseKept("--rule", text[at+1:]); err != nil {
			return nil, 0, err
		}
		rules = append(rules, rule)
	}
	if r.rest != "" {
		rest, err = parseKept("--retention", r.rest)
	}
	if len(rules) == 0 && rest == 0 && err == nil {
		err = usageError("retention: want --rule, --retention, or both")
	}
	return rules, rest, err
}

// parseKept reads for how long something is kept.
func parseKept(flag, text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	d, err := str2duration.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, usageError(flag + ": cannot read the duration " + strconv.Quote(text) + ": want 30d, 1w12h, 90m, or 0 for no limit")
	}
	return d, nil
}

func (r *retentionCommand) print(c *console, plan *tsdb.RetentionPlan, list []retentionRule) error {
	var rows []table.Row
	for _, l := range list {
		selector, kept := l.Selector, "no limit"
		if selector == "" {
			selector = "(no rule)"
		}
		if l.Seconds > 0 {
			kept = formatDuration(time.Duration(l.Seconds * float64(time.Second)))
		}
		rows = append(rows, table.Row{kept, count(l.Blocks), count(l.Series), count(l.Samples), c.bytes(int64(l.Bytes)), selector})
	}
	if err := c.printTable(table.Row{"kept", "blocks", "series", "samples", "bytes", "rule"}, rows, 6, 2, 3, 4, 5); err != nil {
		return err
	}
	if plan.NewestT != math.MinInt64 {
		c.printf("Counted back from %s.\n", c.time(plan.NewestT, time.Now()))
	}
	c.printf("Blocks that would go: %d; that would be written anew without a part: %d.\n", plan.Removed, plan.Rewritten)
	return nil
}
