package wal

import (
	"github.com/golang/snappy"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/zstd"
)

// Compression says how a record body is stored. Readers take each record as it
// says itself.
type Compression uint8

// The compressions of the format.
const (
	CompressionNone Compression = iota
	CompressionSnappy
	CompressionZstd
)

// String returns none, snappy or zstd.
//
//go:noinline
func (c Compression) String() string {
	switch c {
	case CompressionNone:
		return "none"
	case CompressionSnappy:
		return "snappy"
	case CompressionZstd:
		return "zstd"
	default:
		return "unknown"
	}
}

// Codec is how a Log stores the record bodies that it writes; it may change between runs. The
// decoder of zstd is our own and in every program (internal/zstd); its encoder is not
// (NewZstdCodec).
type Codec struct {
	kind       Compression
	newEncoder func(workers int) (Encoder, error) // nil: none is needed
}

// The codecs. They are not changed.
var (
	None   = Codec{kind: CompressionNone}
	Snappy = Codec{kind: CompressionSnappy}
)

// String returns none, snappy or zstd.
func (c *Codec) String() string { return c.orNone().kind.String() }

func (c *Codec) orNone() *Codec {
	if c == nil {
		return &None
	}
	return c
}

// Encoder makes the bodies of records smaller. EncodeAll appends to dst, and is safe for concurrent
// use.
type Encoder interface {
	EncodeAll(src, dst []byte) []byte
	Close() error
}

// NewZstdCodec returns the codec of zstd with an encoder that takes up to so many callers at a
// time. Package wal/zstd has the usual one.
func NewZstdCodec(newEncoder func(workers int) (Encoder, error)) *Codec {
	return &Codec{kind: CompressionZstd, newEncoder: newEncoder}
}

// Bits of a fragment's type byte. If both are set, snappy wins.
const (
	snappyBit = 1 << 3
	zstdBit   = 1 << 4
)

func (c Compression) bits() byte {
	switch c {
	case CompressionSnappy:
		return snappyBit
	case CompressionZstd:
		return zstdBit
	default:
		return 0
	}
}

func compressionOf(typeByte byte) Compression {
	switch {
	case typeByte&snappyBit != 0:
		return CompressionSnappy
	case typeByte&zstdBit != 0:
		return CompressionZstd
	default:
		return CompressionNone
	}
}

const (
	// minCompressSize in bytes: a shorter record is stored as it is. Snappy looks for
	// matches only in what is more than 15 bytes before the end, and a record of one
	// or two samples gains nothing in any compression.
	minCompressSize = 48
	// maxSnappyRatio bounds what a snappy block can expand to: a copy of three bytes
	// makes 64. A block that claims more is refused before memory is taken for it.
	maxSnappyRatio = 22
	// minDecoded in bytes is added to that bound, so that tiny blocks pass.
	minDecoded = 64
	// maxZstdRatio is how dense zstd records may be; denser ones are not written, and
	// read only as far as zstdSlack bytes beyond the ratio, per batch of records, so
	// that memory stays in proportion to the file. Real records stay below 20.
	maxZstdRatio = 64
	zstdSlack    = 16 << 20
)

// MaxRecordSize is the largest record in bytes, uncompressed: what a 32-bit length
// can hold with room for compression, on any platform.
const MaxRecordSize = 1 << 30

// compressor compresses the records of one Log; it is safe for concurrent use.
type compressor struct {
	kind Compression
	enc  Encoder // of zstd; nil: none is needed
}

// newCompressor returns a compressor for up to workers callers at a time.
func newCompressor(codec *Codec, workers int) (c *compressor, err error) {
	codec = codec.orNone()
	c = &compressor{kind: codec.kind}
	if codec.newEncoder != nil {
		c.enc, err = codec.newEncoder(workers)
	}
	return c, err
}

// compress returns data compressed into buf, or data itself if that is not smaller,
// and buf, perhaps grown, for the next call. The result aliases one of them.
func (c *compressor) compress(buf, data []byte) (out []byte, kind Compression, grown []byte) {
	if c.kind == CompressionNone || len(data) < minCompressSize {
		return data, CompressionNone, buf
	}
	if c.enc == nil {
		if need := snappy.MaxEncodedLen(len(data)); cap(buf) < need {
			buf = make([]byte, need+need/4)
		}
		out = snappy.Encode(buf[:cap(buf)], data)
	} else {
		out = c.enc.EncodeAll(data, buf[:0])
		buf = out
	}
	if len(out) >= len(data) || int64(len(data)) > maxZstdRatio*int64(len(out)) {
		return data, CompressionNone, buf
	}
	return out, c.kind, buf
}

func (c *compressor) close() error {
	if c.enc == nil {
		return nil
	}
	return errors.Wrap(c.enc.Close(), "close zstd encoder")
}

// decompressor decompresses records. It belongs to one goroutine.
type decompressor struct {
	zstd  *zstd.Decoder // made for the first zstd record
	slack int           // bytes that zstd records may still exceed maxZstdRatio by

	makesWay bool // for commits and queries
	way      foreground.Steps
}

// wayBytes is after how many bytes of records a checkpoint, which reads the log beside commits and
// queries, makes way for them: a batch of series may take ten milliseconds.
const wayBytes = 32 << 10

// begin starts a batch of records: its share of zstdSlack is untouched.
func (d *decompressor) begin() { d.slack = zstdSlack }

// appendDecoded appends the uncompressed form of data to dst. Memory is taken only
// for what data can plausibly expand to.
func (d *decompressor) appendDecoded(dst []byte, c Compression, data []byte) ([]byte, error) {
	switch c {
	case CompressionSnappy:
		return appendSnappy(dst, data)
	case CompressionZstd:
		return d.appendZstd(dst, data)
	default:
		return append(dst, data...), nil
	}
}

// decodedLen returns how long the uncompressed form of data is that appendDecoded appends, 0 where
// data alone does not say it.
func decodedLen(c Compression, data []byte) int {
	if c != CompressionSnappy {
		return 0
	}
	n, err := snappy.DecodedLen(data)
	if err != nil || int64(n) > maxSnappyRatio*int64(len(data))+minDecoded {
		return 0
	}
	return n
}

func appendSnappy(dst, data []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(data)
	if err != nil {
		return dst, err
	}
	if int64(n) > maxSnappyRatio*int64(len(data))+minDecoded {
		return dst, errTooDense
	}
	dst = grow(dst, n)
	out, err := snappy.Decode(dst[len(dst):len(dst)+n], data)
	return dst[:len(dst)+len(out)], err
}

// appendZstd decodes into a buffer of the size that the frame names, or that is fair if it
// names none. Several frames in a row, and content without a size, may take the slack, too.
func (d *decompressor) appendZstd(dst, data []byte) ([]byte, error) {
	claimed, known, err := zstd.ContentSize(data)
	if err != nil {
		return dst, errNotZstd
	}
	fair := int(min(maxZstdRatio*int64(len(data)), MaxRecordSize))
	limit := min(fair+d.slack, MaxRecordSize)
	size := fair
	if known {
		if claimed > uint64(fair+d.slack) {
			return dst, errTooDense
		}
		size = min(int(claimed), limit)
	}
	if d.zstd == nil {
		d.zstd = zstd.NewDecoder()
	}
	out, err := d.zstd.Decode(grow(dst, size), data, limit)
	if err != nil {
		return dst, err
	}
	d.slack -= max(0, len(out)-len(dst)-fair)
	return out, nil
}

// grow returns b with room for n more bytes.
//
//go:noinline
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	bigger := make([]byte, len(b), max(len(b)+n, 2*cap(b)))
	copy(bigger, b)
	return bigger
}
