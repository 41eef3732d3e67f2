package tsdb_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// What commits have beside samples: exemplars and metadata, in most of them. It follows from the
// samples, so whoever knows these knows all.

// crashExemplars is how many exemplars are kept: those of a few commits, so that they push others
// out.
const crashExemplars = 7

// beside is what a commit has beside samples.
type beside struct{ exemplars, metadata []besideSample }

// besideSample is the sample that an exemplar, or metadata, comes with and follows from.
type besideSample struct {
	ls labels.Labels
	t  int64
}

func (s besideSample) id() string { return strconv.FormatInt(s.t, 10) }

func (s besideSample) exemplar() exemplar.Exemplar {
	return exemplar.Exemplar{Labels: labels.FromStrings("id", s.id()), T: s.at(), HasT: true, Value: float64(s.t)}
}

// at is the time of the exemplar: some are late.
func (s besideSample) at() int64 { return s.t - s.t%5*1000 }

func (s besideSample) metadata() tsdb.Metadata {
	return tsdb.Metadata{Type: tsdb.MetricGauge, Help: s.id()}
}

// besideOf returns what a commit with these samples has beside them. No two commits have the same.
func besideOf(rows []row) (b beside) {
	if len(rows) == 0 {
		return b
	}
	for _, r := range []row{rows[0], rows[len(rows)-1]} {
		if r.T%7 != 0 {
			b.exemplars = append(b.exemplars, besideSample{r.ls, r.T})
		}
		if r.T%5 != 0 {
			b.metadata = append(b.metadata, besideSample{r.ls, r.T})
		}
	}
	return b
}

// stage appends it.
func (b beside) stage(app *tsdb.Appender) error {
	for _, x := range b.exemplars {
		if _, err := app.AppendExemplar(0, x.ls, x.exemplar()); err != nil {
			return err
		}
	}
	for _, m := range b.metadata {
		if _, err := app.SetMetadata(0, m.ls, m.metadata()); err != nil {
			return err
		}
	}
	return nil
}

// records returns how many records of the log it is.
func (b beside) records() int { return min(len(b.exemplars), 1) + min(len(b.metadata), 1) }

// wantExemplars returns what Querier.Exemplars must after so many commits.
func (h *history) wantExemplars(commits int) []string {
	var newest []besideSample
	for k := commits - 1; k >= 0 && len(newest) < crashExemplars; k-- {
		newest = append(besideOf(h.commits[k].rows).exemplars, newest...)
	}
	newest = newest[max(0, len(newest)-crashExemplars):]
	slices.SortStableFunc(newest, func(a, b besideSample) int {
		if n := labels.Compare(a.ls, b.ls); n != 0 {
			return n
		}
		return int(a.at() - b.at())
	})
	lines := []string{}
	for _, x := range newest {
		lines = append(lines, exemplarLine(x.ls, x.exemplar()))
	}
	return lines
}

func exemplarLine(ls labels.Labels, e exemplar.Exemplar) string {
	return fmt.Sprintf("%.60s %s %d %v", ls, e.Labels, e.T, e.Value)
}

// verifyBeside checks that exemplars and metadata are those after so many commits. The metadata of
// a series that the head has dropped may be there or not. That of one that has a sample of the same
// commit in the head must be.
func (h *history) verifyBeside(db *tsdb.DB, commits int, e *effects, got map[labels.Labels][]point) error {
	if h.base != nil {
		return nil // it is not known what there was
	}
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	err = h.exemplarsAre(q, commits)
	if err == nil {
		start := headStart(db.Blocks())
		err = h.metadataIs(q, commits, got, func(ls labels.Labels, t int64) bool { return t >= start && !e.ended[sampleKey{ls, t}] })
	}
	if closeErr := q.Close(); err == nil {
		err = closeErr
	}
	return errors.WithMessagef(err, "after %d commits", commits)
}

func (h *history) exemplarsAre(q *tsdb.Querier, commits int) error {
	found, err := q.Exemplars(ctx)
	if err != nil {
		return err
	}
	lines := []string{}
	for _, s := range found {
		for _, e := range s.Exemplars {
			lines = append(lines, exemplarLine(s.Labels, e))
		}
	}
	if want := h.wantExemplars(commits); !slices.Equal(lines, want) {
		return errors.Errorf("exemplars are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

func (h *history) metadataIs(q *tsdb.Querier, commits int, got map[labels.Labels][]point, inHead func(ls labels.Labels, t int64) bool) error {
	want := map[labels.Labels]int64{} // the sample that it comes with
	for _, c := range h.commits[:commits] {
		for _, m := range besideOf(c.rows).metadata {
			want[m.ls] = m.t
		}
	}
	list, err := q.Metadata(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		t, ok := want[m.Labels]
		if w := (besideSample{m.Labels, t}).metadata(); !ok || w != m.Metadata {
			return errors.Errorf("metadata of %.60s is %+v, want %+v: %v", m.Labels, m.Metadata, w, ok)
		}
		delete(want, m.Labels)
	}
	for ls, t := range want {
		if inHead(ls, t) && slices.ContainsFunc(got[ls], func(p point) bool { return p.T == t }) {
			return errors.Errorf("%.60s has no metadata, want that of %d", ls, t)
		}
	}
	return nil
}
