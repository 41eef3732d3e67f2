package main

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// servedDatabase is a directory that somebody else may be writing.
type servedDatabase struct {
	dir string

	mu struct {
		sync.RWMutex
		reader *tsdb.Reader // nil before it is open, and when it is closed
	}
	seen uint64 // the state of the directory that the reader has read; open and refresh only
}

func (d *servedDatabase) open(c *console) error {
	seen, err := fingerprint(d.dir)
	if err != nil {
		return err
	}
	r, err := c.openReader(d.dir)
	if err != nil {
		return err
	}
	d.seen = seen
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.reader = r
	return nil
}

func (d *servedDatabase) reader() *tsdb.Reader {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.mu.reader
}

func (d *servedDatabase) ready() bool { return d.reader() != nil }

// Querier implements remote.Queryable.
func (d *servedDatabase) Querier(mint, maxt int64) (*tsdb.Querier, error) {
	r := d.reader()
	if r == nil {
		return nil, tsdb.ErrClosed
	}
	return r.Querier(mint, maxt)
}

// refresh reads the directory again if something has changed.
func (d *servedDatabase) refresh(ctx context.Context) error {
	seen, err := fingerprint(d.dir)
	if err != nil || seen == d.seen {
		return err
	}
	if err := d.reader().Refresh(ctx); err != nil {
		return err
	}
	d.seen = seen
	return nil
}

func (d *servedDatabase) close() error {
	d.mu.Lock()
	r := d.mu.reader
	d.mu.reader = nil
	d.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.Close()
}

// fingerprint changes when a file of a directory does: its name, its size, its time.
// Files that vanish meanwhile do not count.
func fingerprint(dir string) (uint64, error) {
	h := fnv.New64a()
	walk := func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		line := append([]byte(path), 0)
		line = binary.AppendVarint(line, info.Size())
		line = binary.AppendVarint(line, info.ModTime().UnixNano())
		_, _ = h.Write(line) // a hash takes everything
		return nil
	}
	if err := filepath.WalkDir(dir, walk); err != nil {
		return 0, errors.Wrap(err, "look at directory")
	}
	return h.Sum64(), nil
}
