package minheap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/minheap"
)

// Streams that ascend come out as one that does, whatever their lengths, with what is equal in it.
func TestHeap_SortedStreams_AreMergedInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		heap := minheap.Heap[*[]int]{Less: func(a, b *[]int) bool { return (*a)[0] < (*b)[0] }}
		var want, got []int
		for range r.IntN(12) {
			var stream []int
			for range 1 + r.IntN(9) {
				stream = append(stream, r.IntN(20))
			}
			slices.Sort(stream)
			want = append(want, stream...)
			heap.Push(&stream)
		}
		for len(heap.Items) > 0 {
			top := heap.Items[0]
			got = append(got, (*top)[0])
			*top = (*top)[1:]
			heap.Advance(len(*top) > 0)
		}
		slices.Sort(want)
		require.Equal(t, want, got)
	}
}
