package prom

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// EngineOptions configure NewEngine. The zero value of each field means its default, which is that
// of a Prometheus server.
type EngineOptions struct {
	// Lookback is how old the newest sample of a series may be for the series to have a value.
	// Default 5 minutes.
	Lookback time.Duration
	// Concurrency is how many queries are answered at a time; others wait. Default 20.
	Concurrency int
	// MaxSamples is how many samples one query may hold in memory. Default 50 million.
	MaxSamples int
	// Timeout is how long a query may take, waiting included. Default 2 minutes.
	Timeout time.Duration
	// SubqueryStep is the step of subqueries that name none. Default 1 minute.
	SubqueryStep time.Duration

	// Experimental turns on functions and syntax of PromQL that may change.
	Experimental bool
	// NoAt and NoNegativeOffset turn off what some programs do not want to be asked.
	NoAt, NoNegativeOffset bool
	// StepStats lets clients ask for statistics of each step (stats=all).
	StepStats bool
	// DelayedNameRemoval keeps names of metrics until the end of a query.
	DelayedNameRemoval bool
	// StartTimestamps lets functions like rate use start timestamps, where there are some.
	StartTimestamps bool
	// TypeAndUnitLabels has rate and increase go by the label __type__, not by names, where they
	// inform of what may be no counter.
	TypeAndUnitLabels bool

	// Registerer gets the metrics of the engine. Default: nobody does.
	Registerer prometheus.Registerer
}

func (o *EngineOptions) withDefaults() EngineOptions {
	var c EngineOptions
	if o != nil {
		c = *o
	}
	setDefault(&c.Lookback, 5*time.Minute)
	setDefault(&c.Concurrency, 20)
	setDefault(&c.MaxSamples, 50_000_000)
	setDefault(&c.Timeout, 2*time.Minute)
	setDefault(&c.SubqueryStep, time.Minute)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// parser returns a parser of expressions.
func (o *EngineOptions) parser() parser.Parser {
	return &boundedParser{
		Parser: parser.NewParser(parser.Options{
			EnableExperimentalFunctions:  o.Experimental,
			ExperimentalDurationExpr:     o.Experimental,
			EnableExtendedRangeSelectors: o.Experimental,
			EnableBinopFillModifiers:     o.Experimental,
		}),
		subqueryStep: o.SubqueryStep, maxSteps: o.subquerySteps(),
	}
}

// subquerySteps is how many steps a subquery may have.
func (o *EngineOptions) subquerySteps() int { return min(o.MaxSamples, maxSubquerySteps) }

// NewEngine returns an engine that answers PromQL over any storage. Nil options are the defaults.
func NewEngine(opts *EngineOptions) *promql.Engine {
	o := opts.withDefaults()
	return promql.NewEngine(promql.EngineOpts{
		Reg:                      o.Registerer,
		MaxSamples:               o.MaxSamples,
		Timeout:                  o.Timeout,
		ActiveQueryTracker:       newTurnstile(o.Concurrency),
		LookbackDelta:            o.Lookback,
		NoStepSubqueryIntervalFn: func(int64) int64 { return o.SubqueryStep.Milliseconds() },
		EnableAtModifier:         !o.NoAt,
		EnableNegativeOffset:     !o.NoNegativeOffset,
		EnablePerStepStats:       o.StepStats,
		EnableDelayedNameRemoval: o.DelayedNameRemoval,
		UseStartTimestamps:       o.StartTimestamps,
		EnableTypeAndUnitLabels:  o.TypeAndUnitLabels,
		Parser:                   o.parser(),
	})
}

// turnstile lets so many queries through at a time.
type turnstile chan struct{}

func newTurnstile(n int) turnstile { return make(turnstile, n) }

// GetMaxConcurrent implements promql.QueryTracker.
func (t turnstile) GetMaxConcurrent() int { return cap(t) }

// Insert implements promql.QueryTracker: it waits for a place.
func (t turnstile) Insert(ctx context.Context, _ string) (int, error) {
	select {
	case t <- struct{}{}:
		return 0, nil
	default:
	}
	select {
	case t <- struct{}{}:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Delete implements promql.QueryTracker.
func (t turnstile) Delete(int) { <-t }

// Close implements promql.QueryTracker.
func (turnstile) Close() error { return nil }
