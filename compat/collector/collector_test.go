package collector

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/remote"
)

// What a program says to a collector in OTLP is there, whichever way it comes.
func TestCollector_SendsAllKinds(t *testing.T) {
	for _, e := range exporters {
		t.Run(e.name, func(t *testing.T) {
			require.Equal(t, e.stores(shopStored(t)), sendShop(t, e))
		})
	}
}

// A histogram with bounds may be stored, or sent, as one native histogram.
func TestCollector_SendsCustomBuckets(t *testing.T) {
	stores, sends := exporters[0], exporters[3]
	stores.ours = func(db *tsdb.DB) http.Handler {
		return remote.NewOTLPHandler(db, &remote.OTLPOptions{PromoteScope: true, StartTimestamps: true, CustomBuckets: true})
	}
	sends.options += ", convert_explicit_histograms_to_nhcb: true"
	for _, e := range []exporter{stores, sends} {
		t.Run(e.name, func(t *testing.T) {
			require.Equal(t, e.stores(shopStoredCustom(t)), sendShop(t, e))
		})
	}
}

// sendShop has a collector send, and returns what is stored then.
func sendShop(t *testing.T, e exporter) stored {
	t.Helper()
	db := openDB(t)
	c := startCollector(t, e, db, 0)
	require.Equal(t, http.StatusOK, c.post(shop(0, 1)))
	require.Equal(t, http.StatusOK, c.post(shop(15, 2)))
	c.stop()
	require.Empty(t, c.complaints())
	return dump(t, db)
}
