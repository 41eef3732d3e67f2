package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os/exec"

	"github.com/pkg/errors"
)

// child is a process that tells what it does while it is at work.
type child struct {
	cmd  *exec.Cmd
	out  io.Reader
	said bytes.Buffer
}

// start begins a task in a process of its own.
func (t task) start(ctx context.Context) (*child, error) {
	cmd, err := t.command(ctx)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd}
	cmd.Stderr = &c.said
	if c.out, err = cmd.StdoutPipe(); err != nil {
		return nil, errors.Wrap(err, "make pipe")
	}
	return c, errors.Wrap(cmd.Start(), "start process")
}

// each calls fn for each message until the process ends. What one that is killed has not
// written as a whole is left out.
func (c *child) each(fn func(sustainMessage)) error {
	lines := bufio.NewReader(c.out)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.Wrap(err, "read messages")
		}
		var m sustainMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return errors.Wrap(err, "decode message")
		}
		fn(m)
	}
}

// wait returns when the process has ended, with what it said if it failed.
func (c *child) wait() error {
	return errors.Wrapf(c.cmd.Wait(), "process: %s", bytes.TrimSpace(c.said.Bytes()))
}
