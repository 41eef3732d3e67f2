package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/internal/bucketfile"
	"github.com/seed347100a3/tsdb/prom/ship"
)

// uploadInterval is how often it is looked for blocks of which the database did not tell, and when a
// failed upload is tried again.
const uploadInterval = 30 * time.Second

// uploads are the blocks of the database on their way into a bucket. The zero value has no bucket.
type uploads struct {
	bucket  objstore.Bucket
	shipper *ship.Shipper
}

// readBucketFile reads which bucket is meant, and checks what belongs to it.
func (c *config) readBucketFile() (err error) {
	switch {
	case c.bucketFileName == "" && c.uploadCompacted:
		return errors.New("--shipper.upload-compacted: want --objstore.config-file, which says where to")
	case c.bucketFileName == "":
		return nil
	case len(c.file.Scrape.Global.External) == 0:
		return errors.New("--objstore.config-file: want a --config.file with global.external_labels: they tell the blocks of many databases in a bucket apart")
	}
	if c.bucketFile, err = bucketfile.Read(c.bucketFileName); err == nil {
		err = c.bucketFile.CheckApart(c.dir)
	}
	if err != nil {
		return fmt.Errorf("--objstore.config-file: %w", err)
	}
	return nil
}

// uploads opens the bucket that is asked for, if one is.
func (c *config) uploads(logger *slog.Logger, registry *prometheus.Registry) (*uploads, error) {
	u := &uploads{}
	if c.bucketFile == nil {
		return u, nil
	}
	bucket, err := c.bucketFile.Open("tsdbserve")
	if err != nil {
		return nil, fmt.Errorf("--objstore.config-file: %w", err)
	}
	u.bucket = bucket
	external := labels.FromMap(c.file.Scrape.Global.External)
	if u.shipper, err = ship.NewDir(c.dir, bucket, ship.Options{Labels: external, Compacted: c.uploadCompacted, Logger: logger}); err != nil {
		return nil, errors.Join(err, bucket.Close())
	}
	registry.MustRegister(u.shipper)
	return u, nil
}

// prepare returns options by which blocks stay until they are uploaded.
func (u *uploads) prepare(o *tsdb.Options) *tsdb.Options {
	if u.shipper == nil {
		return o
	}
	return u.shipper.Prepare(o)
}

// begin uploads until end is called. What is under way then the next start goes on with.
func (u *uploads) begin(ctx context.Context) (end func()) {
	if u.shipper == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { u.shipper.Run(ctx, uploadInterval) })
	return func() {
		cancel()
		running.Wait()
	}
}

func (u *uploads) close() error {
	if u.bucket == nil {
		return nil
	}
	return u.bucket.Close()
}
