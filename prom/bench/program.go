package bench

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pkg/errors"
)

// program measures the least program that uses an engine: stripped, without cgo. It must be
// run within this module, or the go command does not know the engines.
func program(t task) (measures, error) {
	if err := os.MkdirAll(t.Dir, 0o777); err != nil {
		return nil, errors.Wrap(err, "make directory")
	}
	file := filepath.Join(t.Dir, "program")
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", file, "github.com/seed347100a3/tsdb/prom/bench/cmd/minimal/"+t.Engine)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, errors.Wrapf(err, "build program: %s", out)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, errors.Wrap(err, "look at program")
	}
	built, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, errors.Wrap(err, "read modules of program")
	}
	return measures{"program/size": float64(info.Size()), "program/modules": float64(len(built.Deps))}, nil
}
