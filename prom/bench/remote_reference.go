package bench

import (
	"log/slog"
	"net/http"

	remoteapi "github.com/prometheus/client_golang/exp/api/remote"
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

func (r *reference) writeHandler() http.Handler {
	both := remoteapi.MessageTypes{remoteapi.WriteV1MessageType, remoteapi.WriteV2MessageType}
	return remote.NewWriteHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), r.db, both, false, false, false)
}

func (r *reference) otlpHandler() http.Handler {
	return remote.NewOTLPWriteHandler(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), r.db, func() config.Config { return config.DefaultConfig }, remote.OTLPOptions{})
}
