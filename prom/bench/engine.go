package bench

import "math"

// Engine is one of the libraries that are compared.
type Engine struct {
	Name string
	// Open opens a directory, replaying what its log has.
	Open func(dir string) (Store, error)
	// Decode reads every sample of XOR chunks one after the other and returns their
	// number, through the fastest way that the engine has.
	Decode func(chunks [][]byte) (int, error)
}

// Store is an open database.
type Store interface {
	// Create makes all series, with their first sample, in one commit.
	Create(w *Workload) error
	// Scrape appends sample k to all series, in commits of w.PerCommit.
	Scrape(w *Workload, k int) error
	// Read reads all samples of the series of a selection and returns how many there
	// were.
	Read(s Selection) (series, samples int, err error)
	Close() error
}

// Selection is a question.
type Selection int

// The questions: one series by a unique label; a thirtieth of them by a regular
// expression and an equality; all.
const (
	SelectOne Selection = iota
	SelectRegexp
	SelectAll
)

// The parts of the questions.
const (
	oneName, oneValue       = "shard", "4321"
	regexpName, regexpValue = "__name__", "http_server_requests_duration_seconds_1.*"
	equalName, equalValue   = "method", "GET"
)

// Engines returns ours and the reference, in this order.
func Engines() []Engine { return []Engine{ours, reference} }

const (
	minTime = math.MinInt64
	maxTime = math.MaxInt64
)
