package remote

import (
	"math"
	"slices"
	"strings"

	"github.com/golang/snappy"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// sendMetadata sends what is known of metrics now and then, while 1.0 is spoken. 2.0 has it beside
// the samples.
func (w *Writer) sendMetadata() {
	for {
		if !w.wait(w.opts.MetadataInterval) {
			return
		}
		if w.version() != writeV1 {
			continue
		}
		if err := w.sendFamilies(); err != nil {
			w.opts.Logger.Warn("send metadata", "writer", w.opts.Name, "error", fileutil.Logged(err))
		}
	}
}

// sendFamilies sends the metadata of all metrics once. What fails comes again with the next ones.
func (w *Writer) sendFamilies() error {
	all, err := w.families()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(all, w.opts.MaxSamples) {
		var message []byte
		for _, family := range part {
			message = appendBytes(message, 3, family)
		}
		if a := w.post(snappy.Encode(nil, message), writeV1, 0); !a.ok() {
			return a.err()
		}
	}
	return nil
}

// families returns what is known of metrics that are sent, a MetricMetadata each.
func (w *Writer) families() (list [][]byte, err error) {
	q, err := w.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	defer func() { err = fileutil.JoinErrors(err, q.Close()) }()
	all, err := q.Metadata(w.ctx)
	if err != nil {
		return nil, err
	}
	told := map[string]bool{}
	for _, s := range all {
		name := familyOf(s.Labels.Get(labels.MetricName), s.Metadata.Type)
		if name == "" || told[name] || w.opts.Keep != nil && !w.opts.Keep(s.Labels) {
			continue
		}
		told[name] = true
		list = append(list, appendFamily(nil, name, s.Metadata))
	}
	return list, nil
}

// appendFamily appends a MetricMetadata of 1.0:
//
//	1 type   2 metric_family_name   4 help   5 unit
func appendFamily(dst []byte, name string, m tsdb.Metadata) []byte {
	dst = appendString(appendInt(dst, 1, int64(m.Type)), 2, name)
	return appendString(appendString(dst, 4, m.Help), 5, m.Unit)
}

// familyOf is the name of the family that a metric is part of.
func familyOf(metric string, kind tsdb.MetricType) string {
	var parts []string
	switch kind {
	case tsdb.MetricHistogram, tsdb.MetricGaugeHistogram:
		parts = []string{"_bucket", "_sum", "_count"}
	case tsdb.MetricSummary:
		parts = []string{"_sum", "_count"}
	}
	for _, part := range parts {
		if family, ok := strings.CutSuffix(metric, part); ok {
			return family
		}
	}
	return metric
}
