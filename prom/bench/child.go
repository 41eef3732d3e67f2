package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strconv"

	"github.com/pkg/errors"
)

// childEnv holds the task of a process that was started for one.
const childEnv = "TSDB_BENCH_TASK"

// RunChild does the task of this process and ends it, if it was started for one;
// otherwise it returns. A program that calls Compare calls this first.
func RunChild() {
	order := os.Getenv(childEnv)
	if order == "" {
		return
	}
	// Who interrupts a comparison at a terminal interrupts all of its processes. The one that
	// started this one decides.
	signal.Ignore(os.Interrupt)
	var t task
	err := json.Unmarshal([]byte(order), &t)
	var m measures
	if err == nil {
		m, err = t.profiled()
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(m)
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// profiled does the task under the processor profiler, if it says so.
func (t task) profiled() (m measures, err error) {
	if t.Profile == "" {
		return t.run()
	}
	f, err := os.Create(t.Profile)
	if err != nil {
		return nil, errors.Wrap(err, "create profile")
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = errors.Wrap(closeErr, "write profile")
		}
	}()
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Wrap(err, "start profile")
	}
	defer pprof.StopCPUProfile()
	return t.run()
}

// command returns a process that will do a task: this program, started again.
func (t task) command(ctx context.Context) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, errors.Wrap(err, "find this program")
	}
	order, err := json.Marshal(t)
	if err != nil {
		return nil, errors.Wrap(err, "encode task")
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childEnv+"="+string(order))
	if t.Procs > 0 {
		cmd.Env = append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(t.Procs))
	}
	return cmd, nil
}

// runInChild does a task in a process of its own.
func (t task) runInChild(ctx context.Context) (measures, error) {
	cmd, err := t.command(ctx)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer // what libraries print as they start is of no use
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.Wrapf(err, "%s with %s: %s", t.Kind, t.Engine, bytes.TrimSpace(said.Bytes()))
	}
	var m measures
	return m, errors.Wrap(json.Unmarshal(out, &m), "decode result")
}
