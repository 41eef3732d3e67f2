package main

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// tableResult has one line a series. On a terminal, what all series have in common
// stands above the table and not in each line. Series of histograms have a table of their own, and
// the newest histogram of the first ones is drawn below.
type tableResult struct {
	c      *console
	series []tableSeries
	bars   barPlots
}

type tableSeries struct {
	labels labels.Labels
	d      digest
	h      *histogramDigest // nil: it has no histograms
}

// tableBars is how many histograms are drawn below a table.
const tableBars = 3

// wideTable is from how many columns on there is room for everything.
const wideTable = 110

func (r *tableResult) begin(ls labels.Labels) error {
	r.series = append(r.series, tableSeries{labels: ls, d: newDigest()})
	r.bars.begin(seriesName(ls), unitOf(ls.Get(labels.MetricName)))
	return nil
}

func (r *tableResult) batch(b *chunkenc.Batch) error {
	r.series[len(r.series)-1].d.add(b.T, b.V)
	return nil
}

func (r *tableResult) histogram(s *histogramSample) error { return r.bars.histogram(s) }

func (r *tableResult) end() error {
	r.series[len(r.series)-1].h = r.bars.at
	return nil
}

func (r *tableResult) close(tsdb.Warnings) error {
	if len(r.series) == 0 {
		return nil
	}
	common := r.common()
	if !common.IsEmpty() {
		r.c.printf("%s\n\n", r.c.paint(sgrBold, shorten(seriesName(common), r.c.width)))
	}
	if err := r.printFloats(common); err != nil {
		return err
	}
	return r.printHistograms(common)
}

func (r *tableResult) wide() bool { return !r.c.terminal || r.c.width >= wideTable }

func (r *tableResult) printFloats(common labels.Labels) error {
	rows := make([]table.Row, 0, len(r.series))
	now, wide := time.Now(), r.wide()
	for i := range r.series {
		s := &r.series[i]
		if s.d.n == 0 && s.h != nil {
			continue
		}
		u := unitOf(s.labels.Get(labels.MetricName))
		v := func(x float64) string { return r.c.value(u, x) }
		row := table.Row{seriesName(without(s.labels, common)), count(s.d.n), v(s.d.min())}
		if wide {
			row = append(row, v(s.d.mean()))
		}
		rows = append(rows, append(row, v(s.d.max()), v(s.d.lastV), r.c.time(s.d.last, now)))
	}
	switch {
	case len(rows) == 0:
		return nil
	case wide:
		return r.c.printTable(table.Row{"series", "samples", "min", "mean", "max", "last", "last time"}, rows, 1, 2, 3, 4, 5, 6, 7)
	default:
		return r.c.printTable(table.Row{"series", "samples", "min", "max", "last", "at"}, rows, 1, 2, 3, 4, 5, 6)
	}
}

// printHistograms has the newest histogram of each series.
func (r *tableResult) printHistograms(common labels.Labels) error {
	rows := make([]table.Row, 0, len(r.bars.list))
	now, wide := time.Now(), r.wide()
	floats := false
	for i := range r.series {
		s := &r.series[i]
		if floats = floats || s.d.n > 0; s.h == nil {
			continue
		}
		h := &s.h.newest.fh
		row := table.Row{seriesName(without(s.labels, common)), count(s.h.n), r.c.value(unitNone, h.Count), r.c.value(s.h.unit, h.Sum)}
		if wide {
			row = append(row, r.c.value(s.h.unit, h.Sum/h.Count), schemaText(h.Schema))
		}
		rows = append(rows, append(row, r.c.time(s.h.last, now)))
	}
	if len(rows) == 0 {
		return nil
	}
	if floats {
		r.c.printf("\n")
	}
	var err error
	if wide {
		err = r.c.printTable(table.Row{"histograms", "samples", "count", "sum", "mean", "schema", "last time"}, rows, 1, 2, 3, 4, 5, 6, 7)
	} else {
		err = r.c.printTable(table.Row{"histograms", "samples", "count", "sum", "at"}, rows, 1, 2, 3, 4, 5)
	}
	if err != nil {
		return err
	}
	r.bars.print(r.c, tableBars, true)
	if more := len(r.bars.list) - tableBars; more > 0 {
		r.c.message("%s not drawn; --output=plot draws up to %d", things(more, "more histogram"), plotMaxLines)
	}
	return nil
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
