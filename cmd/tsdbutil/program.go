package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/alecthomas/kingpin/v2"
	"github.com/pkg/errors"
)

const about = `Record, query, dump and measure tsdb databases.

Data goes to standard output, messages and progress to standard error. Exit codes: 0, 1 (a problem), 2 (usage), 130 (interrupted). Start with "tsdbutil demo". Shell completion: eval "$(tsdbutil --completion-script-bash)" or -zsh.`

// command is what runs when the command line has been read.
type command func(ctx context.Context, c *console) error

// program is the command line: its commands by their full names, and the flags that
// all of them have.
type program struct {
	app      *kingpin.Application
	commands map[string]command
	profiles profiles
}

func newProgram(c *console) *program {
	kingpin.EnableFileExpansion = false // an argument with @ is an argument
	p := &program{app: kingpin.New("tsdbutil", about), commands: map[string]command{}}
	p.app.UsageWriter(c.out)
	p.app.ErrorWriter(c.err)
	p.app.UsageTemplate(usageTemplate)
	p.app.UsageFuncs(usageFuncs)
	p.app.HelpFlag.Short('h').Help("Show what a command does and its flags; --help-man is a manual page.")
	p.app.Version(version())
	p.profiles.flags(p.app)
	p.addDemo()
	p.addDemoRecord()
	p.addQuery()
	p.addDump()
	p.addDumpOpenMetrics()
	p.addImport()
	p.addList()
	p.addAnalyze()
	p.addRetention()
	p.addVerify()
	p.addRepair()
	p.addBackup()
	p.addBackups()
	p.addRestore()
	p.addServe()
	p.addRead()
	bench := p.app.Command("bench", "Measure writing and recovery on this machine.")
	p.addBenchWrite(bench)
	p.addBenchReplay(bench)
	return p
}

// add makes run what a command does.
func (p *program) add(cmd *kingpin.CmdClause, run command) {
	p.commands[cmd.FullCommand()] = run
}

// outputFlag adds --output with the formats that a command has, its default first.
func outputFlag(cmd *kingpin.CmdClause, target *string, formats ...string) {
	cmd.Flag("output", "Output format: "+strings.Join(formats, ", ")+".").
		Short('o').Default(formats[0]).HintOptions(formats...).EnumVar(target, formats...)
}

// version is that of the module, and the revision it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && !strings.Contains(v, s.Value[:min(12, len(s.Value))]) {
			v += " " + s.Value
		}
	}
	return v + " " + info.GoVersion
}

// run is the whole program; it returns the exit code.
func run(args []string, out, errw *os.File) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	return execute(ctx, args, newConsole(out, errw))
}

// execute reads a command line and does what it says. Only --help, --version and the
// completion flags end the process.
func execute(ctx context.Context, args []string, c *console) int {
	p := newProgram(c)
	if len(args) == 0 {
		p.app.UsageWriter(c.err)
		p.app.Terminate(nil)
		p.app.Usage(nil)
		return exitUsage
	}
	name, err := p.parse(args)
	if errors.Is(err, syscall.EPIPE) {
		return exitOK
	}
	if err != nil {
		return report(ctx, c, usageError(p.explain(args, err)+"; \"tsdbutil help\" tells more"))
	}
	stop, err := p.profiles.start()
	if err != nil {
		return report(ctx, c, err)
	}
	err = p.commands[name](ctx, c)
	if perr := stop(); err == nil {
		err = perr
	}
	return report(ctx, c, err)
}

// parse reads a command line. The library panics when it cannot write a help text.
func (p *program) parse(args []string) (name string, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case error:
			err = errors.Wrap(cause, "write help")
		default:
			panic(cause)
		}
	}()
	return p.app.Parse(joinNegative(args))
}

// explain writes why a command line could not be read, with the flag that has a wrong value: the
// library says only what is wrong with the value.
func (p *program) explain(args []string, err error) string {
	text := err.Error()
	if number := new(strconv.NumError); errors.As(err, &number) && errors.Is(number, strconv.ErrSyntax) {
		text = quoted(number.Num) + " is no whole number"
	}
	line, parseErr := p.app.ParseContext(joinNegative(args))
	if parseErr != nil {
		return text
	}
	for _, element := range line.Elements {
		flag, ok := element.Clause.(*kingpin.FlagClause)
		if !ok {
			continue
		}
		if again := flag.Model().Value.Set(*element.Value); again != nil && again.Error() == err.Error() {
			return "--" + flag.Model().Name + ": " + text
		}
	}
	return text
}

// standardInput is what an argument of "-" becomes.
const standardInput = "<stdin>"

// joinNegative lets a flag have a value that begins with a minus sign and a digit, as
// in --start -5m; the parser would take it for flags. It also names standard input.
func joinNegative(args []string) []string {
	joined := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		if arg == "-" { // the parser would make it an empty argument
			arg = standardInput
		}
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if last := len(joined) - 1; negative && last >= 0 && strings.HasPrefix(joined[last], "--") && !strings.Contains(joined[last], "=") {
			joined[last] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// report says what went wrong, if anything did, and picks the exit code.
func report(ctx context.Context, c *console, err error) int {
	switch cause := context.Cause(ctx); {
	case err == nil:
		return exitOK
	case errors.Is(err, syscall.EPIPE):
		return exitOK // who read the output has enough
	case errors.Is(cause, errInterrupted):
		return exitInterrupted
	case errors.Is(cause, errTerminated):
		return exitTerminated
	case errors.Is(err, errProblem):
		return exitProblem
	case errors.Is(err, errUsage):
		c.message("error: %v", err)
		return exitUsage
	default:
		c.message("error: %v", err)
		return exitProblem
	}
}

// interruptible returns a context that SIGINT and SIGTERM end. A second signal ends
// the process at once. A closed pipe becomes an error of the write, so that a
// database is closed properly when "| head" has seen enough.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s == os.Interrupt {
				cancel(errInterrupted)
			} else {
				cancel(errTerminated)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		signal.Stop(signals)
		signal.Stop(pipes)
	}
}
