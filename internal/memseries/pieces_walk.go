package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/internal/prefetch"
)

// Pieces of a chunk are linked, and few of them are in a cache. One after the other,
// each would be waited for. So chunks are walked side by side: the first pieces of all
// of them come at once, then the second ones.

// maxPieces is how many pieces a chunk has that grew sample by sample. One that CutAt made may have
// more: its samples are encoded again, without those that came before.
const maxPieces = (chunkCap + piecePayload - 1) / piecePayload

// walk is the pieces of some chunks that nobody changes.
type walk struct {
	size   [GroupLen]int
	num    [GroupLen]int // of pieces, up to maxPieces
	pieces [GroupLen][maxPieces]uint32
}

// begin finds the pieces of up to GroupLen chunks, and asks for all of them; bytesOf returns where
// those of a chunk begin.
func (w *walk) begin(n int, bytesOf func(i int) chunkBytes, a *pieceArena) {
	most := 0
	for i := range n {
		b := bytesOf(i)
		w.size[i], w.pieces[i][0] = int(b.size), b.first
		w.num[i] = min(maxPieces, (int(b.size)+piecePayload-1)/piecePayload)
		most = max(most, w.num[i])
		if w.num[i] > 0 {
			prefetch.Line(a.at(b.first))
		}
	}
	for round := 1; round < most; round++ {
		for i := range n {
			if round < w.num[i] {
				w.pieces[i][round] = a.at(w.pieces[i][round-1]).next
				prefetch.Line(a.at(w.pieces[i][round]))
			}
		}
	}
}

// of returns the pieces of chunk i, up to maxPieces.
func (w *walk) of(i int) []uint32 { return w.pieces[i][:w.num[i]] }

// rest returns what chunk i has behind those, nothing as a rule.
func (w *walk) rest(i int, a *pieceArena) chunkBytes {
	left := w.size[i] - maxPieces*piecePayload
	if left <= 0 {
		return chunkBytes{}
	}
	return chunkBytes{first: a.at(w.pieces[i][maxPieces-1]).next, size: uint32(left)}
}

// appendTo appends the bytes of chunk i to dst.
func (w *walk) appendTo(dst []byte, i int, a *pieceArena) []byte {
	left, at := w.size[i], len(dst)
	dst = slices.Grow(dst, left)[:at+min(left, maxPieces*piecePayload)]
	for _, n := range w.of(i) {
		pc := a.at(n)
		if left >= piecePayload {
			*(*[piecePayload]byte)(dst[at:]) = pc.data // without a call
		} else {
			copy(dst[at:], pc.data[:left])
		}
		at, left = at+piecePayload, left-piecePayload
	}
	rest := w.rest(i, a)
	return rest.appendTo(dst, a)
}
