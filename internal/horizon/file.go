package horizon

import (
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// FileName is the name of the file in a data directory, and TempName what it is called while it
// is written.
const (
	FileName = "horizon"
	TempName = "tmp-horizon"
)

// The file (docs/format/horizon.md):
//
//	+-------------------+-----------+-------------+----------------+------------+
//	| 0x74686F72 (be32) | version 1 | since (str) | passed (varint) | t (varint) |
//	+-------------------+-----------+-------------+----------------+------------+--------------+
//	| age (varint) | back (varint) | doubts (uvarint) | ahead, until (varints) each | crc (be32) |
//	+--------------+---------------+------------------+-----------------------------+------------+
const (
	fileMagic   = 0x74686F72 // "thor"
	fileVersion = 1
	// mostDoubts bounds what is read.
	mostDoubts = 4 * doubtsPerKeep
	// mostBytes is more than a file of so many doubts as there are has.
	mostBytes = 16 << 10
)

// Encode returns the content of the file: the horizon as it is at a moment.
func Encode(h *Horizon, at clock.Passed) []byte {
	b := encbuf.AppendBE32(nil, fileMagic)
	b = append(b, fileVersion)
	b = encbuf.AppendString(b, at.Since)
	for _, v := range [...]int64{at.Time.Milliseconds(), h.t, h.age, h.back} {
		b = encbuf.AppendVarint(b, v)
	}
	b = encbuf.AppendUvarint(b, uint64(len(h.doubts)))
	for _, d := range h.doubts {
		for _, v := range [...]int64{d.ahead, d.until} {
			b = encbuf.AppendVarint(b, v)
		}
	}
	return encbuf.AppendBE32(b, encbuf.Checksum(b))
}

// Decode reads the content of the file. An error is an encbuf.CorruptError without a file's name.
func Decode(b []byte) (h *Horizon, at clock.Passed, err error) {
	if len(b) < 4 {
		return nil, clock.Passed{}, encbuf.Corrupt(0, "file is too short")
	}
	body := b[:len(b)-4]
	crc := encbuf.NewDec(b[len(body):])
	if crc.BE32() != encbuf.Checksum(body) {
		return nil, clock.Passed{}, encbuf.Corrupt(len(body), "checksum does not fit")
	}
	d := encbuf.NewDec(body)
	if d.BE32() != fileMagic || d.Byte() != fileVersion {
		return nil, clock.Passed{}, encbuf.Corrupt(0, "no horizon of this version")
	}
	h = &Horizon{known: true}
	at.Since = string(d.Str())
	at.Time = time.Duration(d.Varint()) * time.Millisecond
	h.t, h.age, h.back = bounded(d.Varint()), bounded(d.Varint()), max(d.Varint(), 0)
	n := d.Count(2)
	if n > mostDoubts {
		d.Fail("too many doubts")
	}
	for range min(n, mostDoubts) {
		h.doubts = append(h.doubts, doubt{ahead: bounded(max(d.Varint(), 0)), until: bounded(d.Varint())})
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes behind the end")
	}
	return h, at, d.Err()
}

// Read returns the horizon of a data directory and when it was written. Without a file it is nil;
// a damaged one is an encbuf.CorruptError. Any other error says nothing about the file.
func Read(fsys fileutil.FS, dir string) (*Horizon, clock.Passed, error) {
	path := filepath.Join(dir, FileName)
	info, err := fsys.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostBytes) {
		return nil, clock.Passed{}, encbuf.Corrupt(0, "no file of at most 16 KiB").At(path, 0)
	}
	var b []byte
	if err == nil {
		b, err = fileutil.ReadFile(fsys, path, mostBytes)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, clock.Passed{}, nil
	}
	if err != nil {
		return nil, clock.Passed{}, err
	}
	h, at, err := Decode(b)
	if damage, ok := encbuf.AsCorrupt(err); ok {
		return nil, clock.Passed{}, damage.At(path, 0)
	}
	return h, at, err
}

// Write puts the horizon into a data directory, on stable storage.
func Write(fsys fileutil.FS, dir string, h *Horizon, at clock.Passed) error {
	return fileutil.WriteFileAtomic(fsys, filepath.Join(dir, TempName), filepath.Join(dir, FileName), Encode(h, at))
}
