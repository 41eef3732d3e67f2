package main

import (
	stderrors "errors"
	"os"
	"runtime"
	"runtime/pprof"
	"runtime/trace"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"
)

// profiles are the files that a run leaves for "go tool pprof" and "go tool trace";
// an empty name is none.
type profiles struct{ cpu, memory, trace string }

func (p *profiles) flags(app *kingpin.Application) {
	app.Flag("cpuprofile", "Write a CPU profile of the command to this file.").PlaceHolder("FILE").StringVar(&p.cpu)
	app.Flag("memprofile", "Write an allocation profile to this file at the end.").PlaceHolder("FILE").StringVar(&p.memory)
	app.Flag("trace", "Write an execution trace to this file.").PlaceHolder("FILE").StringVar(&p.trace)
}

// start begins what was asked for; the function it returns ends it and must be
// called once.
func (p *profiles) start() (func() error, error) {
	var stops []func() error
	stop := func() error {
		var err error
		for _, f := range stops {
			err = stderrors.Join(err, f())
		}
		return err
	}
	for _, kind := range []struct {
		file  string
		begin func(*os.File) (func() error, error)
	}{
		{p.cpu, startCPUProfile}, {p.trace, startTrace}, {p.memory, startMemoryProfile},
	} {
		if kind.file == "" {
			continue
		}
		f, err := os.Create(kind.file)
		if err != nil {
			return nil, stderrors.Join(errors.Wrap(err, "create profile"), stop())
		}
		end, err := kind.begin(f)
		if err != nil {
			return nil, stderrors.Join(err, f.Close(), stop())
		}
		stops = append(stops, func() error { return stderrors.Join(end(), f.Close()) })
	}
	return stop, nil
}

func startCPUProfile(f *os.File) (func() error, error) {
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Wrap(err, "start CPU profile")
	}
	return func() error { pprof.StopCPUProfile(); return nil }, nil
}

func startTrace(f *os.File) (func() error, error) {
	if err := trace.Start(f); err != nil {
		return nil, errors.Wrap(err, "start trace")
	}
	return func() error { trace.Stop(); return nil }, nil
}

func startMemoryProfile(f *os.File) (func() error, error) {
	return func() error {
		runtime.GC() // so that live memory is up to date
		return errors.Wrap(pprof.Lookup("allocs").WriteTo(f, 0), "write memory profile")
	}, nil
}
