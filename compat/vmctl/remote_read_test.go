package vmctl

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/VictoriaMetrics/VictoriaMetrics/app/vmctl/remoteread"
	"github.com/VictoriaMetrics/VictoriaMetrics/app/vmctl/vm"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom"
)

// The client reads hour by hour, in both modes, and keeps all that is in the chunks that it gets:
// what is beside the hour that it asked for would come twice.
func TestVmctl_ReadsFromAfar(t *testing.T) {
	db, want := newWorld(t)
	server := httptest.NewServer(prom.NewHandler(db, nil))
	defer server.Close()
	for _, streamed := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %t", streamed), func(t *testing.T) {
			client, err := remoteread.NewClient(remoteread.Config{
				Addr: server.URL, UseStream: streamed, LabelNames: []string{"__name__"}, LabelValues: []string{".*"}, Timeout: patience,
			})
			require.NoError(t, err)
			got := data{}
			take := func(s *vm.TimeSeries) error {
				pairs := map[string]string{"__name__": s.Name}
				for _, l := range s.LabelPairs {
					pairs[l.Name] = l.Value
				}
				key := keyOf(pairs)
				for i, at := range s.Timestamps {
					got[key] = append(got[key], sample{at, s.Values[i]})
				}
				return nil
			}
			for from := start - start%hour; from < start+steps*step; from += hour {
				require.NoError(t, client.Read(t.Context(), &remoteread.Filter{StartTimestampMs: from, EndTimestampMs: from + hour}, take))
			}
			requireEqual(t, want, got)
		})
	}
}
