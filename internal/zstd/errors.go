package zstd

import "errors"

// ErrTooLarge: the content exceeds the limit that the caller set.
var ErrTooLarge = errors.New("zstd: content exceeds the limit")

// Why a frame is refused. They are bare, as a damaged record is nothing rare enough to
// pay for a stack; whoever reads the log says where it is.
var (
	errMagic      = errors.New("zstd: no frame begins here")
	errTruncated  = errors.New("zstd: input ends inside a frame")
	errReserved   = errors.New("zstd: a reserved bit or type is set")
	errDictionary = errors.New("zstd: frame needs a dictionary, and none is supported")
	errWindow     = errors.New("zstd: window is smaller than 1 KiB or larger than 512 MiB")
	errBlock      = errors.New("zstd: block is larger than its frame allows")
	errContent    = errors.New("zstd: content is not as long as the frame says")
	errChecksum   = errors.New("zstd: content does not match its checksum")
	errLiterals   = errors.New("zstd: damaged literals")
	errHuffman    = errors.New("zstd: damaged Huffman table")
	errFSE        = errors.New("zstd: damaged FSE table")
	errAccuracy   = errors.New("zstd: FSE table is larger than its kind allows")
	errSequences  = errors.New("zstd: damaged sequences")
	errOffset     = errors.New("zstd: match begins before the content or the window")
	errZeroOffset = errors.New("zstd: match has no distance")
)
