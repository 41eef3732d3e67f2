package memseries

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunks"
)

// What waits is what a list of refs and chunks would be, also where numbers begin again.
func TestWaiting_EqualsAList(t *testing.T) {
	type entry struct {
		ref   chunks.Ref
		chunk fullChunk
	}
	rapid.Check(t, func(t *rapid.T) {
		w := waiting{first: rapid.SampledFrom([]uint32{0, numbers - 5}).Draw(t, "first")}
		var want []entry
		var gone []chunks.Ref
		for step := range int64(rapid.IntRange(1, 100).Draw(t, "steps")) {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			default:
				f := fullChunk{series: new(Series), minT: step}
				want = append(want, entry{w.add(f), f})
			case 0, 1: // the oldest, as they come into a file
				if len(want) > 0 {
					w.remove(w.get(want[0].ref))
					gone, want = append(gone, want[0].ref), want[1:]
				}
			case 2: // any, as it is dropped
				if len(want) > 0 {
					i := rapid.IntRange(0, len(want)-1).Draw(t, "i")
					w.remove(w.get(want[i].ref))
					gone = append(gone, want[i].ref)
					want = append(want[:i:i], want[i+1:]...)
				}
			case 3:
				w.shrink()
				require.LessOrEqual(t, w.sizeBytes(), max(2, 2*int64(len(w.queue)))*fullBytes)
			}
			i := 0
			for ref, f := range w.all() {
				require.Equal(t, want[i], entry{ref, *f})
				require.Same(t, f, w.get(ref))
				require.EqualValues(t, waitingFile, ref.File())
				require.Positive(t, ref.Offset())
				i++
			}
			require.Len(t, want, i)
			for _, ref := range gone {
				require.Nil(t, w.get(ref))
			}
			require.Nil(t, w.get(0))
			require.Nil(t, w.get(chunks.NewRef(1, w.first+1)))
		}
	})
}

// A queue of which something is always left, as when chunks come all the time, does not grow.
func TestWaiting_GrowsWithWhatIsLeft(t *testing.T) {
	var w waiting
	var refs []chunks.Ref
	for i := range 10_000 {
		refs = append(refs, w.add(fullChunk{series: new(Series), minT: int64(i)}))
		if i >= 10 {
			f := w.get(refs[i-10])
			require.EqualValues(t, i-10, f.minT)
			w.remove(f)
		}
	}
	require.Equal(t, 10, w.left)
	require.LessOrEqual(t, w.sizeBytes(), 64*fullBytes)
}
