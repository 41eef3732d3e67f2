// Package sweep is for tests that try something at each of many places: every operation of a disk,
// every bit of a file. Such a test tries some of the places by default, so that all tests are done
// within minutes, and all of them with the flag -sweep.whole. It knows no test. Its flags belong to
// the test binary of each package that imports it, so they may be asked for at once by any number
// of tests.
package sweep

import (
	"flag"
	"testing"
)

var (
	whole = flag.Bool("sweep.whole", false, "try every place of each sweep, and whatever else takes long")
	seed  = flag.Uint64("sweep.seed", 1, "which places are tried when not all are, and what is drawn at random")
)

// Whole reports whether everything is to be tried, however long it takes.
func Whole() bool { return *whole }

// Seed says which places are tried when not all are, and what is drawn at random. A failure of t
// prints it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("sampled with -sweep.seed=%d", *seed)
	return *seed
}

// Seeds returns n seeds for what a test draws at random. Those of two seeds of the sweep are
// different ones, but where they ask for different n. A failure of t prints the seed of the sweep.
func Seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	seeds, first := make([]uint64, n), (Seed(t)-1)*uint64(n)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// Places are which of the places 0, 1, 2 and so on are tried: every Step-th from First on.
type Places struct{ First, Step int }

// Of returns one of every so many places, from one that the seed chooses: of as many as whole says
// in a whole sweep, 1 being all of them, and of as many as sampled says otherwise. Give it primes,
// or a pattern in the places hides some kinds for ever. A failure of t prints the seed.
func Of(t testing.TB, whole, sampled int) Places {
	t.Helper()
	step := sampled
	if Whole() {
		step = whole
	}
	return Places{int(Seed(t) % uint64(step)), step}
}

// Below returns the places below n.
func (p Places) Below(n int) (all []int) {
	for at := p.First; at < n; at += p.Step {
		all = append(all, at)
	}
	return all
}

// Has reports whether a place is one of them.
func (p Places) Has(place int) bool { return place%p.Step == p.First }
