package bench

import (
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// metricNames: the first four are what the regular expression of the select rows
// finds.
var metricNames = []string{
	"http_server_duration_seconds", "http_server_size_bytes", "http_server_errors_total", "http_server_queue_length",
	"http_client_duration_seconds", "http_client_size_bytes", "http_client_errors_total", "http_client_queue_length",
	"process_cpu_seconds_total", "process_resident_bytes", "process_open_fds", "process_start_seconds",
	"go_gc_duration_seconds", "go_goroutines", "go_memstats_alloc_bytes", "go_threads",
	"cache_hits_total", "cache_misses_total", "cache_evictions_total", "cache_entries",
}

var methods = []string{"GET", "POST", "PUT", "DELETE"}

// pairs are the labels of series i, name and value in turns, sorted by name: ten
// labels, 180 to 220 bytes.
func pairs(i int) []string {
	metric, method, host := i%len(metricNames), i/len(metricNames)%len(methods), i/len(metricNames)/len(methods)
	return []string{
		"__name__", metricNames[metric],
		"cluster", "eu-central-1-production",
		"container", "application-server",
		"instance", "10." + strconv.Itoa(host>>16&255) + "." + strconv.Itoa(host>>8&255) + "." + strconv.Itoa(host&255) + ":9100",
		"job", "kubernetes-endpoints",
		"method", methods[method],
		"namespace", "team-" + strconv.Itoa(host%17),
		"pod", "service-" + strconv.Itoa(host%50) + "-7c9f8b6d5-" + strconv.Itoa(10_000+host),
		"shard", strconv.Itoa(i),
		"status", strconv.Itoa(200 + 100*(host%4)),
	}
}

// shardName is where in pairs the label is that every series has a value of its own for.
const shardName = 16

// valueKind is how the values of a series go on.
type valueKind uint8

const (
	counters valueKind = iota
	gauges
	constants
	noise
	recorded
	valueKinds
)

func (k valueKind) String() string {
	return [valueKinds]string{"counters", "gauges with two decimals", "constants", "noise of full precision", "a machine's own metrics"}[k]
}

// mixture is a quarter each.
var mixture = []valueKind{counters, gauges, constants, noise}

// values makes the values of all series, a scrape at a time. The same seed gives the
// same values.
type values struct {
	kinds []valueKind // series i has the kind i modulo their number
	last  []float64
	state uint64 // of the random numbers; never 0
	trace [][]float64
	at    int // scrapes so far
}

func newValues(series int, seed uint64) *values { return newValuesOf(mixture, series, seed) }

func newValuesOf(kinds []valueKind, series int, seed uint64) *values {
	v := &values{kinds: kinds, last: make([]float64, series), state: seed*0x9e3779b97f4a7c15 | 1}
	if slices.Contains(kinds, recorded) {
		v.trace = trace()
	}
	for i := range v.last {
		v.last[i] = float64(v.random() % 10_000)
	}
	return v
}

// random is xorshift64*.
func (v *values) random() uint64 {
	v.state ^= v.state >> 12
	v.state ^= v.state << 25
	v.state ^= v.state >> 27
	return v.state * 0x2545f4914f6cdd1d
}

// scrape moves all series on and writes their values to dst.
func (v *values) scrape(dst []float64) {
	for i, x := range v.last {
		x = v.next(i, x)
		v.last[i] = x
		dst[i] = x
	}
	v.at++
}

// next moves one series on.
func (v *values) next(i int, x float64) float64 {
	switch v.kinds[i%len(v.kinds)] {
	case counters: // rises by 0 to 127
		return x + float64(v.random()>>57)
	case gauges: // a walk in steps of 1/100
		return (math.Round(x*100) + float64(bits.OnesCount64(v.random())) - 32) / 100
	case constants:
		return x
	case noise: // 52 random bits
		return 1 + float64(v.random()>>12)/(1<<52)
	default: // every series has a place of its own to begin at
		line := v.trace[i%len(v.trace)]
		return line[(v.at+i/len(v.trace))%len(line)]
	}
}

// Samples are a second apart, so that up to 10,000 of a series stay within the three
// hours after which the reference would compact its head.
const stepMillis = 1000

// startMillis is the time of the first sample: the start of a block.
const startMillis = 1_699_999_200_000
