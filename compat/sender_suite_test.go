package compat

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/compliance/remotewrite/sender"
	"github.com/stretchr/testify/require"
)

// serveBinary is our server, built once.
var serveBinary struct {
	sync.Once
	path string
	err  error
}

// buildServe builds our server, which is in a module of its own.
func buildServe(t *testing.T) string {
	t.Helper()
	serveBinary.Do(func() {
		dir, err := os.MkdirTemp("", "tsdbserve")
		if err == nil {
			serveBinary.path = filepath.Join(dir, "tsdbserve")
			cmd := exec.Command("go", "build", "-o", serveBinary.path, "./cmd/tsdbserve")
			cmd.Dir = filepath.Join("..", "prom")
			var out []byte
			if out, err = cmd.CombinedOutput(); err != nil {
				err = fmt.Errorf("build tsdbserve: %w: %s", err, out)
			}
		}
		serveBinary.err = err
	})
	require.NoError(t, serveBinary.err)
	return serveBinary.path
}

// scrapingSender is our server as the suite sees it.
type scrapingSender struct {
	t    *testing.T
	path string
}

func (s *scrapingSender) Name() string { return "tsdbserve" }

// Run scrapes and sends until the context ends.
func (s *scrapingSender) Run(ctx context.Context, o sender.Options) error {
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
	sender.RunTests(t, &scrapingSender{t, buildServe(t)}, sender.ComplianceTests())
}
