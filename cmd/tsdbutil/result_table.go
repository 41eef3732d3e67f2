package main

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// tableResult has one line a series. On a terminal, what all series have in common
// stands above the table and not in each line.
type tableResult struct {
	c      *console
	series []tableSeries
}

type tableSeries struct {
	labels labels.Labels
	d      digest
}

// wideTable is from how many columns on there is room for everything.
const wideTable = 110

func (r *tableResult) begin(ls labels.Labels) error {
	r.series = append(r.series, tableSeries{labels: ls, d: newDigest()})
	return nil
}

func (r *tableResult) samples(t []int64, v []float64) error {
	r.series[len(r.series)-1].d.add(t, v)
	return nil
}

func (r *tableResult) end() error { return nil }

func (r *tableResult) close(tsdb.Warnings) error {
	if len(r.series) == 0 {
		return nil
	}
	common := r.common()
	if !common.IsEmpty() {
		r.c.printf("%s\n\n", r.c.paint(sgrBold, shorten(seriesName(common), r.c.width)))
	}
	wide := !r.c.terminal || r.c.width >= wideTable
	rows := make([]table.Row, 0, len(r.series))
	now := time.Now()
	for i := range r.series {
		s := &r.series[i]
		u := unitOf(s.labels.Get(labels.MetricName))
		v := func(x float64) string { return r.c.value(u, x) }
		row := table.Row{seriesName(without(s.labels, common)), count(s.d.n), v(s.d.min())}
		if wide {
			row = append(row, v(s.d.mean()))
		}
		rows = append(rows, append(row, v(s.d.max()), v(s.d.lastV), r.c.time(s.d.last, now)))
	}
	if wide {
		return r.c.printTable(table.Row{"series", "samples", "min", "mean", "max", "last", "last time"}, rows, 1, 2, 3, 4, 5, 6, 7)
	}
	return r.c.printTable(table.Row{"series", "samples", "min", "max", "last", "at"}, rows, 1, 2, 3, 4, 5, 6)
}

// common returns the labels that all series share, if there are several and somebody
// looks at them.
func (r *tableResult) common() labels.Labels {
	if !r.c.terminal || len(r.series) < 2 {
		return labels.Labels{}
	}
	shared := r.series[0].labels.AppendTo(nil)
	for _, s := range r.series[1:] {
		kept := shared[:0]
		for _, l := range shared {
			if s.labels.Get(l.Name) == l.Value {
				kept = append(kept, l)
			}
		}
		shared = kept
	}
	return labels.New(shared...)
}

// without returns ls without the labels of common.
func without(ls, common labels.Labels) labels.Labels {
	var b labels.Builder
	b.Reset(ls)
	for l := range common.All() {
		b.Del(l.Name)
	}
	return b.Labels()
}
