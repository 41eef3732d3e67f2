package main

import (
	"context"
	"math"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
)

// listedMetadata is what is known of the metric of a series, in JSON.
type listedMetadata struct {
	Labels map[string]string `json:"labels"`
	Type   string            `json:"type"`
	Unit   string            `json:"unit"`
	Help   string            `json:"help"`
}

// listMetadata lists the metadata of the series in the head.
func listMetadata(ctx context.Context, c *console, r *tsdb.Reader, output string) error {
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	all, err := q.Metadata(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		list := make([]listedMetadata, 0, len(all))
		for _, m := range all {
			of := map[string]string{}
			for l := range m.Labels.All() {
				of[l.Name] = l.Value
			}
			list = append(list, listedMetadata{of, m.Metadata.Type.String(), m.Metadata.Unit, m.Metadata.Help})
		}
		return c.printJSON(map[string]any{"metadata": list})
	}
	if len(all) == 0 {
		c.message("no series in the log has metadata")
		return nil
	}
	rows := make([]table.Row, 0, len(all))
	for _, m := range all {
		rows = append(rows, table.Row{m.Labels.String(), m.Metadata.Type.String(), oneLine(m.Metadata.Unit), oneLine(m.Metadata.Help)})
	}
	return c.printTable(table.Row{"SERIES", "TYPE", "UNIT", "HELP"}, rows, 1)
}

// oneLine quotes a text that is not one line of letters.
func oneLine(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}
