package receiver

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The suite is a package of tests that sends to the address that a file names.
func TestOurServer_PassesTheSuiteOfReceivers(t *testing.T) {
	dir := t.TempDir()
	server := filepath.Join(dir, "tsdbserve")
	build := exec.Command("go", "build", "-o", server, "./cmd/tsdbserve")
	build.Dir = filepath.Join("..", "..", "prom")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	serve := exec.Command(server, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0", "--web.enable-remote-write-receiver")
	said, err := serve.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, serve.Start())
	defer func() {
		require.NoError(t, serve.Process.Signal(os.Interrupt))
		require.NoError(t, serve.Wait())
	}()
	url, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)

	config := filepath.Join(dir, "suite.yml")
	text := "remote_write: [{name: ours, url: " + strings.TrimSpace(url) + "/api/v1/write, protobuf_message: io.prometheus.write.v2.Request}]\n"
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	suite := exec.Command("go", "test", "-count=1", "-vet=off", "-v", "github.com/prometheus/complicance/remotewrite2")
	suite.Env = append(os.Environ(), "PROMETHEUS_RW2_COMPLIANCE_CONFIG_FILE="+config)
	out, err = suite.CombinedOutput()
	require.NoError(t, err, "%s", out)
	passed := strings.Count(string(out), "\n--- PASS: ")
	t.Logf("%d tests of the suite pass", passed)
	require.GreaterOrEqual(t, passed, 39)
	require.NotContains(t, string(out), "--- SKIP", "%s", out)
}
