package main

import (
	"bytes"
	"io"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
)

// importText reads OpenMetrics, or the Prometheus text format, which has milliseconds,
// and needs no end mark. Both are read leniently where it does no harm: blank lines,
// any comment, blanks and tabs. Every sample needs its time.
type importText struct {
	sink       *importSink
	prometheus bool
}

var endMark = []byte("# EOF")

func (i *importText) read(source *importSource) error {
	lines := lineReader{r: source.reader}
	ended := false
	for {
		line, err := lines.next()
		var long *lineError
		switch {
		case errors.Is(err, io.EOF):
			if !ended && !i.prometheus {
				return i.sink.bad(lines.number, errors.New(`the file ends without "# EOF": it may have been cut off`))
			}
			return nil
		case errors.As(err, &long):
			err = i.sink.bad(long.line, long.err)
		case err != nil:
			return errors.Wrapf(err, "read input behind line %d", lines.number)
		case ended:
			err = i.sink.bad(lines.number, errors.New(`something follows "# EOF"`))
		default:
			ended = !i.prometheus && bytes.Equal(line, endMark)
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
	line = bytes.Trim(line, " \t")
	if len(line) == 0 || line[0] == '#' {
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
	if l.exemplar {
		i.sink.Exemplars++
	}
	return i.sink.append(one, l.t, l.v)
}
