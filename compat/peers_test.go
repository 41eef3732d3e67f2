package compat

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// program is one of the reference's, or a server of ours, built from the module that tests import.
// The go command keeps what it built in its cache, so it takes minutes once and seconds from then
// on.
type program struct {
	name  string
	once  sync.Once
	path  string
	error string
}

var (
	promtoolProgram   = &program{name: "promtool"}
	prometheusProgram = &program{name: "prometheus"}
	tsdbserveProgram  = &program{name: "tsdbserve"}
)

// build returns the path of the program. It leaves out service discovery, two in five
// packages.
func (p *program) build(t testing.TB) string {
	t.Helper()
	p.once.Do(func() {
		cmd := exec.Command("go", "tool", "-n", p.name) // builds it and says where it is
		cmd.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -tags=remove_all_sd"))
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if err != nil {
			p.error = err.Error() + ": " + complaints.String()
			return
		}
		p.path = strings.TrimSpace(string(out))
	})
	require.Empty(t, p.error, "build %s", p.name)
	require.FileExists(t, p.path)
	return p.path
}
