package main

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// dumpExtras are what OpenMetrics has beside samples: comments in front of a metric, and exemplars
// behind samples. All are read once. They lie in the order of labels, in which series come, too.
type dumpExtras struct {
	metadata  []tsdb.SeriesMetadata // of series to come
	exemplars []exemplar.Series     // of series to come

	name   string              // of the metric of the present series
	family family              // that comments were written about last
	wait   []exemplar.Exemplar // of the present series, for a line
	onLine int                 // exemplars behind the present line

	units    int   // that were left out
	homeless int64 // exemplars of series without a line
	crowded  int64 // lines with several exemplars
}

// read takes what there is of the series that one of the selectors matches.
func (x *dumpExtras) read(
	ctx context.Context, q *tsdb.Querier, selectors [][]*labels.Matcher,
) error {
	for _, ms := range selectors {
		metadata, err := q.Metadata(ctx, ms...)
		if err != nil {
			return err
		}
		exemplars, err := q.Exemplars(ctx, ms...)
		if err != nil {
			return err
		}
		x.metadata, x.exemplars = append(x.metadata, metadata...), append(x.exemplars, exemplars...)
	}
	if len(selectors) > 1 {
		x.metadata = sortOnce(x.metadata, func(m *tsdb.SeriesMetadata) labels.Labels { return m.Labels })
		x.exemplars = sortOnce(x.exemplars, func(s *exemplar.Series) labels.Labels { return s.Labels })
	}
	return nil
}

// sortOnce sorts by labels, and leaves one of each series.
func sortOnce[T any](list []T, of func(*T) labels.Labels) []T {
	slices.SortStableFunc(list, func(a, b T) int { return labels.Compare(of(&a), of(&b)) })
	return slices.CompactFunc(list, func(a, b T) bool { return of(&a) == of(&b) })
}

// begin goes to a series, and writes the comments that belong in front of it.
func (x *dumpExtras) begin(dst []byte, ls labels.Labels) []byte {
	x.wait = nil
	for len(x.exemplars) > 0 && labels.Compare(x.exemplars[0].Labels, ls) < 0 {
		x.homeless += int64(len(x.exemplars[0].Exemplars))
		x.exemplars = x.exemplars[1:]
	}
	if len(x.exemplars) > 0 && x.exemplars[0].Labels == ls {
		x.wait, x.exemplars = x.exemplars[0].Exemplars, x.exemplars[1:]
	}
	name := ls.Get(labels.MetricName)
	first := name != x.name
	x.name = name
	for len(x.metadata) > 0 && labels.Compare(x.metadata[0].Labels, ls) < 0 {
		x.metadata = x.metadata[1:]
	}
	if len(x.metadata) == 0 || name == "" {
		return dst
	}
	// Comments are about all series of a metric that follow. So those that are known of a later one
	// stand in front of the first, of which nothing may be known: blocks have no metadata.
	next := &x.metadata[0]
	if next.Labels == ls || first && next.Labels.Get(labels.MetricName) == name {
		return x.comments(dst, next.Metadata)
	}
	return dst
}

// comments writes what is known of the present metric, if that is not what was written last.
func (x *dumpExtras) comments(dst []byte, m tsdb.Metadata) []byte {
	f := family{name: familyOf(x.name, m.Type), kind: m.Type.String(), unit: m.Unit, help: m.Help}
	odd := f.unit != "" && !unitFits(f.name, f.unit)
	if odd {
		f.unit = ""
	}
	last := x.family
	if f == last {
		return dst
	}
	if odd {
		x.units++
	}
	x.family = f
	if last.name != f.name {
		last = family{}
	}
	if f.kind != last.kind {
		dst = f.appendComment(dst, "TYPE", f.kind)
	}
	if f.unit != last.unit {
		dst = f.appendComment(dst, "UNIT", f.unit)
	}
	if f.help != last.help {
		dst = f.appendComment(dst, "HELP", openEscapes.Replace(strings.ToValidUTF8(f.help, "\ufffd")))
	}
	return dst
}

// unitFits says whether OpenMetrics has a place for a unit: its readers refuse one that the name of
// the family does not end with.
func unitFits(name, unit string) bool {
	return isPlainName("_"+unit, false) && strings.HasSuffix(name, "_"+unit)
}

// appendComment writes a comment about a family.
func (f *family) appendComment(dst []byte, key, text string) []byte {
	dst = append(append(append(dst, "# "...), key...), ' ')
	if isPlainName(f.name, true) {
		dst = append(dst, f.name...)
	} else {
		dst = appendOpenText(dst, f.name)
	}
	return append(append(append(dst, ' '), text...), '\n')
}

// familySuffixes are what the names of series have behind that of the family.
var familySuffixes = map[tsdb.MetricType][]string{
	tsdb.MetricCounter:        {"_total"},
	tsdb.MetricHistogram:      {"_bucket", "_count", "_sum"},
	tsdb.MetricGaugeHistogram: {"_bucket", "_gcount", "_gsum"},
	tsdb.MetricSummary:        {"_count", "_sum"},
	tsdb.MetricInfo:           {"_info"},
}

// familyOf is the family that a metric is of.
func familyOf(name string, kind tsdb.MetricType) string {
	for _, suffix := range familySuffixes[kind] {
		if family, ok := strings.CutSuffix(name, suffix); ok && family != "" {
			return family
		}
	}
	return name
}

// gauges says whether the comments have made all histograms of the present series gauges.
func (x *dumpExtras) gauges() bool { return x.family.gauges() && x.family.has(x.name) }

// behind writes the exemplars that belong behind a line with a sample at t: those that wait and are
// not newer.
func (x *dumpExtras) behind(dst []byte, t int64) []byte {
	for len(x.wait) > 0 && x.wait[0].T <= t {
		if x.onLine++; x.onLine == 2 {
			x.crowded++
		}
		dst = appendExemplar(dst, &x.wait[0])
		x.wait = x.wait[1:]
	}
	return dst
}

// rest writes all exemplars that wait behind the last line of a series.
func (x *dumpExtras) rest(dst []byte) []byte { return x.behind(dst, math.MaxInt64) }

func appendExemplar(dst []byte, e *exemplar.Exemplar) []byte {
	dst = append(dst, " # {"...)
	n := 0
	for l := range e.Labels.All() {
		dst = appendOpenLabel(dst, n, l)
		n++
	}
	dst = appendFloat(append(dst, "} "...), e.Value)
	if e.HasT {
		dst = appendSeconds(append(dst, ' '), e.T)
	}
	return dst
}

// tell says what readers of the dump may miss, or refuse.
func (x *dumpExtras) tell(c *console) {
	for _, s := range x.exemplars {
		x.homeless += int64(len(s.Exemplars))
	}
	if x.homeless > 0 {
		c.message("left out %s of series without a sample here", things(x.homeless, "exemplar"))
	}
	if x.units > 0 {
		c.message("left out the unit of %s: OpenMetrics wants names that end with it",
			things(x.units, "metric"))
	}
	if x.crowded > 0 {
		c.message("%s with several exemplars, which readers of OpenMetrics 1.0 refuse",
			things(x.crowded, "line"))
	}
}
