package datadir

import (
	"path/filepath"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Damage is one place of a block that is not as it should be.
type Damage struct {
	File     string // relative to the data directory
	Offset   int64  // bytes
	Reason   string
	Harmless bool // nothing is lost
}

// DamageOf says what is wrong with a block.
func DamageOf(id ulid.ULID, err error) Damage {
	d := Damage{File: id.String(), Reason: err.Error()}
	if c, ok := encbuf.AsCorrupt(err); ok {
		d.File, d.Offset, d.Reason = filepath.Join(id.String(), filepath.Base(c.File)), c.Offset, c.Reason
	}
	return d
}
