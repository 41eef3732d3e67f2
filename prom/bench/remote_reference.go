package bench

import (
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/storage/remote"
)

// Limits of the reference's server, which has them as flags.
const (
	referenceSampleLimit = 50_000_000
	referenceConcurrency = 10
	referenceFrameBytes  = 1 << 20
)

func (r *reference) readHandler() http.Handler {
	return remote.NewReadHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), r.db,
		func() config.Config { return config.Config{} }, referenceSampleLimit, referenceConcurrency, referenceFrameBytes)
}
