package tsdb_test

import (
	"fmt"
	"math"
	"slices"
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
type beside struct {
	exemplars []besideExemplar
	metadata  []besideMetadata
}

type besideExemplar struct {
	ls labels.Labels
	exemplar.Exemplar
}

type besideMetadata struct {
	ls labels.Labels
	t  int64 // of a sample of the series in the same commit
	tsdb.Metadata
}

// besideOf returns what a commit with these samples has beside them. No two commits have the same.
func besideOf(rows []row) (b beside) {
	if len(rows) == 0 {
		return b
	}
	for _, r := range []row{rows[0], rows[len(rows)-1]} {
		id := fmt.Sprint(r.T)
		if r.T%7 != 0 {
			b.exemplars = append(b.exemplars, besideExemplar{r.ls, exemplar.Exemplar{
				Labels: labels.FromStrings("id", id), T: r.T - r.T%5*1000, HasT: true, Value: float64(r.T),
			}})
		}
		if r.T%5 != 0 {
			b.metadata = append(b.metadata, besideMetadata{r.ls, r.T, tsdb.Metadata{Type: tsdb.MetricGauge, Help: id}})
		}
	}
	return b
}

// stage appends it.
func (b beside) stage(app *tsdb.Appender) error {
	for _, x := range b.exemplars {
		if _, err := app.AppendExemplar(0, x.ls, x.Exemplar); err != nil {
			return err
		}
	}
	for _, m := range b.metadata {
		if _, err := app.SetMetadata(0, m.ls, m.Metadata); err != nil {
			return err
		}
	}
	return nil
}

// records returns how many records of the log it is.
func (b beside) records() int { return min(len(b.exemplars), 1) + min(len(b.metadata), 1) }

// wantExemplars returns what Querier.Exemplars must after so many commits.
func (h *history) wantExemplars(commits int) []string {
	var newest []besideExemplar
	for k := commits - 1; k >= 0 && len(newest) < crashExemplars; k-- {
		newest = append(besideOf(h.commits[k].rows).exemplars, newest...)
	}
	newest = newest[max(0, len(newest)-crashExemplars):]
	slices.SortStableFunc(newest, func(a, b besideExemplar) int {
		if n := labels.Compare(a.ls, b.ls); n != 0 {
			return n
		}
		return int(a.T - b.T)
	})
	lines := []string{}
	for _, x := range newest {
		lines = append(lines, exemplarLine(x.ls, x.Exemplar))
	}
	return lines
}

func exemplarLine(ls labels.Labels, e exemplar.Exemplar) string {
	return fmt.Sprintf("%.60s %s %d %v", ls, e.Labels, e.T, e.Value)
}

// verifyBeside checks that exemplars and metadata are those after so many commits. The metadata of
// a series that the head has dropped may be there or not. That of one that has a sample of the same
// commit in the head must be.
func (h *history) verifyBeside(db *tsdb.DB, commits int, got map[labels.Labels][]point) error {
	if h.base != nil {
		return nil // it is not known what there was
	}
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	err = h.exemplarsAre(q, commits)
	if err == nil {
		err = h.metadataIs(q, commits, got, headStart(db.Blocks()))
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

func (h *history) metadataIs(q *tsdb.Querier, commits int, got map[labels.Labels][]point, start int64) error {
	want := map[labels.Labels]besideMetadata{}
	for _, c := range h.commits[:commits] {
		for _, m := range besideOf(c.rows).metadata {
			want[m.ls] = m
		}
	}
	list, err := q.Metadata(ctx)
	if err != nil {
		return err
	}
	for _, m := range list {
		if w := want[m.Labels]; w.Metadata != m.Metadata {
			return errors.Errorf("metadata of %.60s is %+v, want %+v", m.Labels, m.Metadata, w.Metadata)
		}
		delete(want, m.Labels)
	}
	for ls, m := range want {
		if m.t >= start && slices.ContainsFunc(got[ls], func(p point) bool { return p.T == m.t }) {
			return errors.Errorf("%.60s has no metadata, want %+v", ls, m.Metadata)
		}
	}
	return nil
}
