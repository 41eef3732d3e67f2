package latelog

import (
	"slices"

	"github.com/seed347100a3/tsdb/wal"
)

// Commit is the records of late samples, and of their deletes, of one commit of the log. The zero
// Commit is ready.
type Commit struct {
	buf  []byte
	ends []int // of records in buf
	wal  wal.Commit
	// queued is the log that waits for Write.
	queued *wal.Log
}

// Begin returns a buffer to append the next record to. End takes it.
func (c *Commit) Begin() []byte { return c.buf[len(c.buf):] }

// End says that rec, grown from what Begin returned, is a complete record.
//
//go:noinline
func (c *Commit) End(rec []byte) {
	if room := c.buf[len(c.buf):cap(c.buf)]; cap(room) > 0 && len(rec) > 0 && &room[:1][0] == &rec[0] {
		c.buf = c.buf[:len(c.buf)+len(rec)]
	} else {
		c.buf = append(c.buf, rec...)
	}
	c.ends = append(c.ends, len(c.buf))
}

// Records returns how many records there are.
func (c *Commit) Records() int { return len(c.ends) }

// Record returns record i.
//
//go:noinline
func (c *Commit) Record(i int) []byte {
	from := 0
	if i > 0 {
		from = c.ends[i-1]
	}
	return c.buf[from:c.ends[i]]
}

// maxKeptBuffer is how much memory a Commit keeps for the next one.
const maxKeptBuffer = 1 << 20

// Reset makes the commit empty. It must not be queued.
func (c *Commit) Reset() {
	c.buf, c.ends = c.buf[:0], c.ends[:0]
	if cap(c.buf) > maxKeptBuffer {
		c.buf = nil
	}
	c.wal.Reset()
}

// copyOf returns a copy of the records.
func (c *Commit) copyOf() *Commit {
	return &Commit{buf: slices.Clone(c.buf), ends: slices.Clone(c.ends)}
}
