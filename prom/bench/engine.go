package bench

import (
	"math"
	"net/http"

	"github.com/pkg/errors"
)

// The engines, by their names in results.
const (
	Ours      = "ours"
	Reference = "reference"
	Victoria  = "victoriametrics"
)

// engine is an open database of one side.
type engine interface {
	// create makes series with a first sample each, by labels, perCommit of them in a
	// commit, and keeps their refs.
	create(sets [][]string, t int64, vs []float64, perCommit int) error
	// append appends a sample of the series from from to to-1 by ref, in one commit.
	append(from, to int, t int64, vs []float64) error
	// appendBatch is append with the call for many samples, where there is one.
	appendBatch(from, to int, t int64, vs []float64) error
	// renew puts new series in the place of some, in one commit, and appends a first sample
	// half a second before t: the sets and values are those of all series.
	renew(which []int, sets [][]string, t int64, vs []float64) error
	// history appends samples of the first series, so far apart, in one commit.
	history(t, step int64, vs []float64) error
	// read selects series and reads as much of them as the query says.
	read(query) (result, error)
	// flush makes blocks of all that is in the head.
	flush() error
	// merge merges the blocks that are due.
	merge() error
	// recovered says what opening found.
	recovered() recovered
	// readHandler serves remote reads of the database.
	readHandler() http.Handler
	close() error
}

// scrape appends a sample to each series, perCommit of them in a commit.
func scrape(add func(from, to int, t int64, vs []float64) error, t int64, vs []float64, perCommit int) error {
	for from := 0; from < len(vs); from += perCommit {
		if err := add(from, min(from+perCommit, len(vs)), t, vs); err != nil {
			return err
		}
	}
	return nil
}

// decoders read every sample of XOR chunks one after the other, through the fastest
// way that the engine has, and return their number.
var decoders = map[string]func(chunks [][]byte) (int, error){Ours: decodeOurs, Reference: decodeReference}

// indexes open the index of a block and return what closes it.
var indexes = map[string]func(name string) (func() error, error){Ours: openOurIndex, Reference: openReferenceIndex}

// backfillers take samples of any age, in order of time, and make blocks of them.
var backfillers = map[string]func(dir string) (backfiller, error){Ours: newOurBackfill, Reference: newReferenceBackfill}

// backfiller makes blocks without a head.
type backfiller interface {
	// scrape adds a sample of each series.
	scrape(sets [][]string, t int64, vs []float64) error
	// finish makes the last blocks. Nothing is left to close then.
	finish() error
}

// recovered is what opening found; -1 is what the engine does not tell.
type recovered struct {
	series, logged int64 // series; samples taken from the log
}

// readMode is how much of a selected series is read.
type readMode int

const (
	readLabels  readMode = iota // the labels of each series, which the caller may keep
	readPassing                 // the same, of series that nobody keeps where the engine can tell them apart
	readSamples                 // and every sample, with the iterator
	readBatches                 // every sample, in batches and of series that nobody keeps where the engine has such
)

// samples reports whether samples are read.
func (how readMode) samples() bool { return how == readSamples || how == readBatches }

// query is what a read asks for.
type query struct {
	how        readMode
	mint, maxt int64 // closed
	matchers   []matcher
}

// always asks for a query's matchers at any time.
func always(how readMode, ms ...matcher) query {
	return query{how, math.MinInt64, math.MaxInt64, ms}
}

// matcher is for both sides. The operator is that of a selector.
type matcher struct {
	op, name, value string
}

// result is what a read found.
type result struct {
	series, samples int
	// sum is that of the bits of all values, in any order. It keeps the compiler from
	// dropping the work, and shows that both engines read the same.
	sum uint64
}

// note tells what was found. These are no rows, but engines must agree on them.
func (r result) note(m measures, row string) {
	m[row+"/series"] = float64(r.series)
	m[row+"/samples"] = float64(r.samples)
	m[row+"/check"] = float64(r.sum >> 11) // as much as a float64 holds
}

// open opens a database in a directory, which is made if there is none. It does nothing
// but what it is told to, as far as it can be told.
func open(name, dir string) (engine, error) {
	return openWith(name, dir, true)
}

// openWith opens a database; if it is not manual, it does by itself what it does by
// default.
func openWith(name, dir string, manual bool) (engine, error) {
	switch name {
	case Ours:
		return openOurs(dir, manual)
	case Reference:
		return openReference(dir, manual)
	case Victoria:
		return openVictoria(dir)
	default:
		return nil, errors.Errorf("no engine %q", name)
	}
}
