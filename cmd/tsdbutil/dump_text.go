package main

import (
	"bufio"
	"encoding/json"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// dumpText writes a line a sample: labels, value, milliseconds. What it writes of histograms is
// what promtool does.
type dumpText struct {
	w    *bufio.Writer
	name string
	text []byte
}

func (d *dumpText) begin(ls labels.Labels) error {
	d.name = ls.String()
	return nil
}

func (d *dumpText) batch(b *chunkenc.Batch) error {
	d.text = d.text[:0]
	for i, v := range b.V {
		d.text = append(append(d.text, d.name...), ' ')
		d.text = append(appendSample(d.text, v), ' ')
		d.text = append(strconv.AppendInt(d.text, b.T[i], 10), '\n')
	}
	return d.flush()
}

func (d *dumpText) histogram(s *histogramSample) error {
	d.text = append(append(d.text[:0], d.name...), ' ')
	d.text = append(appendBounds(d.text, s), ' ')
	d.text = append(strconv.AppendInt(d.text, s.t, 10), '\n')
	return d.flush()
}

func (d *dumpText) flush() error {
	_, err := d.w.Write(d.text)
	return errors.Wrap(err, "write output")
}

func (d *dumpText) end() error { return nil }

func (d *dumpText) close(tsdb.Warnings) error {
	return errors.Wrap(d.w.Flush(), "write output")
}

// dumpLabels writes the labels of a series a line.
type dumpLabels struct {
	c        *console
	w        *bufio.Writer
	replaced int // series with labels that are not UTF-8
}

func (d *dumpLabels) begin(ls labels.Labels) error {
	if !isUTF8(ls) {
		d.replaced++
	}
	encoded, err := json.Marshal(ls)
	if err != nil {
		return errors.Wrap(err, "encode labels")
	}
	_, err = d.w.Write(append(encoded, '\n'))
	return errors.Wrap(err, "write output")
}

func (d *dumpLabels) batch(*chunkenc.Batch) error      { return nil }
func (d *dumpLabels) histogram(*histogramSample) error { return nil }
func (d *dumpLabels) end() error                       { return nil }

func (d *dumpLabels) close(tsdb.Warnings) error {
	if err := d.w.Flush(); err != nil {
		return errors.Wrap(err, "write output")
	}
	return d.c.tellReplaced(d.replaced)
}
