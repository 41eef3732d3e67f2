package replay

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// A log has the samples of one time side by side, and the next one of a series many
// thousand samples behind. Appended as they come, each would wait for the memory of its
// series: the series itself, and the end of its open chunk. So a worker collects some
// batches, sorts them by series, and appends what a series has together (BenchmarkReplay).

const (
	minCollected = 48 << 10  // samples that a worker collects: 768 KiB when sorted, as much as a core's cache holds
	maxCollected = 256 << 10 // the same, for many series, where memory has no limit
	usualBytes   = 40        // what each of them takes: in its set of parts, sorted, and a place for its series
	usualLength  = 4         // samples of each series, on average, that a worker collects if that is not too many
	worthLength  = 2         // with fewer they are not sorted
	sparseSpan   = 8         // refs for each sample; spread over more, samples are not sorted
)

// collected returns how many samples to collect for a worker that has so many series, most at the
// most.
func collected(series, most int) int {
	if series > most/worthLength {
		return minCollected // they will not be sorted
	}
	return max(minCollected, min(usualLength*series, most))
}

// mostCollected returns how many samples a worker may collect within a limit of memory: what all of
// them collect takes a 32nd of it.
func mostCollected(limit int64, workers int) int {
	const share = 32
	return int(min(maxCollected, max(minCollected, limit/share/usualBytes/int64(workers))))
}

// runSorter sorts samples by series, those of each in the order of the log.
type runSorter struct {
	ends     []uint32 // by ref above the lowest: how many samples it has; later where they end
	sorted   []xorchunk.Sample
	runs     []memseries.Run    // a few, until they are given out
	wide     []sortedWide       // by place in sorted; none if no sample is wide
	payloads []payloads         // of the spans that have wide ones
	taken    []memseries.WideAt // those of runs
}

// sort calls each with a few runs after the other, or says that it is not worth it. What each
// is given is valid until it returns.
func (rs *runSorter) sort(parts []work, each func([]memseries.Run)) bool {
	low, high, n := refRange(parts)
	if n == 0 || high-low >= sparseSpan*uint64(n) || !rs.count(parts, low, int(high-low)+1, n) {
		return false
	}
	rs.place(parts, low, n)
	begin := uint32(0)
	for i, end := range rs.ends {
		if end == begin {
			continue
		}
		run := memseries.Run{Ref: low + uint64(i), Samples: rs.sorted[begin:end]}
		if len(rs.wide) > 0 {
			run.Wide = rs.takeWide(begin, end)
		}
		rs.runs = append(rs.runs, run)
		begin = end
		if len(rs.runs) == memseries.GroupLen {
			each(rs.runs)
			rs.runs, rs.taken = rs.runs[:0], rs.taken[:0]
		}
	}
	each(rs.runs)
	rs.runs, rs.taken = rs.runs[:0], rs.taken[:0]
	clear(rs.payloads) // their sets are given back
	return true
}

// refRange returns the lowest and the highest ref of samples, and how many samples there are.
func refRange(parts []work) (low, high uint64, n int) {
	low = math.MaxUint64
	for i := range parts {
		span := &parts[i].span
		for _, s := range span.samples {
			low, high = min(low, span.refOf(s)), max(high, span.refOf(s))
		}
		n += len(span.samples)
	}
	return low, high, n
}

// count makes ends say where the samples of each ref begin, n in all of so many refs. It says
// whether sorting is worth it.
func (rs *runSorter) count(parts []work, low uint64, refs, n int) bool {
	if cap(rs.ends) < refs {
		rs.ends = make([]uint32, refs+refs/4)
	}
	rs.ends = rs.ends[:refs]
	clear(rs.ends)
	for i := range parts {
		span := &parts[i].span
		first := span.ref - low
		for _, s := range span.samples {
			rs.ends[first+uint64(s.ref)]++
		}
	}
	series, sum := 0, uint32(0)
	for i, c := range rs.ends {
		if c > 0 {
			series++
		}
		rs.ends[i] = sum
		sum += c
	}
	return n >= worthLength*series
}

// place puts the samples where they belong, and makes ends what its name says.
func (rs *runSorter) place(parts []work, low uint64, n int) {
	if cap(rs.sorted) < n {
		rs.sorted = make([]xorchunk.Sample, n+n/8)
	}
	rs.sorted = rs.sorted[:n]
	rs.beginWide(parts, n)
	for i := range parts {
		span := &parts[i].span
		first := span.ref - low
		if span.wide != nil {
			rs.placeWide(span, first)
			continue
		}
		for _, s := range span.samples {
			end := &rs.ends[first+uint64(s.ref)]
			rs.sorted[*end] = span.sampleOf(s)
			*end++
		}
	}
}
