package sender

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	suite "github.com/prometheus/compliance/remotewrite/sender"
	"github.com/stretchr/testify/require"
)

// buildServe builds our server, a tool of this module, and returns where it is.
func buildServe(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "tool", "-n", "tsdbserve").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// scrapingSender is our server as the suite sees it.
type scrapingSender struct {
	t    *testing.T
	path string
}

func (s *scrapingSender) Name() string { return "tsdbserve" }

// Run scrapes and sends until the context ends.
func (s *scrapingSender) Run(ctx context.Context, o suite.Options) error {
	dir := s.t.TempDir()
	text := fmt.Sprintf(`
global: {scrape_interval: 1s}
scrape_configs: [{job_name: %q, static_configs: [{targets: [%q]}]}]
remote_write: [{url: %q, protobuf_message: %q, queue_config: {batch_send_deadline: 200ms}}]
`, o.ScrapeTargetJobName, o.ScrapeTargetHostPort, o.RemoteWriteEndpointURL, o.RemoteWriteMessage)
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.path, "--storage.tsdb.path", filepath.Join(dir, "data"), "--config.file", config, "--web.listen-address", "127.0.0.1:0",
		"--enable-feature=st-storage")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%w: %s", err, out)
}

// The field's suite for senders.
func TestRemoteWriteSender_PassesTheSuite(t *testing.T) {
	suite.RunTests(t, &scrapingSender{t, buildServe(t)}, suite.ComplianceTests())
}
