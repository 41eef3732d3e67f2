// Package prom lets programs of the Prometheus ecosystem work on a tsdb database: NewStorage is the
// database as the storage that the PromQL engine and other programs expect.
//
//	db, err := tsdb.Open("data", nil)
//	...
//	store := prom.NewStorage(db)
//	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute})
//	query, err := engine.NewInstantQuery(ctx, store, nil, `sum by (job) (rate(http_requests_total[5m]))`, time.Now())
//
// It knows both vocabularies and nothing else: no file, no byte of a chunk.
package prom
