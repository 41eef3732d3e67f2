package main

import (
	"io"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// importJSON reads what "query" and "dump" write as JSON: objects with labels and samples, one
// behind the other, or in the array "series" of one object. What else an object has is passed
// over. Of an array of samples one is in memory at a time.
type importJSON struct {
	sink *importSink
	s    jsonScanner
	n    int // samples
}

func (i *importJSON) read(source *importSource) error {
	i.s = jsonScanner{r: source.reader, line: 1, longest: i.sink.longest}
	for {
		c, err := i.s.peekDocument()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && c != '{' {
			err = i.s.unexpected("an object")
		}
		if err == nil {
			err = i.object(true)
		}
		if err != nil {
			return i.end(err)
		}
	}
}

// end decides about an error after which nothing more can be read.
func (i *importJSON) end(err error) error {
	var damage *jsonError
	switch {
	case errors.Is(err, io.EOF):
		return i.sink.bad(i.s.line, errors.New("the input ends within an object: it may have been cut off"))
	case errors.As(err, &damage):
		return i.sink.bad(i.s.line, err)
	default:
		return err
	}
}

// object reads a series, or the document that has them. One that is neither is told: it is JSON of
// something else.
func (i *importJSON) object(document bool) error {
	if _, err := i.s.peek(); err != nil {
		return err
	}
	line := i.s.line
	var one *importSeries
	isDocument := false
	err := i.s.object(func(key string) error {
		switch {
		case key == "series" && document:
			isDocument = true
			return i.s.array(func() error { return i.object(false) })
		case key == "labels":
			ls, err := i.labels()
			one = ls
			return err
		case key == "samples" && one == nil:
			return i.s.damage(`"samples" without "labels" in front of them`)
		case key == "samples":
			return i.s.array(func() error { return i.sample(one) })
		default:
			return i.s.skip(maxJSONDepth)
		}
	})
	switch {
	case err != nil || isDocument || one != nil:
		return err
	case document:
		return i.sink.bad(line, errors.New(`the object has neither "series" nor "labels": it is not of "query" or "dump"`))
	default:
		return i.sink.bad(line, errors.New(`the object has no "labels"`))
	}
}

// labels reads an object of texts.
func (i *importJSON) labels() (*importSeries, error) {
	var b labels.Builder
	size := 0
	err := i.s.object(func(name string) error {
		value, err := i.s.text()
		if err != nil {
			return err
		}
		if size += len(name) + len(value); size > i.s.limit() {
			return i.s.damage("the labels are longer than " + count(i.s.limit()) + " bytes")
		}
		if b.Get(name) != "" {
			return i.s.damage("label " + quoted(name) + " appears more than once")
		}
		b.Set(name, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range i.sink.extra {
		b.Set(l.Name, l.Value)
	}
	return &importSeries{ls: b.Labels()}, nil
}

// sample reads [time,value] or [time,value,start]; the value may be a histogram. What is wrong with
// these is wrong with this sample only.
func (i *importJSON) sample(one *importSeries) error {
	if _, err := i.s.peek(); err != nil {
		return err
	}
	line := i.s.line
	var parts [3]string
	var h *jsonHistogram
	n := 0
	if err := i.s.array(func() error {
		n++
		if n > len(parts) {
			return i.s.damage("a sample is more than a time, a value and a start timestamp")
		}
		c, err := i.s.peek()
		if err == nil && c == '{' && n == 2 {
			h = &jsonHistogram{}
			return h.read(&i.s)
		}
		parts[n-1], err = i.s.scalar()
		return err
	}); err != nil {
		return err
	}
	if n < 2 {
		return i.s.damage("a sample is less than a time and a value")
	}
	i.n++
	if err := i.sink.bad(line, i.append(one, parts, h)); err != nil {
		return err
	}
	return i.sink.poll(i.n)
}

// append adds a sample of these parts; h is its value, if that is a histogram.
func (i *importJSON) append(one *importSeries, parts [3]string, h *jsonHistogram) (err error) {
	x := tsdb.Sample{}
	if h != nil {
		if err := h.finish(); err != nil {
			return err
		}
		x = h.s.sample()
	} else if x.V, err = parseValue([]byte(parts[1])); err != nil {
		return err
	}
	if x.T, err = parseMilliseconds([]byte(parts[0])); err != nil {
		return err
	}
	if parts[2] != "" {
		if x.ST, err = parseMilliseconds([]byte(parts[2])); err != nil {
			return errors.WithMessage(err, "start timestamp")
		}
	}
	return i.sink.appendSample(one, x)
}
