package zstd

import "encoding/binary"

// Bits of the frame header descriptor (3.1.1.1.1).
const (
	contentSizeShift  = 6
	singleSegmentBit  = 1 << 5
	reservedHeaderBit = 1 << 3
	checksumBit       = 1 << 2
	dictionaryMask    = 3
)

// header is what a frame says of itself, sizes in bytes.
type header struct {
	size       int    // of the header
	skip       bool   // a skippable frame of content bytes behind the header
	window     uint64 // how far back matches reach
	content    uint64 // size of the content, if it is known
	known      bool
	single     bool // the content is the window
	checksum   bool
	dictionary bool
}

// ContentSize returns the size in bytes that the frame at the start of src claims for its
// content, if it does. A skippable frame is refused.
func ContentSize(src []byte) (size uint64, known bool, err error) {
	h, err := parseHeader(src)
	if err != nil {
		return 0, false, err
	}
	if h.skip {
		return 0, false, errMagic
	}
	return h.content, h.known, nil
}

// parseHeader reads the header at the start of b.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < 4 {
		return h, errTruncated
	}
	m := binary.LittleEndian.Uint32(b)
	if m&skippableMask == skippable { // 3.1.2
		if len(b) < 8 {
			return h, errTruncated
		}
		return header{size: 8, skip: true, content: uint64(binary.LittleEndian.Uint32(b[4:]))}, nil
	}
	if m != magic {
		return h, errMagic
	}
	if len(b) < 5 {
		return h, errTruncated
	}
	descriptor := b[4]
	if descriptor&reservedHeaderBit != 0 {
		return h, errReserved
	}
	h.single = descriptor&singleSegmentBit != 0
	h.checksum = descriptor&checksumBit != 0
	err = h.parseFields(b[5:], descriptor)
	return h, err
}

// parseFields reads what follows the descriptor.
func (h *header) parseFields(b []byte, descriptor byte) error {
	windowSize := 1
	if h.single {
		windowSize = 0
	}
	dictionarySize := int([4]uint8{0, 1, 2, 4}[descriptor&dictionaryMask])
	contentSize := int([4]uint8{0, 2, 4, 8}[descriptor>>contentSizeShift])
	if contentSize == 0 && h.single {
		contentSize = 1
	}
	size := windowSize + dictionarySize + contentSize
	if len(b) < size {
		return errTruncated
	}
	h.size = 5 + size
	h.dictionary = littleEndian(b[windowSize:windowSize+dictionarySize]) != 0
	h.known = contentSize != 0
	h.content = littleEndian(b[size-contentSize : size])
	if contentSize == 2 {
		h.content += 256 // 3.1.1.1.4
	}
	if h.single {
		h.window = max(h.content, minWindow)
		return nil
	}
	base := uint64(1) << (10 + b[0]>>3) // 3.1.1.1.2
	h.window = base + base/8*uint64(b[0]&7)
	return nil
}
