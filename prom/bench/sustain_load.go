package bench

import (
	"math"
	"math/bits"
	"sort"
	"time"
)

// sustainOrder is what the processes of a run are told: with it each of them knows every
// sample that there is to be.
type sustainOrder struct {
	Dir     string
	Series  int           // places, each of which has one series at a time
	Rate    int           // samples a second
	Time    time.Duration // of the whole run
	Work    time.Duration // of this process
	Range   time.Duration // of a block
	Speed   float64       // how much faster than the clock the times of samples run
	Churn   float64
	Writers int
	Every   time.Duration
}

// sustainStart is the time of the first sample: where blocks of several levels begin.
const sustainStart = int64(1_699_999_200_000) / (27 * 60_000) * (27 * 60_000)

// interval is how long it takes until a series is sampled again.
func (o *sustainOrder) interval() time.Duration {
	return time.Duration(float64(o.Series) / float64(o.Rate) * float64(time.Second))
}

// sustainPart is the part of the series that one writer has: places from lo up to hi. A
// scrape of them is several commits.
type sustainPart struct {
	o      *sustainOrder
	lo, hi int
}

func (o *sustainOrder) part(writer int) sustainPart {
	return sustainPart{o, o.Series * writer / o.Writers, o.Series * (writer + 1) / o.Writers}
}

// parts returns those of all writers, in order.
func (o *sustainOrder) parts() (all []sustainPart) {
	for w := range o.Writers {
		all = append(all, o.part(w))
	}
	return all
}

// commits is how many a scrape is.
func (p sustainPart) commits() int { return (p.hi - p.lo + perCommit - 1) / perCommit }

// pause is the time from one commit to the next one.
func (p sustainPart) pause() time.Duration { return p.o.interval() / time.Duration(p.commits()) }

// commit says what is in commit n: scrape k of the places from up to to, all at time t. The
// scrapes of a writer's places are spread over the interval, as targets are.
func (p sustainPart) commit(n int64) (k, from, to int, t int64) {
	c := int64(p.commits())
	k, from = int(n/c), p.lo+int(n%c)*perCommit
	millis := float64(n) * float64(p.o.interval()) / float64(c) * p.o.Speed / float64(time.Millisecond)
	return k, from, min(from+perCommit, p.hi), sustainStart + int64(millis)
}

// replaced is how many places have their second series in scrape k: the first ones, as a
// deployment replaces all series of a program at once.
func (p sustainPart) replaced(k int) int {
	n := float64(p.hi-p.lo) * p.o.Churn
	return int(n * min(1, float64(k)*float64(p.o.interval())/float64(p.o.Time)))
}

// firstOfSecond is the scrape in which a place gets its second series; most of them are not
// reached.
func (p sustainPart) firstOfSecond(place int) int {
	return sort.Search(math.MaxInt32, func(k int) bool { return p.replaced(k) > place-p.lo })
}

// seriesAt is the number of the series that a place has in scrape k.
func (p sustainPart) seriesAt(place, k int) int {
	if place-p.lo < p.replaced(k) {
		return p.o.Series + place
	}
	return place
}

// sustainValue is the value of a series in scrape k: of the kinds of mixture, and known
// without those before it.
func sustainValue(series, k int) float64 {
	base := mix(uint64(series))
	random := mix(base + uint64(k))
	switch mixture[series%len(mixture)] {
	case counters:
		return float64(base%10_000) + float64(k*64) + float64(random%64)
	case gauges:
		return float64(base%1_000_000+uint64(bits.OnesCount64(random))) / 100
	case constants:
		return float64(base % 10_000)
	default:
		return 1 + float64(random>>12)/(1<<52)
	}
}

// mix is the last step of splitmix64: numbers in order become random ones.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
