package record

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// A tombstones record:
//
//	+------+------------------------------------------------+
//	| 0x03 | entries until the end: ref be64 | mint varint   |
//	|      |                                 | maxt varint   |
//	+------+------------------------------------------------+

// Tombstone says that the samples of one series in the closed interval Mint..Maxt,
// in milliseconds, are deleted.
type Tombstone struct {
	Ref        uint64
	Mint, Maxt int64
}

// WholeSeries tells whether the tombstone covers all of time, which means more than
// its interval: the series itself left the head, and a later series record with the
// same labels is a new series.
func (t Tombstone) WholeSeries() bool {
	return t.Mint == math.MinInt64 && t.Maxt == math.MaxInt64
}

// AppendTombstones appends one tombstones record. A series with several intervals
// stands in it several times.
func AppendTombstones(dst []byte, stones []Tombstone) []byte {
	dst = append(dst, byte(TypeTombstones))
	for _, t := range stones {
		dst = encbuf.AppendBE64(dst, t.Ref)
		dst = encbuf.AppendVarint(dst, t.Mint)
		dst = encbuf.AppendVarint(dst, t.Maxt)
	}
	return dst
}

// TombstoneDecoder is a cursor over a tombstones record. The zero value is ready for
// Reset.
type TombstoneDecoder struct {
	d  encbuf.Dec
	at Tombstone
}

// Reset points the decoder at a record, which must stay unchanged while it is read.
// A record of another type is reported by Err.
//
//go:noinline
func (t *TombstoneDecoder) Reset(rec []byte) {
	*t = TombstoneDecoder{d: encbuf.NewDec(rec)}
	beginRecord(&t.d, TypeTombstones)
}

// Next moves to the next tombstone. False means the end of the record or damage, see
// Err.
func (t *TombstoneDecoder) Next() bool {
	if t.d.Len() == 0 {
		return false
	}
	t.at = Tombstone{Ref: t.d.BE64(), Mint: t.d.Varint(), Maxt: t.d.Varint()}
	return t.d.Err() == nil
}

// At returns the present tombstone as it was written; Mint may exceed Maxt in a
// foreign log, and then it deletes nothing.
func (t *TombstoneDecoder) At() Tombstone { return t.at }

// Err returns nil or the *encbuf.CorruptError that ended the record.
func (t *TombstoneDecoder) Err() error { return t.d.Err() }
