package bench

import (
	"path/filepath"
	"strconv"
)

// The rows about the size of the log.
const (
	loggedSeries  = 1000
	loggedSamples = 100 // of each of them, at most
)

// loggedCommits is how many samples are in a commit.
var loggedCommits = []int{1, 10, 1000}

// logSizes measures how much the log grows by a sample, in commits of several sizes.
func logSizes(t task) (measures, error) {
	m := measures{}
	for _, n := range loggedCommits {
		grown, err := t.logSize(n)
		if err != nil {
			return nil, err
		}
		m["log/"+strconv.Itoa(n)] = grown
	}
	return m, nil
}

func (t task) logSize(perCommit int) (grown float64, err error) {
	t.Dir = filepath.Join(t.Dir, strconv.Itoa(perCommit))
	t.Series, t.Samples = min(t.Series, loggedSeries), min(t.Samples, loggedSamples)
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return 0, err
	}
	defer closing(e, &err)
	v, vs := newValues(t.Series, seed), make([]float64, t.Series)
	v.scrape(vs)
	if err := e.create(t.sets(), startMillis, vs, perCommit); err != nil {
		return 0, err
	}
	before, err := sizeOf(filepath.Join(t.Dir, "wal"))
	if err != nil {
		return 0, err
	}
	for k := 1; k <= t.Samples; k++ {
		v.scrape(vs)
		if err := scrape(e.append, startMillis+int64(k)*stepMillis, vs, perCommit); err != nil {
			return 0, err
		}
	}
	after, err := sizeOf(filepath.Join(t.Dir, "wal"))
	return float64(after-before) / float64(t.Series*t.Samples), err
}
