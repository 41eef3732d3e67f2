// Package zstd decodes Zstandard frames as RFC 8878 describes them. It encodes nothing, and
// knows no dictionaries.
//
// What it decodes may be damaged, or made to do damage: no input makes it panic, and it
// takes memory only for content that it has decoded, up to the caller's limit.
// Numbers in comments are sections of the RFC.
package zstd

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"
)

// Frames (3.1.1, 3.1.2).
const (
	magic         = 0xFD2FB528
	skippable     = 0x184D2A50 // the lowest four bits are free
	skippableMask = 0xFFFFFFF0
	checksumSize  = 4
	minWindow     = 1 << 10 // 3.1.1.1.2
	// maxWindow is what the usual decoders refuse to go beyond. This one takes no memory
	// for a window.
	maxWindow = 512 << 20
)

// Blocks (3.1.1.2).
const (
	blockHeaderSize = 3
	maxBlock        = 128 << 10 // Block_Maximum_Size
	rawBlock        = 0
	rleBlock        = 1
	compressedBlock = 2
)

// Decoder decodes frames. It keeps its tables for the next call, 30 KiB, and room for the
// literals of a block. It belongs to one goroutine.
type Decoder struct {
	kinds      [kinds]kind
	predefined [kinds]table
	own        [kinds]table
	counts     counts
	weights    weights
	huff       huffman

	// What blocks of a frame take over from the ones before.
	tables  [kinds]*table // nil: none yet
	hasHuff bool
	back    [3]int // the last offsets, newest first

	// Literals of the block: nlit bytes at the start of lit.
	lit  []byte
	nlit int
	buf  []byte // of literals that are no part of the input
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder {
	d := &Decoder{kinds: newKinds()}
	for i := range d.kinds {
		k := &d.kinds[i]
		n := copy(d.counts[:], k.predefined)
		d.predefined[i].build(&d.counts, n, k.accuracy, k.codes)
	}
	return d
}

// Decode appends the content of all frames in src to dst, limit bytes at most: ErrTooLarge
// says that there is more. Skippable frames are skipped. After an error dst is as it was;
// what lies behind it, up to its capacity, may be overwritten in any case.
func (d *Decoder) Decode(dst, src []byte, limit int) ([]byte, error) {
	o := output{end: len(dst), limit: len(dst) + max(0, min(limit, math.MaxInt-len(dst)))}
	o.buf = dst[:min(cap(dst), o.limit)]
	defer func() { d.lit = nil }() // it may be part of src
	for at := 0; at < len(src); {
		end, err := d.frame(&o, src, at)
		if err != nil {
			return dst, err
		}
		at = end
	}
	return o.buf[:o.end], nil
}

// frame decodes the frame at src[at:] and returns where it ends.
func (d *Decoder) frame(o *output, src []byte, at int) (end int, err error) {
	h, err := parseHeader(src[at:])
	if err != nil {
		return 0, err
	}
	at += h.size
	if h.skip {
		if h.content > uint64(len(src)-at) {
			return 0, errTruncated
		}
		return at + int(h.content), nil
	}
	if h.window < minWindow || h.window > maxWindow && !h.single {
		return 0, errWindow
	}
	if h.dictionary {
		return 0, errDictionary
	}
	if h.known && h.content > uint64(o.limit-o.end) {
		return 0, ErrTooLarge
	}
	o.start, o.window = o.end, h.window
	d.hasHuff, d.tables, d.back = false, [kinds]*table{}, [3]int{1, 4, 8} // 3.1.1.5
	for last := false; !last; {
		if at, last, err = d.block(o, src, at); err != nil {
			return 0, err
		}
		if h.known && uint64(o.end-o.start) > h.content {
			return 0, errContent
		}
	}
	return h.check(o.buf[o.start:o.end], src, at)
}

// check compares content with what the frame says of it. It returns where the frame ends
// whose blocks end at src[at:].
func (h *header) check(content, src []byte, at int) (end int, err error) {
	if h.known && uint64(len(content)) != h.content {
		return 0, errContent
	}
	if !h.checksum {
		return at, nil
	}
	if len(src)-at < checksumSize {
		return 0, errTruncated
	}
	if uint32(xxhash.Sum64(content)) != binary.LittleEndian.Uint32(src[at:]) {
		return 0, errChecksum
	}
	return at + checksumSize, nil
}

// block decodes the block at src[at:] and returns where it ends and whether it is the last.
func (d *Decoder) block(o *output, src []byte, at int) (end int, last bool, err error) {
	if len(src)-at < blockHeaderSize {
		return 0, false, errTruncated
	}
	h := uint32(src[at]) | uint32(src[at+1])<<8 | uint32(src[at+2])<<16
	at += blockHeaderSize
	last = h&1 != 0
	kind, size := h>>1&3, int(h>>3)
	blockMax := int(min(o.window, maxBlock))
	if kind > compressedBlock {
		return 0, false, errReserved
	}
	if size > blockMax {
		return 0, false, errBlock
	}
	stored := size
	if kind == rleBlock {
		stored = 1
	}
	if stored > len(src)-at {
		return 0, false, errTruncated
	}
	end = at + stored
	o.blockEnd = o.end + min(blockMax, math.MaxInt-o.end)
	switch kind {
	case rawBlock:
		err = o.append(src[at:end])
	case rleBlock:
		err = o.appendRun(src[at], size)
	case compressedBlock:
		if at, err = d.literals(src, at, end, blockMax); err == nil {
			err = d.sequences(o, src, at, end)
		}
	}
	return end, last, err
}
