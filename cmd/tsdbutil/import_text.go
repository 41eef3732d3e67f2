package main

import (
	"bytes"
	"io"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// importText reads OpenMetrics, or the Prometheus text format, which has milliseconds,
// and needs no end mark. Both are read leniently where it does no harm: blank lines, behind the
// end mark, too, any comment, blanks and tabs. Every sample needs its time.
type importText struct {
	sink       *importSink
	prometheus bool
	end        endMarks
	extras     importExtras // nil: nobody takes them
	family     family       // that comments were about last
	histogram  histogramSample
}

// isEndMark says whether a line is the last of OpenMetrics. Blanks around it are taken.
func isEndMark(line []byte) bool { return string(bytes.TrimSpace(line)) == "# EOF" }

// endMarks looks where end marks are. Files that were put together have one in the middle, too:
// what counts is the last one.
type endMarks struct {
	any    bool
	behind int // the first line behind the last mark that is not blank; 0: there is none
}

// line takes the line of a number.
func (e *endMarks) line(number int, line []byte) {
	switch {
	case isEndMark(line):
		e.any, e.behind = true, 0
	case e.any && e.behind == 0 && len(bytes.TrimSpace(line)) > 0:
		e.behind = number
	}
}

// missing says what a text of so many lines lacks, and where: nil if it ends as it should.
func (e *endMarks) missing(lines int) (line int, err error) {
	switch {
	case lines == 0:
		return 1, errors.New("the input is empty")
	case !e.any:
		return lines, errors.New(`the file ends without "# EOF": it may have been cut off`)
	case e.behind > 0:
		return e.behind, errors.New(`something follows "# EOF", and no other one stands behind it: it may have been cut off`)
	default:
		return lines, nil
	}
}

func (i *importText) read(source *importSource) error {
	lines := lineReader{r: source.reader, longest: i.sink.longest}
	for {
		line, err := lines.next()
		var long *lineError
		switch {
		case errors.Is(err, io.EOF) && i.prometheus:
			return nil
		case errors.Is(err, io.EOF):
			return i.sink.bad(i.end.missing(lines.number))
		case errors.As(err, &long):
			err = i.sink.bad(long.line, long.err)
		case err != nil:
			return errors.Wrapf(err, "read input behind line %d", lines.number)
		default:
			i.end.line(lines.number, line)
			err = i.sink.bad(lines.number, i.line(line))
		}
		if err == nil {
			err = i.sink.poll(lines.number)
		}
		if err != nil {
			return err
		}
	}
}

// line reads one line that may have a sample.
func (i *importText) line(line []byte) error {
	// A mark stands within a text when files were put together.
	line = bytes.Trim(bytes.TrimPrefix(line, []byte(markUTF8)), " \t")
	if len(line) == 0 {
		return nil
	}
	if line[0] == '#' {
		if i.family.comment(line) && i.extras == nil {
			i.sink.Comments++
		}
		return nil
	}
	l, err := parseTextLine(line, i.prometheus)
	if err != nil {
		return err
	}
	one, err := i.sink.series(l.series, func(b *labels.Builder) error { return parseSeries(l.series, i.prometheus, b) })
	if err != nil {
		return err
	}
	if err := i.sample(one, &l); err != nil {
		return err
	}
	return i.exemplars(one, &l)
}

// sample adds the sample of a line.
func (i *importText) sample(one *importSeries, l *textLine) error {
	if i.extras != nil && !one.any && i.family.has(one.ls.Get(labels.MetricName)) {
		if err := i.extras.metadata(one.ls, i.family); err != nil {
			return err
		}
	}
	switch {
	case l.histogram == nil && l.st == 0:
		return i.sink.append(one, l.t, l.v)
	case l.histogram == nil:
		return i.sink.appendSample(one, tsdb.Sample{T: l.t, ST: l.st, V: l.v})
	}
	s := &i.histogram
	s.t, s.st = l.t, l.st
	if err := parseHistogram(l.histogram, s); err != nil {
		return err
	}
	saysItself := bytes.Contains(l.histogram, []byte(textGauge))
	if !saysItself && i.family.gauges() && i.family.has(one.ls.Get(labels.MetricName)) {
		s.setGauge()
	}
	return i.sink.appendSample(one, s.sample())
}

// exemplars hands over those of a line, or counts them. One without a time has that of its sample.
func (i *importText) exemplars(one *importSeries, l *textLine) error {
	if len(l.exemplars) == 0 {
		return nil
	}
	if i.extras == nil {
		i.sink.Exemplars += countExemplars(l.exemplars)
		return nil
	}
	return parseExemplars(l.exemplars, func(e exemplar.Exemplar) error {
		if !e.HasT {
			e.T = l.t
		}
		return i.extras.exemplar(one.ls, e)
	})
}
