package zstd

// code is what a symbol of a sequence stands for: base plus the value of extra bits.
type code struct {
	base  uint32
	extra uint8
}

// maxOffsetCode keeps offset values below 2^31, so that they fit an int of 32 bits. The
// RFC leaves the bound to the decoder and asks for 22 at least (3.1.1.3.2.1.1).
const maxOffsetCode = 30

// The three kinds of numbers in a sequence, in the order of their tables.
const (
	literalLengths = iota
	offsets
	matchLengths
	kinds
)

// kind is what the RFC says of one of them.
type kind struct {
	codes       []code
	maxAccuracy uint8   // 3.1.1.3.2.1
	accuracy    uint8   // of the predefined table
	predefined  []int16 // 3.1.1.3.2.2
}

// numbers fills in codes: each begins where the one before it ends.
func numbers(first uint32, extras []uint8) []code {
	codes := make([]code, len(extras))
	for i, extra := range extras {
		codes[i] = code{base: first, extra: extra}
		first += 1 << extra
	}
	return codes
}

// newKinds returns all kinds.
func newKinds() (k [kinds]kind) {
	k[literalLengths] = kind{
		codes:       numbers(0, literalLengthExtra[:]),
		maxAccuracy: 9,
		accuracy:    6,
		predefined:  literalLengthCounts[:],
	}
	k[matchLengths] = kind{
		codes:       numbers(3, matchLengthExtra[:]),
		maxAccuracy: 9,
		accuracy:    6,
		predefined:  matchLengthCounts[:],
	}
	var extra [maxOffsetCode + 1]uint8
	for i := range extra {
		extra[i] = uint8(i)
	}
	k[offsets] = kind{
		codes:       numbers(1, extra[:]),
		maxAccuracy: 8,
		accuracy:    5,
		predefined:  offsetCounts[:],
	}
	return k
}

// Extra bits of the codes of lengths (3.1.1.3.2.1.1).
var (
	literalLengthExtra = [36]uint8{16: 1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	matchLengthExtra   = [53]uint8{32: 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// States of each code in the predefined tables (3.1.1.3.2.2.1 to 3).
var (
	literalLengthCounts = [36]int16{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2,
		2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}
	matchLengthCounts = [53]int16{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
		1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}
	offsetCounts = [29]int16{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}
)
