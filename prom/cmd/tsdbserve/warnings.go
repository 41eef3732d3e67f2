package main

import (
	"log/slog"

	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
)

// warn says at the start what of the configuration will not do what it may be meant to.
func (c *config) warn(logger *slog.Logger) {
	for _, n := range strictyaml.Notes(c.file) {
		logger.Warn("a key of the configuration has no effect", "key", n.Key, "line", n.Line, "instead", n.Instead)
	}
	if c.file.Storage.TSDB.OutOfOrderTimeWindow > 0 && len(c.file.Receivers) > 0 {
		logger.Warn("late samples are stored here, and not sent by remote_write", "setting", "storage.tsdb.out_of_order_time_window")
	}
	if c.bucketFile != nil && c.startsAreStored() {
		logger.Warn("blocks with start timestamps are not uploaded: Thanos cannot read them; retention takes them all the same",
			"setting", "--enable-feature="+featureStarts)
	}
}
