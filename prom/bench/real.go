package bench

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// The rows about label sets of a real server, and about each kind of values by itself.
const (
	realSeries  = 20_000 // as many as are in the file
	realSamples = 240    // of each of them
)

// realSets are label sets of a server, their letters replaced, which the reference has among
// its test data: a JSON object a line.
func realSets() (sets [][]string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	if err != nil {
		return nil, errors.Wrap(err, "find the reference's test data")
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "tsdb", "testdata", "20kseries.json"))
	if err != nil {
		return nil, errors.Wrap(err, "open label sets")
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var set map[string]string
		if err := json.Unmarshal(lines.Bytes(), &set); err != nil {
			return nil, errors.Wrap(err, "decode label set")
		}
		sets = append(sets, sorted(set))
	}
	return sets, errors.Wrap(lines.Err(), "read label sets")
}

func sorted(set map[string]string) (pairs []string) {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		pairs = append(pairs, name, set[name])
	}
	return pairs
}

// realLabels measures series with the labels of a real server and values of all kinds, from
// the first sample to a block.
func realLabels(t task) (m measures, err error) {
	sets, err := realSets()
	if err != nil {
		return nil, err
	}
	t.Series = min(t.Series, len(sets))
	idle := heapBytes()
	m, e, err := t.live("real", sets[:t.Series], append(slices.Clone(mixture), recorded))
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	if t.Engine != Victoria { // which has much of its memory elsewhere
		m["real/heap"] = (heapBytes() - idle) / float64(t.Series)
		runtime.KeepAlive(sets) // or they would be taken off
	}
	return m, t.toBlock(e, "real", m)
}

// allValues measures every kind of values by itself.
func allValues(t task) (measures, error) {
	all := measures{}
	for kind := range valueKinds {
		of := t
		of.Dir = filepath.Join(t.Dir, valueRows[kind])
		m, err := of.valuesOf("values/"+valueRows[kind], kind)
		if err != nil {
			return nil, err
		}
		for row, value := range m {
			all[row] = value
		}
	}
	return all, nil
}

// valueRows are short names of the kinds of values.
var valueRows = [valueKinds]string{"counters", "gauges", "constants", "noise", "recorded"}

func (t task) valuesOf(row string, kind valueKind) (m measures, err error) {
	m, e, err := t.live(row, t.sets(), []valueKind{kind})
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	return m, t.toBlock(e, row, m)
}

// live makes a database of some series in the time of one block, and measures that.
func (t task) live(row string, sets [][]string, kinds []valueKind) (m measures, e engine, err error) {
	table, err := t.table(newValuesOf(kinds, t.Series, seed))
	if err != nil {
		return nil, nil, err
	}
	if e, err = open(t.Engine, t.Dir); err != nil {
		return nil, nil, err
	}
	before := now()
	err = e.create(sets, blockStart, table[:t.Series], perCommit)
	first := now()
	for k := 1; err == nil && k < t.Samples; k++ {
		err = scrape(e.append, blockStart+int64(k)*blockStep, table[k*t.Series:(k+1)*t.Series], perCommit)
	}
	if err != nil {
		closing(e, &err)
		return nil, nil, err
	}
	return measures{
		row + "/create": float64(t.Series) / first.since(before).cpu.Seconds(),
		row + "/append": float64(len(table)-t.Series) / now().since(first).cpu.Seconds(),
	}, e, nil
}

// toBlock makes a block, or what the engine has for it, and measures its size; where there
// is such a thing as a flush also what it costs.
func (t task) toBlock(e engine, row string, m measures) error {
	before := now()
	err := e.flush()
	cost := now().since(before)
	if err != nil {
		return err
	}
	if t.Engine == Victoria {
		if err := e.merge(); err != nil { // what is on disk then is everything
			return err
		}
		size, err := t.victoriaSize()
		m[row+"/size"] = float64(size) / float64(t.Series*t.Samples)
		return err
	}
	m[row+"/flush"] = float64(t.Series*t.Samples) / cost.cpu.Seconds()
	_, size, err := t.blocks()
	m[row+"/size"] = float64(size) / float64(t.Series*t.Samples)
	return err
}
