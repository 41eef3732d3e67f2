package remote

import (
	"slices"
	"sort"
	"unsafe"
)

// place is a part of the content.
type place struct{ at, size uint32 }

// sentPlace is where a series is.
type sentPlace struct {
	number int // in the request
	at     place
}

// stagedItems are the samples that an Appender took, in their order.
type stagedItems struct {
	series  []stagedSeries
	samples []stagedSample
}

type stagedSeries struct {
	sentPlace
	first int // of its samples
}

// stagedSample is 8 bytes: there are very many. The place has less than 2^31 bytes.
type stagedSample struct {
	at          uint32
	sizeAndKind uint32 // the lowest bit: it is a histogram
}

func (s *stagedSample) place() place { return place{s.at, s.sizeAndKind >> 1} }

func (s *stagedSample) kind() itemKind {
	if s.sizeAndKind&1 != 0 {
		return itemHistogram
	}
	return itemSample
}

// reset forgets all, and makes room for that many samples.
func (s *stagedItems) reset(samples int) {
	s.series, s.samples = s.series[:0], slices.Grow(s.samples[:0], samples)
}

func (s *stagedItems) add(kind itemKind, series sentPlace, sample place) {
	if last := len(s.series) - 1; last < 0 || s.series[last].number != series.number {
		s.series = append(s.series, stagedSeries{series, len(s.samples)})
	}
	packed := sample.size << 1
	if kind == itemHistogram {
		packed |= 1
	}
	s.samples = append(s.samples, stagedSample{sample.at, packed})
}

// seriesOf returns the series of a sample.
func (s *stagedItems) seriesOf(sample int) sentPlace {
	behind := sort.Search(len(s.series), func(i int) bool { return s.series[i].first > sample })
	return s.series[behind-1].sentPlace
}

// sizeBytes is the memory that is kept for another request.
func (s *stagedItems) sizeBytes() int {
	return cap(s.series)*int(unsafe.Sizeof(stagedSeries{})) + cap(s.samples)*int(unsafe.Sizeof(stagedSample{}))
}
