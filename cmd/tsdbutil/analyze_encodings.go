package main

import (
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// encoded is an EncodingSize in JSON.
type encoded struct {
	Encoding string   `json:"encoding"`
	Kind     string   `json:"kind"`
	Chunks   uint64   `json:"chunks"`
	Samples  uint64   `json:"samples"`
	Bytes    uint64   `json:"bytes"`
	Buckets  *buckets `json:"buckets_per_chunk,omitempty"` // of histograms
}

type buckets struct {
	Min  uint64  `json:"min"`
	Mean float64 `json:"mean"`
	Max  uint64  `json:"max"`
}

func newEncoded(list []tsdb.EncodingSize) (all []encoded) {
	for _, e := range list {
		one := encoded{Encoding: e.Encoding.String(), Kind: e.Encoding.Kind().String(), Chunks: e.Chunks, Samples: e.Samples, Bytes: e.Bytes}
		if !e.Encoding.Known() {
			one.Kind = "unknown"
		}
		if e.Encoding.Kind() > chunkenc.ValFloat {
			one.Buckets = &buckets{e.MinBuckets, float64(e.Buckets) / float64(e.Chunks), e.MaxBuckets}
		}
		all = append(all, one)
	}
	return all
}

// printEncodings shows what chunks of each encoding take, and less of it on a narrow terminal.
func (c *console) printEncodings(list []tsdb.EncodingSize) error {
	narrow := c.terminal && c.width < wideTable
	rows := make([]table.Row, 0, len(list))
	for _, e := range newEncoded(list) {
		text := ""
		if b := e.Buckets; b != nil {
			text = strconv.FormatUint(b.Min, 10) + "/" + formatNumber(b.Mean) + "/" + strconv.FormatUint(b.Max, 10)
		}
		name := e.Encoding
		if e.Buckets == nil {
			name = e.Kind + ", " + name
		}
		row := table.Row{name, count(e.Chunks), count(e.Samples), c.bytes(int64(e.Bytes)),
			ratio(e.Samples, e.Chunks), ratio(e.Bytes, e.Samples), text}
		if narrow {
			row = table.Row{row[0], row[1], row[2], row[3], row[5], row[6]}
		}
		rows = append(rows, row)
	}
	c.printf("\nChunks by encoding, and least, mean and most buckets of one:\n")
	if narrow {
		return c.printTable(table.Row{"encoding", "chunks", "samples", "bytes", "/sample", "buckets"}, rows, 1, 2, 3, 4, 5, 6)
	}
	return c.printTable(table.Row{"encoding", "chunks", "samples", "bytes", "samples/chunk", "bytes/sample", "buckets"}, rows, 1, 2, 3, 4, 5, 6, 7)
}

func ratio(a, b uint64) string {
	return strconv.FormatFloat(float64(a)/max(1, float64(b)), 'f', 2, 64)
}
