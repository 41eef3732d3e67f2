package memseries

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkTrim gives the blocks of two million pieces back, which are free in no order: all
// of them, or all but a piece here and there.
func BenchmarkTrim(b *testing.B) {
	for _, bc := range []struct {
		name string
		used int // one of so many pieces is in use
	}{{"all", 0}, {"most", 100_000}} {
		b.Run(bc.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				d := NewDirectory(Cutting{Range: 1000, Samples: 120})
				freeInNoOrder(d, 2<<20, bc.used)
				b.StartTimer()
				d.Truncation.trimPieces()
			}
		})
	}
}

func freeInNoOrder(d *Directory, n, used int) {
	numbers := make([]uint32, n)
	p := &d.Shards.all[0].mu.pieces
	for i := range numbers {
		numbers[i], _ = p.get()
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(n, func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	for i, number := range numbers {
		if used > 0 && i%used == 0 {
			continue
		}
		d.Shards.all[i%NumShards].mu.pieces.put(number, number)
	}
}
