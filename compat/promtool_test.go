package compat

import (
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// promtool runs the reference's tool on a data directory and requires that it neither
// fails nor complains, and that it leaves the directory as it was.
func promtool(t testing.TB, dir string, args ...string) string {
	t.Helper()
	before := listing(t, dir)
	cmd := exec.Command(promtoolProgram.build(t), append([]string{"tsdb"}, args...)...)
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	require.NoError(t, cmd.Run(), "promtool tsdb %s: %s", strings.Join(args, " "), &complaints)
	require.Empty(t, complaints.String(), "promtool tsdb %s complains", strings.Join(args, " "))
	require.Equal(t, before, listing(t, dir), "promtool tsdb %s changed the directory", strings.Join(args, " "))
	return out.String()
}

// listedBlock is a line of promtool tsdb list.
type listedBlock struct {
	ULID                    string
	MinTime, MaxTime        int64 // half-open
	Duration                time.Duration
	Samples, Chunks, Series int
	Size                    int64 // bytes
}

// promtoolList returns the blocks of a directory by time.
func promtoolList(t testing.TB, dir string) []listedBlock {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(promtool(t, dir, "list", dir)), "\n")
	require.Regexp(t, `^BLOCK ULID +MIN TIME +MAX TIME +DURATION +NUM SAMPLES +NUM CHUNKS +NUM SERIES +SIZE$`, strings.TrimSpace(lines[0]))
	var blocks []listedBlock
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		require.Len(t, fields, 8, line)
		number := func(i int) int64 {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			require.NoError(t, err, line)
			return n
		}
		duration, err := time.ParseDuration(fields[3])
		require.NoError(t, err, line)
		blocks = append(blocks, listedBlock{
			ULID: fields[0], MinTime: number(1), MaxTime: number(2), Duration: duration,
			Samples: int(number(4)), Chunks: int(number(5)), Series: int(number(6)), Size: number(7),
		})
	}
	return blocks
}

// analysis is what promtool tsdb analyze says of one block.
type analysis struct {
	block                              string
	series, names, pairs, pairsOfAll   int
	commonPairs, valuesOf, seriesNamed map[string]int // by pair, by label name, by metric name
}

var analyzeSection = regexp.MustCompile(`^[A-Z].*:$`)

// promtoolAnalyze returns what the index of a block has, as the reference counts it.
func promtoolAnalyze(t testing.TB, dir, block string) analysis {
	t.Helper()
	out := promtool(t, dir, "analyze", "--limit=1000000", dir, block)
	a := analysis{commonPairs: map[string]int{}, valuesOf: map[string]int{}, seriesNamed: map[string]int{}}
	lists := map[string]map[string]int{
		"Most common label pairs:": a.commonPairs, "Highest cardinality labels:": a.valuesOf, "Highest cardinality metric names:": a.seriesNamed,
	}
	counts := map[string]*int{
		"Total Series": &a.series, "Label names": &a.names, "Postings (unique label pairs)": &a.pairs, "Postings entries (total label pairs)": &a.pairsOfAll,
	}
	var list map[string]int
	inList := false
	for line := range strings.SplitSeq(out, "\n") {
		if analyzeSection.MatchString(line) {
			list, inList = lists[line], true
			continue
		}
		if inList {
			// Label values may have line breaks; what does not begin with a number is the rest of
			// one.
			text, name, ok := strings.Cut(line, " ")
			if n, err := strconv.Atoi(text); ok && err == nil && list != nil {
				list[name] = n
			}
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		if key == "Block ID" {
			a.block = value
		} else if into := counts[key]; into != nil {
			n, err := strconv.Atoi(value)
			require.NoError(t, err, line)
			*into = n
		}
	}
	require.Equal(t, block, a.block)
	return a
}

// promtoolDump returns all samples of a directory, as far as text can carry them: one
// NaN is like another, see point.text.
func promtoolDump(t testing.TB, dir string, flags ...string) data {
	t.Helper()
	out := promtool(t, dir, append(append([]string{"dump", "--sandbox-dir-root=" + t.TempDir()}, flags...), dir)...)
	all := data{}
	keys := map[string]string{}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		end := strings.LastIndex(line, "} ")
		require.Positive(t, end, line)
		set := line[:end+1]
		key, ok := keys[set]
		if !ok {
			key = keyOfText(t, set)
			keys[set] = key
		}
		value, at, ok := strings.Cut(line[end+2:], " ")
		require.True(t, ok, line)
		v, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err, line)
		ts, err := strconv.ParseInt(at, 10, 64)
		require.NoError(t, err, line)
		all[key] = append(all[key], point{ts, math.Float64bits(v)}.text())
	}
	return all
}

// keyOfText is the key of a series that is written as {a="b", "odd name"="c"}.
func keyOfText(t testing.TB, set string) string {
	t.Helper()
	var b strings.Builder
	rest := strings.TrimPrefix(set, "{")
	for rest != "}" {
		name, after, ok := strings.Cut(rest, "=")
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			require.NoError(t, err, set)
			name, err = strconv.Unquote(quoted)
			require.NoError(t, err, set)
			after, ok = strings.CutPrefix(rest[len(quoted):], "=")
		}
		require.True(t, ok, set)
		quoted, err := strconv.QuotedPrefix(after)
		require.NoError(t, err, set)
		value, err := strconv.Unquote(quoted)
		require.NoError(t, err, set)
		writePair(&b, name, value)
		rest = strings.TrimPrefix(after[len(quoted):], ", ")
	}
	return b.String()
}

// text is a point as text carries it.
func (p point) text() point {
	if math.IsNaN(math.Float64frombits(p.V)) {
		p.V = math.Float64bits(math.NaN())
	}
	return p
}

// changed is d with another point for each.
func (d data) changed(f func(point) point) data {
	all := data{}
	for key, ps := range d {
		for _, p := range ps {
			all[key] = append(all[key], f(p))
		}
	}
	return all
}
