package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

var errTenant = errors.New("tenant has enough series")

// noTenantB refuses series of one tenant.
func noTenantB(ls labels.Labels) error {
	if ls.Get("tenant") == "b" {
		return errTenant
	}
	return nil
}

func TestNewSeries_RefusesSeriesThatAreNew(t *testing.T) {
	var asked []string
	f := newFixture(t, func(o *tsdb.Options) {
		o.Limits.NewSeries = func(ls labels.Labels) error {
			asked = append(asked, ls.String())
			return noTenantB(ls)
		}
	})
	a, b := labels.FromStrings("tenant", "a"), labels.FromStrings("tenant", "b")
	app := f.db.Appender()
	ref, err := app.Append(0, a, 1, 1)
	require.NoError(t, err)
	for name, appendB := range map[string]func() error{
		"a sample":    func() error { _, err := app.Append(0, b, 1, 1); return err },
		"an exemplar": func() error { _, err := app.AppendExemplar(0, b, exemplarOf("x", 1, 1)); return err },
		"metadata":    func() error { _, err := app.SetMetadata(0, b, tsdb.Metadata{Help: "x"}); return err },
	} {
		err := appendB()
		require.ErrorIs(t, err, errTenant, name)
		require.ErrorIs(t, err, tsdb.ErrLimit, name)
		require.EqualError(t, err, "refused by Limits.NewSeries: tenant has enough series", name)
	}
	_, err = app.Append(0, labels.FromStrings("tenant", strings.Repeat("b", 5000)), 1, 1)
	require.NotErrorIs(t, err, errTenant, "the other limits come first")
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, res.Samples, "what is refused spoils nothing")
	require.Equal(t, []string{a.String(), b.String(), b.String(), b.String()}, asked)

	asked = nil
	f.commit(sample{a.String(), 2, 1})
	app = f.db.Appender()
	_, err = app.Append(ref, labels.Labels{}, 3, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, asked, "known ones are not asked for")
	f.reopen()
	require.Empty(t, asked, "nor those that are recovered")
	require.Equal(t, 1, f.db.Stats().Series)
}

// The rule may use the database that asks it.
func TestNewSeries_MayQueryAndAppend(t *testing.T) {
	var db *tsdb.DB
	counter := labels.FromStrings("__name__", "series_seen")
	rule := func(ls labels.Labels) error {
		if labels.Compare(ls, counter) == 0 {
			return nil
		}
		q, err := db.Querier(math.MinInt64, math.MaxInt64)
		if err != nil {
			return err
		}
		defer q.Close()
		set := q.Select(ctx, nil, labels.Equal("tenant", ls.Get("tenant")))
		for n := 0; set.Next(); n++ {
			if n == 2 {
				return errTenant
			}
		}
		app := db.Appender()
		if _, err := app.Append(0, counter, db.Stats().MaxT+1, 1); err != nil {
			return err
		}
		_, err = app.Commit(ctx)
		return err
	}
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.NewSeries = rule })
	db = f.db
	for i := range 5 {
		app := db.Appender()
		_, err := app.Append(0, labels.FromStrings("tenant", "a", "i", fmt.Sprint(i)), int64(100+i), 1)
		if i < 3 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, errTenant)
		}
		_, err = app.Commit(ctx)
		require.NoError(t, err)
		require.NoError(t, db.Flush(ctx))
	}
}

func TestNewSeries_APanicReachesWhoAppends_AndHarmsNothing(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		o.Limits.NewSeries = func(ls labels.Labels) error {
			if ls.Get("a") == "panic" {
				panic("of the program")
			}
			return nil
		}
	})
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{a="b"}`), 1, 1)
	require.NoError(t, err)
	require.PanicsWithValue(t, "of the program", func() { _, _ = app.Append(0, series(t, `{a="panic"}`), 1, 1) })
	_, err = app.Append(0, series(t, `{a="c"}`), 1, 1)
	require.NoError(t, err)
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, res.Samples)
	require.NoError(t, f.db.Flush(ctx))
}

func TestNewSeries_ByManyGoroutines(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.NewSeries = noTenantB })
	var appenders sync.WaitGroup
	for range 4 {
		appenders.Go(func() {
			for i := range 200 {
				app := f.db.Appender()
				for _, tenant := range []string{"a", "b"} {
					_, err := app.Append(0, labels.FromStrings("tenant", tenant, "i", fmt.Sprint(i)), 1, 1)
					if (tenant == "b") != errors.Is(err, errTenant) {
						t.Errorf("series %d of %s: %v", i, tenant, err)
					}
				}
				if _, err := app.Commit(context.Background()); err != nil {
					t.Errorf("commit: %v", err)
				}
			}
		})
	}
	appenders.Wait()
	require.Equal(t, 200, f.db.Stats().Series)
}

func TestNewSeries_OfABlockWriter(t *testing.T) {
	f := newFixture(t, nil)
	w, err := tsdb.NewBlockWriter("blocks", &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock, Limits: tsdb.Limits{NewSeries: noTenantB}})
	require.NoError(t, err)
	require.NoError(t, w.Append(labels.FromStrings("tenant", "a"), 1, 1))
	err = w.Append(labels.FromStrings("tenant", "b"), 1, 1)
	require.ErrorIs(t, err, errTenant)
	require.ErrorIs(t, err, tsdb.ErrLimit)
	metas, err := w.Flush(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, metas[0].Stats.NumSeries)
	require.NoError(t, w.Close())
}
